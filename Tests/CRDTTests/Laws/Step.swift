/// One step of a random history. What refers to a write that is not there (any more) does nothing, so that a
/// history with steps left out is a history too: that is what shrinking needs.
enum Step: Sendable, CustomStringConvertible {
    /// A replica's transaction; its wall clock stands at `wall` milliseconds.
    case write(number: Int, replica: Int, wall: UInt64, [Edit])
    /// The delta of the write with this number reaches a replica; without its base the full state follows,
    /// as it was after the delta (`late`: as its author has it now).
    case deliver(delta: Int, replica: Int, late: Bool)
    /// A full state travels.
    case merge(from: Int, into: Int)
    /// A state as it was after some write travels.
    case mergeOld(delta: Int, into: Int)
    /// A replica forgets the document and will write with another actor (rule 10).
    case evict(replica: Int)
    /// A replica keeps the document and goes on with another actor (rules 9 and 20).
    case changeActor(replica: Int)

    var description: String {
        switch self {
        case .write(let number, let replica, let wall, let edits):
            "\(replica) writes, as \(number), at \(wall): \(edits)"
        case .deliver(let delta, let replica, let late):
            "\(replica) gets delta \(delta), else the \(late ? "current" : "old") state"
        case .merge(let from, let into): "\(into) merges \(from)"
        case .mergeOld(let delta, let into): "\(into) merges the state after delta \(delta)"
        case .evict(let replica): "\(replica) evicts"
        case .changeActor(let replica): "\(replica) takes another actor"
        }
    }

    /// The step with one statement less, for every statement it can lose.
    var smaller: [Step] {
        guard case .write(let number, let replica, let wall, let edits) = self, edits.count > 1 else {
            return []
        }
        return edits.indices.map { left in
            var fewer = edits
            fewer.remove(at: left)
            return .write(number: number, replica: replica, wall: wall, fewer)
        }
    }
}
