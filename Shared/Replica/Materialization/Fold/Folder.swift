import CRDT
import Exchange
import GRDB
import Logging

/// Folds entries within one transaction: `Fold.step` with the documents tables around it.
struct Folder {
    /// The frontier, behind every entry folded so far.
    private(set) var frontier = FoldedFrontier()
    /// The history of the entries folded so far.
    private(set) var history = FoldedHistory()
    private let database: Database
    private let logger: Logger
    private var collections = Collections()

    init(_ database: Database, _ logger: Logger) {
        self.database = database
        self.logger = logger
    }

    /// Folds one entry and moves the checkpoint onto it.
    mutating func fold(_ item: Materialization.LogItem, _ state: inout StoreState) throws -> FoldedOperation {
        try Self.checkFollows(item.position, state)
        let operation = try undamaged(item.position.offset) { try LoggedOperation(decoding: item.bytes) }
        state.folded(to: item.position)
        try state.observe(operation.latestTime)
        var changes: [FoldedOperation.Change] = []
        var reaped: [FoldedOperation.Change] = []
        for change in operation.changes {
            switch try fold(change, state) {
            case .changed(let change):
                changes.append(change)
            case .reaped(let vector, let last):
                reaped.append(
                    FoldedOperation.Change(
                        key: change.key, delta: nil, before: nil, after: [], gone: vector.encoded()))
                state.reaped(last)
            case .nothing: continue
            }
        }
        let header = operation.header
        frontier.advance(header.actor, header.sequence, header.timestamp)
        history.note(header.actor, header.sequence, origin: header.origin, item.bytes)
        return FoldedOperation(
            position: item.position, stamp: operation.stamp, sequence: header.sequence,
            changes: changes + reaped)
    }

    /// Moves the checkpoint onto an entry whose operation was drafted in this transaction and inserted
    /// documents only, with these states: they stand in the tables as folding the entry would leave them.
    mutating func keep(
        _ item: Materialization.LogItem, _ operation: Operation, _ states: [EncodedState],
        _ state: inout StoreState
    ) throws -> FoldedOperation {
        try Self.checkFollows(item.position, state)
        state.folded(to: item.position)
        try state.observe(operation.timestamp)
        frontier.advance(operation.actor, operation.sequence, operation.timestamp)
        history.note(operation.actor, operation.sequence, origin: operation.origin, item.bytes)
        return FoldedOperation(
            position: item.position, stamp: operation.stamp, sequence: operation.sequence,
            changes: zip(operation.changes, states).map { change, after in
                FoldedOperation.Change(
                    key: DocumentKey(collection: change.collection, id: change.id), delta: change.delta,
                    before: nil, after: after)
            })
    }

    private static func checkFollows(_ position: LogPosition, _ state: StoreState) throws(ReplicaError) {
        guard position.offset == state.foldedThrough.next,
            state.logID == nil || state.logID == position.logID
        else {
            throw ReplicaError(
                .brokenLog, "offset \(position.offset) does not follow the checkpoint \(state.foldedThrough)")
        }
    }

    private enum Effect {
        case changed(FoldedOperation.Change)
        /// At this vector; it had last changed at this offset.
        case reaped(VersionVector, last: Offset)
        case nothing
    }

    private mutating func fold(_ change: LoggedOperation.Change, _ state: StoreState) throws -> Effect {
        let table = try collections.requireNumber(of: change.key.collection, database)
        let id = change.key.id
        // Nearly every insertion is of a document that is not there: then nothing is looked up before.
        if case .insertion(let insertion) = change.content,
            try DocumentRows.add(table, id, position: state.head, state: insertion.state, database)
                != nil
        {
            return .changed(told(change, nil, insertion.state))
        }
        let before = try DocumentRows.state(table, id, database)
        let outcome = try undamaged(state.foldedThrough) { try Fold.step(change.content, on: before) }
        switch outcome {
        case .changed(let after, let isLive):
            try DocumentRows.put(
                table, id, live: isLive, position: state.head, state: after, isNew: before == nil, database)
            return .changed(told(change, before, after))
        case .duplicate:
            // Its sender hears of the state again (rule 16), so the document moves to this offset.
            guard let before else { return .nothing }
            try DocumentRows.move(table, id, position: state.head, database)
            return .changed(told(change, before, before))
        case .reaped(let rest):
            guard case .reaping(let vector) = change.content,
                let last = try DocumentRows.position(table, id, database)
            else { preconditionFailure("only a reaping reaps, and only what is there") }
            if let rest {
                // Nobody has to be told, so the document does not move.
                try DocumentRows.put(table, id, live: false, position: last, state: rest, database)
            } else {
                try DocumentRows.remove(table, id, database)
            }
            return .reaped(vector, last: Offset(last))
        case .void(.baseMissing):
            logger.error(
                "a change in the log is void: its base is missing",
                metadata: ["offset": "\(state.foldedThrough)"])
            return .nothing
        case .void(.noSuchTombstone):
            return .nothing
        }
    }

    private func told(
        _ change: LoggedOperation.Change, _ before: EncodedState?, _ after: EncodedState
    ) -> FoldedOperation.Change {
        let delta: EncodedDelta? =
            switch change.content {
            case .delta, .insertion: change.bytes
            case .state, .reaping: nil
            }
        return FoldedOperation.Change(key: change.key, delta: delta, before: before, after: after)
    }
}

/// Runs a decoder on bytes of the log: an error is damage there.
private func undamaged<Result>(_ offset: Offset, _ body: () throws -> Result) throws -> Result {
    do {
        return try body()
    } catch let error as CRDTError {
        throw ReplicaError(.brokenLog, "offset \(offset) cannot be read: \(error)")
    }
}
