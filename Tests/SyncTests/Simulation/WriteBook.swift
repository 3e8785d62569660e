import CRDT

/// What became of every write that an application made, whatever actor it was moved to.
struct WriteBook {
    struct Write {
        let peer: Int
        var keys: [DocumentKey] = []
        /// Why it was refused; nil while it was not.
        var code: String?
        /// Its store was rolled back before the server had it: nobody can bring it back.
        var isForgiven = false
        var isInLog = false
    }

    private(set) var writes: [Int: Write] = [:]
    private(set) var rollBacks = 0
    private var contents: [UInt64: Int] = [:]

    mutating func begin(_ peer: Int) -> Int {
        writes[writes.count + 1] = Write(peer: peer)
        return writes.count
    }

    mutating func written(_ number: Int, _ keys: [DocumentKey], _ bytes: [UInt8]) {
        writes[number]?.keys = keys
        moved(number, bytes)
    }

    mutating func moved(_ number: Int, _ bytes: [UInt8]) {
        contents[bytes.withUnsafeBytes { hash64($0, seed: 0) }] = number
    }

    mutating func refused(_ number: Int, _ code: String) { writes[number]?.code = code }

    mutating func appended(_ bytes: [UInt8]) {
        guard let number = contents[bytes.withUnsafeBytes { hash64($0, seed: 0) }] else { return }
        writes[number]?.isInLog = true
    }

    /// A store forgot what it had written and does not keep.
    mutating func rolledBack(_ peer: Int, kept: Set<Int>) {
        rollBacks += 1
        for (number, write) in writes where write.peer == peer && !write.isInLog && write.code == nil {
            if !kept.contains(number) { writes[number]?.isForgiven = true }
        }
    }
}
