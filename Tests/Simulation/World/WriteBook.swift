import CRDT

/// What became of every write that an application made, whatever actor it was moved to.
struct WriteBook {
    struct Write {
        let peer: Int
        var keys: [DocumentKey] = []
        /// Marks that its author saw when it was made.
        var causes: [Int] = []
        /// Why it was refused; nil while it was not.
        var code: String?
        /// Its store was put back before the server had it, or it was under way when the power went: nobody
        /// can bring it back.
        var isForgiven = false
        /// Its store was put back before it heard what became of it: it will not hear of a refusal.
        var isForgotten = false

        /// Whether it has to be seen where its documents are.
        var mustShow: Bool { code == nil && !isForgiven }
    }

    private(set) var writes: [Write] = []
    private(set) var rollBacks = 0

    subscript(number: Int) -> Write {
        get { writes[number] }
        set { writes[number] = newValue }
    }

    mutating func begin(_ peer: Int, causes: [Int]) -> Int {
        writes.append(Write(peer: peer, causes: causes))
        return writes.count - 1
    }

    /// A store forgot what it had written beyond `kept`, unless the log has it.
    mutating func rolledBack(_ peer: Int, kept: Set<Int>, isInLog: (Int) -> Bool) {
        rollBacks += 1
        for number in writes.indices where writes[number].peer == peer && writes[number].code == nil {
            guard !kept.contains(number) else { continue }
            writes[number].isForgotten = true
            if !isInLog(number) { writes[number].isForgiven = true }
        }
    }
}
