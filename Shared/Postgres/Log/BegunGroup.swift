import CRDT
import OperationLog

/// One database's part of a group.
struct GroupPart {
    let database: DatabaseID
    /// The places of its calls in the group.
    let numbers: [Int]
    let operations: [PreparedOperation]

    /// The parts of a group, databases in a fixed order, so that two processes never wait for each other in a
    /// ring.
    static func all(of calls: [AppendCall]) -> [GroupPart] {
        guard let first = calls.first?.database else { return [] }
        // Most groups are of one database.
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

    /// Without the calls that depend on another term; nil when nothing is left.
    func inTerm(_ term: UInt64, _ calls: [AppendCall]) -> GroupPart? {
        let own = numbers.filter { calls[$0].isInTerm(term) }
        guard own.count < numbers.count else { return self }
        return own.isEmpty ? nil : GroupPart(database, own, calls)
    }
}

extension AppendCall {
    /// Whether it may be appended in this term.
    func isInTerm(_ current: UInt64) -> Bool { term.map { $0 == current } ?? true }
}

/// What became of a group so far.
struct PartialOutcome {
    /// By call.
    var results: [Result<[AppendOutcome], OperationLogError>]
    /// The new heads of the databases that grew.
    var grown: [DatabaseID: Offset] = [:]

    init(_ calls: [AppendCall]) { results = Array(repeating: .success([]), count: calls.count) }

    /// What to tell the callers. Nothing is to be tried again with tables that another build has changed.
    var ended: GroupOutcome {
        for case .failure(let error) in results where error.code == .newerFormat { return .poisoned(error) }
        return .committed(results)
    }

    /// Takes note of the calls that depend on another term.
    mutating func refuse(_ calls: [AppendCall], notIn term: UInt64) {
        for (number, call) in calls.enumerated() where !call.isInTerm(term) {
            // What was sent in its term has its outcome.
            guard case .success(let outcomes) = results[number], outcomes.isEmpty else { continue }
            results[number] = .success(call.operations.map { _ in .conflict(.termOver) })
        }
    }

    /// Takes note of a part that was appended behind `before`.
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

/// A group whose commit was begun: sent, or only taken note of.
final class BegunGroup {
    let calls: [AppendCall]
    let parts: [GroupPart]
    /// The head before each part, if the group was sent.
    var sent: [Offset] = []
    /// The actors that it was sent with and the writer did not know.
    var strangers: Set<ActorID> = []
    /// Whether the server has appended each part that was sent; nil until that was read.
    var answer: Result<[Bool], PostgresError>?

    init(_ calls: [AppendCall]) {
        self.calls = calls
        parts = GroupPart.all(of: calls)
    }
}
