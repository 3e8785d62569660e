import CRDT
import DQL
import Foundation
import Logging
import Machine
import Replica
import Synchronization

/// The open store below one `Ditto`, shared by everything that belongs to it.
///
/// Invariant: `replica` is set from opening to closing. Each piece of work on the store takes it only for
/// its own duration, so that the directory is free again once that work has ended. Statements run on threads
/// of their own.
final class Engine: Sendable {
    /// For opening and closing, which wait for the disk, and opening also for a lock.
    static let openingQueue = BlockingExecutor(label: "ditto.opening", isSerial: false)

    let environment: Environment = .system
    let logger: Logger
    let observers: ObserverRegistry
    let settings: StoreSettings
    /// Runs the queries of observers.
    let evaluations: EvaluationPool
    /// The attachments on this device.
    let attachments: AttachmentFolder

    private let openReplica: Mutex<PeerReplica?>
    /// The reason why the store could not be opened, for an instance of the 4.x API.
    private let openingFailure: SDKError?
    private let foreign = Mutex(Foreign())
    let readers = BlockingExecutor(label: "ditto.readers", isSerial: false)
    private let indexer = BlockingExecutor(label: "ditto.indexes", isSerial: true)
    // Writers wait for each other anyway; in a queue they wait without a thread each.
    let writer = BlockingExecutor(label: "ditto.writer", isSerial: true)

    /// Information about other peers, for `system:data_sync_info`.
    private struct Foreign {
        /// The rows of the peers this store syncs with; nil before sync exists.
        var rows: (@Sendable (_ lastUpdate: Int64?) -> [ObjectValue])?
        /// The time when a document from others was last stored, in milliseconds since 1970.
        var lastUpdate: Int64?
        /// Called when withheld writes may be sent again.
        var scopesWidened: (@Sendable () -> Void)?
        /// The rows of the transports; nil before the instance is open.
        var transports: (@Sendable () -> [ObjectValue])?
        /// Writes this peer's report, if there is none of this opening yet.
        var report: (@Sendable () async -> Void)?
    }

    /// - Parameter owner: the database that the store is opened for; nil to look into one of any database.
    init(directory: String, owner: StoreOwner?, logger: Logger) throws {
        let replica = try PeerReplica(
            directory: directory, owner: owner, environment: environment, logger: logger)
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
        openingFailure = nil
        observers.attach { [weak self] body in try self?.replica().read(body) }
        _ = replica.addListener { [weak self] commit in
            if commit.actor == nil, !commit.isWithheld { self?.noteForeignUpdate() }
            observers.committed(commit)
        }
    }

    /// The engine of a store that could not be opened: everything that needs the store throws the reason.
    init(directory: String, logger: Logger, failure: SDKError) {
        settings = StoreSettings()
        self.logger = logger
        observers = ObserverRegistry()
        attachments = AttachmentFolder(directory: directory)
        evaluations = EvaluationPool { 1 }
        openReplica = Mutex(nil)
        openingFailure = failure
    }

    /// The store.
    /// - Throws: `SDK-0402` after `close`; the reason why the store could not be opened.
    func replica() throws(SDKError) -> PeerReplica {
        guard let replica = openReplica.withLock({ $0 }) else {
            throw openingFailure ?? SDKError(.closed, "this Ditto instance was closed")
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

    /// Sets the source of the rows about the peers this store syncs with.
    func setSyncInformation(_ rows: @escaping @Sendable (_ lastUpdate: Int64?) -> [ObjectValue]) {
        foreign.withLock { $0.rows = rows }
    }

    /// Sets the listener for sync scopes that let more be sent than before.
    func onScopesWidened(_ listener: @escaping @Sendable () -> Void) {
        foreign.withLock { $0.scopesWidened = listener }
    }

    /// The rows of `system:data_sync_info`.
    func syncInformation() -> [ObjectValue] {
        let foreign = foreign.withLock { $0 }
        return foreign.rows?(foreign.lastUpdate) ?? []
    }

    /// Sets the source of the rows about transports.
    func setTransportInformation(_ rows: @escaping @Sendable () -> [ObjectValue]) {
        foreign.withLock { $0.transports = rows }
    }

    /// The rows of `system:transports_info`.
    func transportInformation() -> [ObjectValue] { foreign.withLock { $0.transports }?() ?? [] }

    /// Sets the author of this peer's report.
    func setReport(_ report: @escaping @Sendable () async -> Void) { foreign.withLock { $0.report = report } }

    /// Lets this peer's report be written, in the background: somebody looks at the reports.
    func provideReport() {
        guard let report = foreign.withLock({ $0.report }) else { return }
        Task { await report() }
    }

    func isAboutReports(_ statement: PreparedStatement) -> Bool {
        statement.collectionsRead.contains(SmallPeerReport.collection)
            || statement.collectionsWritten.contains(SmallPeerReport.collection)
    }

    private func noteForeignUpdate() {
        let now = Int64(clamping: environment.wallMilliseconds())
        foreign.withLock { $0.lastUpdate = now }
    }

    /// Prepares and runs one statement. Throws the errors of the modules below. Throws `DQL-0610` when the
    /// task that waits for it is cancelled.
    func execute(_ text: String, _ arguments: ObjectValue) async throws -> StatementOutcome {
        let statement = try settings.prepare(text)
        // A statement about the reports finds this peer's own, also before sync has written it.
        if isAboutReports(statement) { await foreign.withLock { $0.report }?() }
        return try await execute(statement, arguments)
    }

    /// As above, for a prepared statement, without providing this peer's report first.
    func execute(_ statement: PreparedStatement, _ arguments: ObjectValue) async throws -> StatementOutcome {
        let replica = try replica()
        return try await recorded(statement.text, statement.kind) { running in
            // Statements that inspect or end running requests, or change their limit, do not wait for a
            // turn.
            guard !statement.isSystem, !statement.reads(.activeRequests) else {
                return try await run(statement, arguments, replica, running)
            }
            return try await settings.turns.run(within: settings.parameters.concurrentRequestWait) {
                try await run(statement, arguments, replica, running)
            }
        }
    }

    private func run(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ replica: PeerReplica,
        _ running: RequestRegistry.Request
    ) async throws -> StatementOutcome {
        if statement.isSystem {
            return try await writer.run { try self.executeSystem(statement, arguments, replica) }
        }
        let change = statement.indexChange(settings.parameters)
        if change != nil || statement.provisions {
            // A separate queue: building an index takes long and must hinder neither writers nor a DROP
            // INDEX.
            let queue = if case .drop? = change { writer } else { indexer }
            return try await queue.run { try self.changeIndexes(statement, arguments, replica, running) }
        }
        guard !statement.isReadOnly else {
            return try await readers.run { try self.read(statement, arguments, replica, running) }
        }
        return try await writer.run { try self.write(statement, arguments, replica, running) }
    }

    private func write(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ replica: PeerReplica,
        _ running: RequestRegistry.Request?
    ) throws -> StatementOutcome {
        let request = try request(statement, arguments, running)
        let written = try replica.write(limits: documentLimits) { transaction in
            let outcome = try request.run(in: transaction, environment.generateDocumentID)
            return (outcome, transaction.warnings, transaction.untakenEvictions)
        }
        let (outcome, oversized, untaken) = written.value
        // An application's result has no warnings.
        if untaken > 0 {
            logger.warning(
                "documents were evicted that no other peer is known to have",
                metadata: ["code": "\(SDKWarningCode.evictedUntaken.rawValue)", "count": "\(untaken)"])
        }
        return outcome.with(oversized: oversized, untaken: untaken, commit: written.commit)
    }

    private func executeSystem(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ replica: PeerReplica
    ) throws -> StatementOutcome {
        let (before, withheld) = (options, settings.parameters.withheldFromServers)
        let result = try settings.execute(statement, arguments)
        let stillWithheld = Set(settings.parameters.withheldFromServers)
        replica.withhold(settings.parameters.withheldFromServers)
        if !stillWithheld.isSuperset(of: withheld) { foreign.withLock { $0.scopesWidened }?() }
        if before.strictReads != options.strictReads { observers.evaluateAll() }
        return StatementOutcome(
            kind: statement.kind, kept: [KeptRow(.object(result.row))], mutatedDocumentIDs: [],
            warnings: result.warnings.map(StatementWarning.init), commit: replica.head)
    }

    /// Runs a SELECT on the present state. Call it on a thread that may block.
    func read(_ statement: PreparedStatement, _ arguments: ObjectValue) throws -> StatementOutcome {
        try read(statement, arguments, replica(), nil)
    }

    func read(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ replica: PeerReplica,
        _ running: RequestRegistry.Request?, _ dialect: Dialect = .configured
    ) throws -> StatementOutcome {
        let request = try request(statement, arguments, running, dialect)
        return try replica.read { transaction in
            try request.read(from: transaction, transaction.collectionNames)
                .with(oversized: [], commit: try transaction.head())
        }
    }

    /// The condition that decides which changes matter to an observer; nil when all do.
    func observedQuery(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ dialect: Dialect = .configured
    ) -> ObservedQuery? {
        ObservedQuery(statement, arguments: arguments, options: dialect.options(settings.parameters))
    }

    /// Runs an observed query. `documents` are the documents that it read, for `ObserverGate`; nil when
    /// there are too many or when they do not help.
    func observe(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ query: ObservedQuery?,
        _ dialect: Dialect = .configured
    ) throws -> (outcome: StatementOutcome, documents: [UInt64]?) {
        let request = try request(statement, arguments, nil, dialect)
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

    /// The size limits for documents that this store writes.
    var documentLimits: DocumentLimits {
        let parameters = settings.parameters
        return DocumentLimits(
            softBytes: parameters.documentSoftLimitBytes, hardBytes: parameters.documentHardLimitBytes)
    }

    /// A new execution of a statement. Create it before its transaction: some of its data is read from the
    /// store.
    func request(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ running: RequestRegistry.Request? = nil,
        _ dialect: Dialect = .configured
    ) throws -> StatementRequest {
        let parameters = settings.parameters
        var options = dialect.options(parameters)
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

/// The result of a statement before its conversion to the public types; the command line prints it.
package struct StatementOutcome: Sendable {
    /// The kind of the statement.
    package let kind: StatementKind
    /// The rows of a SELECT, whole documents in their stored form.
    let kept: [KeptRow]
    /// The rows of a SELECT.
    package var rows: [Value] { kept.map(\.decoded) }
    /// The documents that a writing statement wrote.
    package let mutatedDocumentIDs: [DocumentID]
    /// Hints at probable mistakes in the statement.
    package let warnings: [StatementWarning]
    /// The commit of a write; for a SELECT the last commit it saw.
    package let commit: UInt64
}

/// A hint at a probable mistake in a statement.
package struct StatementWarning: Sendable, Equatable {
    /// The stable code (`DQL-W101`, `SDK-W101`).
    package let code: String
    /// A message for a person.
    package let message: String
    /// The place in the statement, if known.
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
