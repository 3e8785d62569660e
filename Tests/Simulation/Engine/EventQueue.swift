/// What is to happen at which virtual time: a binary heap, in the order of arrival among equals.
struct EventQueue<Happening> {
    struct Entry {
        let time: UInt64
        let number: UInt64
        let happening: Happening

        func precedes(_ other: Entry) -> Bool { (time, number) < (other.time, other.number) }
    }

    private var heap: [Entry] = []
    private var number: UInt64 = 0

    var isEmpty: Bool { heap.isEmpty }

    mutating func add(_ happening: Happening, at time: UInt64) {
        number += 1
        heap.append(Entry(time: time, number: number, happening: happening))
        var child = heap.count - 1
        while child > 0, case let parent = (child - 1) / 2, heap[child].precedes(heap[parent]) {
            heap.swapAt(child, parent)
            child = parent
        }
    }

    mutating func next() -> Entry? {
        guard let first = heap.first, let last = heap.popLast() else { return nil }
        guard !heap.isEmpty else { return first }
        heap[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count {
                if heap[child].precedes(heap[least]) { least = child }
            }
            guard least != parent else { return first }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
