import CRDT

/// Drafts on one snapshot, each on what the ones before it leave: several writes that one append will carry.
///
/// Invariant: each operation's stamp exceeds those before it, and sequences follow one another. A draft that
/// fails or changes nothing leaves the chain as it was. Belongs to one thread.
public struct DraftChain {
    /// The result of one draft.
    public struct Drafted<Value> {
        /// The closure's result.
        public let value: Value
        /// The operation for the log; nil when nothing was changed.
        public let operation: Operation?
        /// Documents above the soft limit.
        public let warnings: [String]

        /// A result.
        public init(value: Value, operation: Operation?, warnings: [String]) {
            (self.value, self.operation, self.warnings) = (value, operation, warnings)
        }
    }

    private var base: any DraftBase
    private let actor: ActorID
    private var sequence: SequenceNumber
    private var latest: Timestamp
    private let wallMilliseconds: () -> UInt64
    private let refuse: (DraftRefusal) -> any Error

    /// A chain without drafts; the parameters are those of `WriteDraft`.
    public init(
        on base: any DraftBase, as actor: ActorID, sequence: SequenceNumber, after latest: Timestamp,
        wallMilliseconds: @escaping () -> UInt64, refuse: @escaping (DraftRefusal) -> any Error
    ) {
        self.base = base
        self.actor = actor
        self.sequence = sequence
        self.latest = latest
        self.wallMilliseconds = wallMilliseconds
        self.refuse = refuse
    }

    /// Makes the next draft.
    /// - Parameters:
    ///   - check: refuses an operation by throwing.
    ///   - body: gets the draft and the sequence that its operation would have.
    public mutating func add<Value>(
        checking check: (Operation) throws -> Void,
        _ body: (WriteDraft, SequenceNumber) throws -> Value
    ) throws -> Drafted<Value> {
        let draft = WriteDraft(
            on: base, as: actor, sequence: sequence, after: latest, wallMilliseconds: wallMilliseconds(),
            refuse: refuse)
        let value = try body(draft, sequence)
        let operation = try draft.operation()
        if let operation {
            try check(operation)
            base = draft
            latest = operation.timestamp
            sequence = sequence.next
        }
        return Drafted(value: value, operation: operation, warnings: draft.warnings)
    }

    /// Makes drafts until there are no more, or one says so.
    /// - Parameter goesOn: asked after each, with its error if it failed; returns false to end the chain. By
    ///   throwing it makes the error one of all.
    /// - Returns: the results of those that were made.
    public static func all<Work, Value>(
        _ works: [Work], goesOn: ((any Error)?) throws -> Bool, _ make: (Work) throws -> Drafted<Value>
    ) rethrows -> [Result<Drafted<Value>, any Error>] {
        var results: [Result<Drafted<Value>, any Error>] = []
        for work in works {
            let result = Result { try make(work) }
            results.append(result)
            var failure: (any Error)?
            if case .failure(let error) = result { failure = error }
            guard try goesOn(failure) else { break }
        }
        return results
    }
}
