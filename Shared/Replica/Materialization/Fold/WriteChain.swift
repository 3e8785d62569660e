import CRDT
import DQL
import Exchange
import GRDB
import Machine

extension Materialization {
    /// Drafts several pieces of work, each on what those before it leave (`DraftChain`), lets `append` bring
    /// the operations into the log, and folds them, all in one transaction. Other writers wait meanwhile, for
    /// the log too; readers do not.
    ///
    /// A draft that inserted documents is kept as the fold of its operation; any other one is undone, and its
    /// operation folded. Either way the tables are as if the entries had been folded from the log.
    /// - Parameters:
    ///   - goesOn: see `DraftChain.all`.
    ///   - check: refuses an operation by throwing.
    ///   - append: gets the drafts that were made, and returns the entries of the first operations in them,
    ///     as far as they directly follow the checkpoint in the log.
    /// - Returns: the folded operations.
    public func write<Work, Value>(
        as actor: ActorID, sequence: SequenceNumber, _ works: [Work],
        goesOn: ((any Error)?) throws -> Bool, checking check: (Operation) throws -> Void,
        appending append: ([Result<DraftChain.Drafted<Value>, any Error>]) throws -> [LogItem],
        _ body: (Work, WriteTransaction, SequenceNumber) throws -> Value
    ) throws -> [FoldedOperation] {
        precondition(sequence > 0, "the sequences of a log begin at 1")
        return try store.committing { database, state in
            var chain = WriteChain(database, state, store.environment, as: actor, sequence: sequence)
            var folder = Folder(database, store.logger)
            var items: [LogItem] = []
            var kept: [FoldedOperation]?
            try database.inSavepoint {
                let links = try DraftChain.all(works, goesOn: goesOn) { work in
                    try chain.add(checking: check) { try body(work, $0, $1) }
                }
                items = try append(links)
                kept = try chain.keep(items, &folder, &state)
                return kept == nil ? .rollback : .commit
            }
            let folded = try kept ?? items.map { try folder.fold($0, &state) }
            try folder.frontier.save(database)
            try folder.history.save(database)
            return folded
        }
    }
}

/// Drafts in the transaction that will fold them.
private struct WriteChain {
    private let database: Database
    private let environment: Environment
    /// The state as the next draft sees it.
    private var state: StoreState
    /// The operations, and the states of what each has inserted; nil for one that did more than that.
    private var drafted: [(operation: CRDT.Operation, inserted: [EncodedState]?)] = []

    init(
        _ database: Database, _ state: StoreState, _ environment: Environment, as actor: ActorID,
        sequence: SequenceNumber
    ) {
        self.database = database
        self.environment = environment
        self.state = state
        self.state.write(as: actor, next: sequence)
    }

    /// Makes the next draft, in a savepoint. Nothing is left of one that fails or changes nothing.
    mutating func add<Value>(
        checking check: (CRDT.Operation) throws -> Void,
        _ body: (WriteTransaction, SequenceNumber) throws -> Value
    ) throws -> DraftChain.Drafted<Value> {
        var link: DraftChain.Drafted<Value>?
        try database.inSavepoint {
            let transaction = WriteTransaction(database, state, environment, liveQueries: [])
            let value = try body(transaction, state.sequence.next)
            let operation = try transaction.made()?.own?.operation
            link = DraftChain.Drafted(value: value, operation: operation, warnings: transaction.warnings)
            guard let operation else { return .rollback }
            try check(operation)
            state = transaction.state
            state.wrote(operation.sequence)
            // The next draft's documents belong to the next offset.
            state.advance()
            drafted.append((operation, transaction.insertedStates))
            return .commit
        }
        guard let link else { preconditionFailure("a draft left no result") }
        return link
    }

    /// Keeps the drafts as the fold of these entries; nil if they have to be undone.
    func keep(
        _ items: [Materialization.LogItem], _ folder: inout Folder, _ state: inout StoreState
    ) throws -> [FoldedOperation]? {
        guard items.count == drafted.count, drafted.allSatisfy({ $0.inserted != nil }) else { return nil }
        return try zip(items, drafted).map { item, draft in
            try folder.keep(item, draft.operation, draft.inserted ?? [], &state)
        }
    }
}
