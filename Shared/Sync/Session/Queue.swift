/// A queue whose head leaves without moving what is behind it: thousands of small frames may wait in one.
struct Queue<Element: Sendable>: Sendable {
    private var items: [Element?] = []
    private var head = 0

    var isEmpty: Bool { head == items.count }
    var count: Int { items.count - head }
    var first: Element? { head < items.count ? items[head] : nil }

    var last: Element? { isEmpty ? nil : items[items.count - 1] }

    mutating func removeLast() {
        precondition(!isEmpty, "nothing leaves an empty queue")
        items.removeLast()
    }

    mutating func append(_ element: Element) { items.append(element) }

    /// Puts an element before all others.
    mutating func prepend(_ element: Element) {
        if head > 0 {
            head -= 1
            items[head] = element
        } else {
            items.insert(element, at: 0)
        }
    }

    @discardableResult
    mutating func removeFirst() -> Element {
        precondition(head < items.count, "nothing leaves an empty queue")
        guard let element = items[head] else { preconditionFailure("what is behind the head is there") }
        items[head] = nil
        head += 1
        // What has left is let go of when it is the larger part, so each element is moved once at most.
        if head == items.count {
            items.removeAll(keepingCapacity: head <= 64)
            head = 0
        } else if head > 64, head > items.count / 2 {
            items.removeFirst(head)
            head = 0
        }
        return element
    }
}
