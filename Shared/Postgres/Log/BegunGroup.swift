import CRDT
import OperationLog

/// One database's part of a group.
struct GroupPart {
    let database: DatabaseID
    /// The indexes of its calls in the group.
    let numbers: [Int]
    let operations: [PreparedOperation]

    /// The parts of a group, databases in a fixed order, so that two processes never deadlock.
    static func all(of calls: [AppendCall]) -> [GroupPart] {
        guard let first = calls.first?.database else { return [] }
        // Most groups have one database.
        if calls.allSatisfy({ $0.database == first }) {
            return [GroupPart(first, Array(calls.indices), calls)]
        }
        let numbers = Dictionary(grouping: calls.indices) { calls[$0].database }
        return numbers.keys.sorted().map { database in
            let own = numbers[database] ?? []
            return GroupPart(database, own, calls)
        }
    }

    private init(_ database: DatabaseID, _ numbers: [Int], _ calls: [AppendCall]) {
        (self.database, self.numbers) = (database, numbers)
        operations =
            numbers.count == 1 ? calls[numbers[0]].operations : numbers.flatMap { calls[$0].operations }
    }

    /// The part without the calls that depend on another term; nil when nothing is left.
    func inTerm(_ term: UInt64, _ calls: [AppendCall]) -> GroupPart? {
        let own = numbers.filter { calls[$0].isInTerm(term) }
        guard own.count < numbers.count else { return self }
        return own.isEmpty ? nil : GroupPart(database, own, calls)
    }
}

extension AppendCall {
    /// Returns whether it may be appended in this term.
    func isInTerm(_ current: UInt64) -> Bool { term.map { $0 == current } ?? true }
}

/// The outcome of a group so far.
struct PartialOutcome {
    /// By call.
    var results: [Result<[AppendOutcome], OperationLogError>]
    /// The new heads of the databases that grew.
    var grown: [DatabaseID: Offset] = [:]

    init(_ calls: [AppendCall]) { results = Array(repeating: .success([]), count: calls.count) }

    /// The final outcome. A format changed by another build poisons the writer, because retrying cannot
    /// succeed.
    var ended: GroupOutcome {
        for case .failure(let error) in results where error.code == .unsupportedFormat {
            return .poisoned(error)
        }
        return .committed(results)
    }

    /// Refuses the calls that depend on another term.
    mutating func refuse(_ calls: [AppendCall], notIn term: UInt64) {
        for (number, call) in calls.enumerated() where !call.isInTerm(term) {
            // A call that was sent in its term already has its outcome.
            guard case .success(let outcomes) = results[number], outcomes.isEmpty else { continue }
            results[number] = .success(call.operations.map { _ in .conflict(.termOver) })
        }
    }

    /// Records a part that was appended after `before`.
    mutating func take(_ part: GroupPart, _ calls: [AppendCall], from before: Offset) {
        var offset = before
        for number in part.numbers {
            results[number] = .success(
                calls[number].operations.map { _ in
                    offset = offset.next
                    return .appended(offset: offset)
                })
        }
        grown[part.database] = offset
    }
}

/// A group whose commit was begun: sent, or only recorded.
final class BegunGroup {
    let calls: [AppendCall]
    let parts: [GroupPart]
    /// The head before each part, if the group was sent.
    var sent: [Offset] = []
    /// The actors of the sent operations that the writer did not know.
    var strangers: Set<ActorID> = []
    /// For each sent part, whether the server has appended it; nil until the answer was read.
    var answer: Result<[Bool], PostgresError>?

    init(_ calls: [AppendCall]) {
        self.calls = calls
        parts = GroupPart.all(of: calls)
    }
}
