/// A queue whose head leaves without moving the elements behind it: thousands of small frames may wait in
/// one.
struct Queue<Element: Sendable>: Sendable {
    private var slots: [Element?] = []
    private var head = 0

    var isEmpty: Bool { head == slots.count }
    var count: Int { slots.count - head }
    var first: Element? { head < slots.count ? slots[head] : nil }

    /// All that waits, in order.
    var items: some Sequence<Element> { slots[head...].lazy.compactMap(\.self) }

    var last: Element? { isEmpty ? nil : slots[slots.count - 1] }

    mutating func removeLast() {
        precondition(!isEmpty, "nothing leaves an empty queue")
        slots.removeLast()
    }

    mutating func append(_ element: Element) { slots.append(element) }

    /// Puts an element before all others.
    mutating func prepend(_ element: Element) {
        if head > 0 {
            head -= 1
            slots[head] = element
        } else {
            slots.insert(element, at: 0)
        }
    }

    @discardableResult
    mutating func removeFirst() -> Element {
        precondition(head < slots.count, "nothing leaves an empty queue")
        guard let element = slots[head] else { preconditionFailure("what is behind the head is there") }
        slots[head] = nil
        head += 1
        // Empty slots are removed when they are the larger part, so each element is moved once at most.
        if head == slots.count {
            slots.removeAll(keepingCapacity: head <= 64)
            head = 0
        } else if head > 64, head > slots.count / 2 {
            slots.removeFirst(head)
            head = 0
        }
        return element
    }
}
