import CRDT
import DQL
import Foundation
import Logging
import Machine
import Replica
import Synchronization

/// The open store below one `Ditto`, shared by everything that belongs to it.
///
/// Invariant: `replica` is set from opening to closing; whoever works on the store takes it for one piece of
/// work only, so that the directory is free again once those have ended. Statements run on threads of their
/// own.
final class Engine: Sendable {
    /// Opening and closing wait for the disk, and opening for a lock.
    static let openingQueue = BlockingExecutor(label: "ditto.opening", isSerial: false)

    let environment: Environment = .system
    let logger: Logger
    let observers: ObserverRegistry
    let settings: StoreSettings
    /// Runs the queries of observers.
    let evaluations: EvaluationPool
    /// The attachments on this device.
    let attachments: AttachmentFolder

    private let openReplica: Mutex<Replica?>
    private let foreign = Mutex(Foreign())
    let readers = BlockingExecutor(label: "ditto.readers", isSerial: false)
    private let indexer = BlockingExecutor(label: "ditto.indexes", isSerial: true)
    // Writers wait for each other anyway; in a queue they do it without a thread each.
    let writer = BlockingExecutor(label: "ditto.writer", isSerial: true)

    /// What is known of others: for `system:data_sync_info`.
    private struct Foreign {
        /// Rows of the peers this store syncs with; nil before there is sync.
        var rows: (@Sendable (_ lastUpdate: Int64?) -> [ObjectValue])?
        /// When something of others was last stored, in milliseconds since 1970.
        var lastUpdate: Int64?
        /// Rows of the ways to them; nil before the instance is open.
        var transports: (@Sendable () -> [ObjectValue])?
    }

    init(directory: String, logger: Logger) throws {
        let replica = try Replica(directory: directory, role: .peer, environment: environment, logger: logger)
        settings = try StoreSettings(
            directory: directory, environment: ProcessInfo.processInfo.environment, logger: logger)
        let observers = ObserverRegistry()
        self.logger = logger
        self.observers = observers
        attachments = AttachmentFolder(directory: directory)
        let settings = settings
        replica.withhold(settings.parameters.withheldFromServers)
        evaluations = EvaluationPool {
            let threads = settings.parameters.observerThreads
            return threads > 0 ? threads : ProcessInfo.processInfo.activeProcessorCount
        }
        openReplica = Mutex(replica)
        observers.attach { [weak self] body in try self?.replica().read(body) }
        _ = replica.addListener { [weak self] commit in
            if commit.actor == nil, !commit.isWithheld { self?.noteForeignUpdate() }
            observers.committed(commit)
        }
    }

    /// The store.
    /// - Throws: `SDK-0402` after `close`.
    func replica() throws(SDKError) -> Replica {
        guard let replica = openReplica.withLock({ $0 }) else {
            throw SDKError(.closed, "this Ditto instance was closed")
        }
        return replica
    }

    func close() throws {
        let replica = openReplica.withLock { replica in
            defer { replica = nil }
            return replica
        }
        try replica?.close()
    }

    /// Says whom this store syncs with.
    func setSyncInformation(_ rows: @escaping @Sendable (_ lastUpdate: Int64?) -> [ObjectValue]) {
        foreign.withLock { $0.rows = rows }
    }

    /// The rows of `system:data_sync_info`.
    func syncInformation() -> [ObjectValue] {
        let foreign = foreign.withLock { $0 }
        return foreign.rows?(foreign.lastUpdate) ?? []
    }

    /// Says how the ways to others stand.
    func setTransportInformation(_ rows: @escaping @Sendable () -> [ObjectValue]) {
        foreign.withLock { $0.transports = rows }
    }

    /// The rows of `system:transports_info`.
    func transportInformation() -> [ObjectValue] { foreign.withLock { $0.transports }?() ?? [] }

    private func noteForeignUpdate() {
        let now = Int64(clamping: environment.wallMilliseconds())
        foreign.withLock { $0.lastUpdate = now }
    }

    /// Prepares and runs one statement. Throws the errors of the modules below. Ends with `DQL-0610` when the
    /// task that waits for it is cancelled.
    func execute(_ text: String, _ arguments: ObjectValue) async throws -> StatementOutcome {
        let statement = try settings.prepare(text)
        let replica = try replica()
        return try await recorded(text, statement.kind) { running in
            // Whoever looks at what runs, ends it or changes the limit waits for nobody.
            guard !statement.isSystem, !statement.reads(.activeRequests) else {
                return try await run(statement, arguments, replica, running)
            }
            return try await settings.turns.run(within: settings.parameters.concurrentRequestWait) {
                try await run(statement, arguments, replica, running)
            }
        }
    }

    private func run(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ replica: Replica,
        _ running: RequestRegistry.Request
    ) async throws -> StatementOutcome {
        if statement.isSystem {
            return try await writer.run { try self.executeSystem(statement, arguments, replica) }
        }
        let change = statement.indexChange(settings.parameters)
        if change != nil || statement.provisions {
            // A queue of its own: building an index takes as long as it takes, and hinders no writer, nor
            // whoever would rather be rid of the index.
            let queue = if case .drop? = change { writer } else { indexer }
            return try await queue.run { try self.changeIndexes(statement, arguments, replica, running) }
        }
        guard !statement.isReadOnly else {
            return try await readers.run { try self.read(statement, arguments, replica, running) }
        }
        return try await writer.run { try self.write(statement, arguments, replica, running) }
    }

    private func write(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ replica: Replica,
        _ running: RequestRegistry.Request?
    ) throws -> StatementOutcome {
        let request = try request(statement, arguments, running)
        let written = try replica.write(limits: documentLimits) { transaction in
            let outcome = try request.run(in: transaction, environment.generateDocumentID)
            return (outcome: outcome, oversized: transaction.warnings)
        }
        let (outcome, oversized) = written.value
        return outcome.with(oversized: oversized, commit: written.commit)
    }

    private func executeSystem(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ replica: Replica
    ) throws -> StatementOutcome {
        let before = options
        let result = try settings.execute(statement, arguments)
        replica.withhold(settings.parameters.withheldFromServers)
        if before.strictReads != options.strictReads { observers.evaluateAll() }
        return StatementOutcome(
            kind: statement.kind, kept: [KeptRow(.object(result.row))], mutatedDocumentIDs: [],
            warnings: result.warnings.map(StatementWarning.init), commit: replica.head)
    }

    /// Runs a SELECT on the current state. For threads that may block.
    func read(_ statement: PreparedStatement, _ arguments: ObjectValue) throws -> StatementOutcome {
        try read(statement, arguments, replica(), nil)
    }

    private func read(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ replica: Replica,
        _ running: RequestRegistry.Request?
    ) throws -> StatementOutcome {
        let request = try request(statement, arguments, running)
        return try replica.read { transaction in
            try request.read(from: transaction, transaction.collectionNames)
                .with(oversized: [], commit: try transaction.head())
        }
    }

    /// The condition that tells which changes matter to an observer; nil where all do.
    func observedQuery(_ statement: PreparedStatement, _ arguments: ObjectValue) -> ObservedQuery? {
        ObservedQuery(statement, arguments: arguments, options: options)
    }

    /// Runs an observed query. `documents` are what it read, as `ObserverGate` wants them; nil where those
    /// are too many, or of no use.
    func observe(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ query: ObservedQuery?
    ) throws -> (outcome: StatementOutcome, documents: [UInt64]?) {
        let request = try request(statement, arguments)
        return try replica().read { transaction in
            let outcome = try request.read(from: transaction, transaction.collectionNames)
                .with(oversized: [], commit: try transaction.head())
            guard let query else { return (outcome, nil) }
            guard query.rowsAreDocuments else {
                let ids = try query.matchingIDs(in: transaction, options: request.options)
                guard ids.count <= Limits.observedDocuments else { return (outcome, nil) }
                return (outcome, ids.map(ObserverGate.hash).sorted())
            }
            guard outcome.kept.count <= Limits.observedDocuments else { return (outcome, nil) }
            return (outcome, outcome.kept.compactMap(ObserverGate.hash).sorted())
        }
    }

    private var options: ExecutionOptions { ExecutionOptions(settings.parameters) }

    /// What writes of this store may make of a document.
    var documentLimits: DocumentLimits {
        let parameters = settings.parameters
        return DocumentLimits(
            softBytes: parameters.documentSoftLimitBytes, hardBytes: parameters.documentHardLimitBytes)
    }

    /// A statement that begins now. Asked for before its transaction: some of what it is told is read from
    /// the store.
    func request(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ running: RequestRegistry.Request? = nil
    ) throws -> StatementRequest {
        let parameters = settings.parameters
        var options = ExecutionOptions(parameters)
        options.context = FunctionContext(
            now: Int64(clamping: environment.wallMilliseconds()), timeZones: SystemTimeZones())
        options.nanoseconds = { Engine.nanoseconds() }
        let deadline = parameters.requestTimeout.map { ContinuousClock.now + $0 }
        if running != nil || deadline != nil {
            options.interruption = {
                if running?.isCancelled ?? false { return .cancelled }
                return deadline.map { ContinuousClock.now < $0 } ?? true ? nil : .timeout
            }
        }
        let indexes = statement.reads(.indexes) ? try replica().indexes().map(\.row) : []
        let peers = statement.reads(.dataSyncInfo) ? syncInformation() : []
        return StatementRequest(
            engine: self, statement: statement, arguments: arguments, options: options, peers: peers,
            indexes: indexes)
    }
}

/// What a statement came to, before it is dressed in the public types: what the command line prints.
package struct StatementOutcome: Sendable {
    /// What the statement did.
    package let kind: StatementKind
    /// The rows of a SELECT, whole documents as they are stored.
    let kept: [KeptRow]
    /// The rows of a SELECT.
    package var rows: [Value] { kept.map(\.decoded) }
    /// The documents a writing statement wrote.
    package let mutatedDocumentIDs: [DocumentID]
    /// What is probably not meant.
    package let warnings: [StatementWarning]
    /// The commit that holds a write; for a SELECT the last commit it saw.
    package let commit: UInt64
}

/// Something about a statement that is probably not meant.
package struct StatementWarning: Sendable, Equatable {
    /// The stable code (`DQL-W101`, `SDK-W101`).
    package let code: String
    /// For a person.
    package let message: String
    /// Where in the statement, if it can be said.
    package let position: SourcePosition?

    init(_ warning: DQLWarning) {
        code = warning.code.rawValue
        message = warning.message
        position = warning.position
    }

    init(_ code: String, _ message: String) {
        self.code = code
        self.message = message
        position = nil
    }
}
