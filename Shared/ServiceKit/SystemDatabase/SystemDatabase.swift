import CRDT
import DQL
import Foundation
import Identity
import Logging
import OperationLog
import Replica
import Synchronization

/// The reserved database on the log that every service follows: databases, login providers, public keys, API
/// keys, accounts and revocations. All secrets in it are sealed or hashed.
///
/// Its id has a dot, which no application's database has (`DatabaseID`), so no token or API key names it.
///
/// Invariants: `directory` is the state of one fold of the log and is replaced whole; it contains a write
/// when `write` returns. Writes of all processes are serialized: each is appended on the condition that
/// nobody has written since its read. Actor isolation guards the materialization; the lock guards the
/// directory and its listeners, and is never held across a wait.
public actor SystemDatabase {
    /// The database's id.
    public static let id: DatabaseID = "mimeo.system"

    private struct Shared {
        var directory = SystemDirectory()
        /// Set while the log is put back and nobody has accepted it.
        var notice: RestoreNotice?
        var listeners: [UInt64: AsyncStream<Void>.Continuation] = [:]
        var nextListener: UInt64 = 0
    }

    private final class Before: Sendable {
        let directory = Mutex<SystemDirectory?>(nil)
    }

    /// Contact with the log, for everybody in this process who decides about credentials.
    public nonisolated let contact: LogContact
    /// The use that clients of this process make of their databases.
    public nonisolated let usage = UsageMeter()
    /// The audit of this process.
    public nonisolated let audit: AuditLog
    private let log: any OperationLog
    private let folder: String
    private let pause: Duration
    private let logger: Logger
    private let writer: LeasedActor
    private var materializer: Materializer?
    /// The fold that the directory was read from.
    private var directoryFold: Materializer?
    private var writing: Task<Void, any Error>?
    /// The reason why the directory differs from the log; nil while it does not.
    private var unread: String?
    private let shared = Mutex(Shared())
    /// The directory from before the log was put back, until it is compared.
    private let before = Before()
    private let restoreFile: RestoreFile

    /// - Parameters:
    ///   - folder: the materialization's folder; it is disposable.
    ///   - pause: between the first two attempts at an unreachable log when a service starts;
    ///     `Limits.foldRetry` unless a test says otherwise.
    ///   - contact: kept up by `keepContact`.
    ///   - auditFolder: the folder of the audit's materialization; nil for one beside `folder`.
    ///   - trustsProxy: whether `X-Forwarded-For` has the address of a client, for the audit.
    public init(
        log: any OperationLog, folder: String, pause: Duration? = nil, contact: LogContact = LogContact(),
        auditFolder: String? = nil, trustsProxy: Bool = false, logger: Logger
    ) {
        audit = AuditLog(
            log: log, folder: auditFolder ?? "\(folder)-audit", trustsProxy: trustsProxy, logger: logger)
        self.contact = contact
        self.log = log
        self.pause = pause ?? Limits.foldRetry
        self.folder = folder
        self.logger = logger
        restoreFile = RestoreFile(path: "\(folder)/restore.json")
        writer = LeasedActor(log: log, database: Self.id, purpose: "auth-gateway")
    }

    /// The current directory.
    public nonisolated var directory: SystemDirectory { shared.withLock { $0.directory } }

    /// The restore that nobody has accepted yet; nil while there is none.
    public nonisolated var restoreNotice: RestoreNotice? { shared.withLock { $0.notice } }

    /// Refuses to decide about credentials by what may not be the truth; asked for each credential and for
    /// each session that goes on.
    /// - Throws: `SRV-0602` without contact with the log, `SRV-0603` while a restore of it is not accepted.
    public nonisolated func requireTrust() throws(ServiceError) {
        try contact.require()
        guard restoreNotice != nil else { return }
        throw ServiceError(
            .restoreNotAccepted,
            "the server's log was put back to an earlier state, and an operator has to accept that first")
    }

    /// Records an operator's word that the log may be used as it is; all services on the log follow.
    public func acceptRestore(nowSeconds: Int64) async throws {
        let id = (0..<16).map { _ in UInt8.random(in: .min ... .max) }
        try await write { try $0.put(RestoreWord(id: Base64URL.encode(id), acceptedAtSeconds: nowSeconds)) }
    }

    /// Wakes at once, and then after every change of the directory, coalesced.
    public nonisolated var changes: AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = shared.withLock { shared in
            shared.nextListener += 1
            shared.listeners[shared.nextListener] = continuation
            return shared.nextListener
        }
        continuation.onTermination = { [weak self] _ in
            self?.shared.withLock { shared in _ = shared.listeners.removeValue(forKey: number) }
        }
        continuation.yield()
        return stream
    }

    /// Creates the database unless it exists, and reads the log. Idempotent. Waits while the log is
    /// unreachable: a service without the system database would refuse everybody.
    public func open() async throws {
        guard materializer == nil else { return }
        let kept = try restoreFile.read()
        shared.withLock { $0.notice = kept }
        try await waitingForLog {
            try await self.log.createDatabase(Self.id)
            try await self.reopen()
        }
        if log.status.loss != nil { try compare(with: directory) }
    }

    /// Runs a body that a service's start needs, again and again while the log is unreachable: a service that
    /// ended instead would have to be started by hand. The body must expect writes of its earlier runs.
    public nonisolated func waitingForLog(_ body: @Sendable () async throws -> Void) async throws {
        var pause = pause
        while true {
            do {
                return try await body()
            } catch let error as OperationLogError where Self.mayPass(error) {
                logger.warning("the start waits for the log", metadata: ["error": "\(error)"])
                try await Task.sleep(for: pause)
                pause = min(pause * 2, Limits.foldRetryLongest)
            }
        }
    }

    private static func mayPass(_ error: OperationLogError) -> Bool {
        switch error.code {
        case .unreachable, .outcomeUnknown, .busy: true
        default: false
        }
    }

    /// Opens and reads the fold; one that is found damaged meanwhile is rebuilt, once.
    private func reopen() async throws {
        do {
            try await openFold()
        } catch let error as ReplicaError where error.code == .damaged || error.code == .brokenLog {
            try await openFold()
        }
    }

    private func openFold() async throws {
        let began = contact.now
        let opened = try await Materializer.open(
            Self.id, log: log, folder: folder, logger: logger,
            beforeRebuild: { [before] old in
                let directory = try? old.read { try SystemDirectory($0) }
                before.directory.withLock { $0 = directory ?? $0 }
            }, onFold: { [weak self] _ in await self?.reload() })
        do {
            try await opened.advance()
            // Nothing may be decided by a directory that could not be read: it would look like a new server.
            try await opened.executor.run { [replica = opened.replica] in
                _ = try replica.read { try SystemDirectory($0) }
            }
        } catch {
            await opened.close()
            throw error
        }
        materializer = opened
        await reload()
        if let before = before.directory.withLock({ $0 }) { try compare(with: before) }
        before.directory.withLock { $0 = nil }
        contact.confirm(asOf: began)
    }

    /// Notes what a restored log takes back, if anything.
    private func compare(with before: SystemDirectory) throws(ServiceError) {
        guard let notice = RestoreNotice(from: before, to: directory, loss: log.status.loss) else { return }
        try restoreFile.write(notice)
        shared.withLock { shared in
            shared.notice = notice
            for listener in shared.listeners.values { listener.yield() }
        }
        for sentence in notice.takenBack {
            logger.critical("the log was put back", metadata: ["taken back": "\(sentence)"])
        }
        logger.critical(
            "no token is accepted until an operator accepts the restore",
            metadata: ["how": "POST /admin/auth/restore, or start the auth-gateway with --accept-restore"])
    }

    /// Follows the log until the task is cancelled or the log closes. After the log was reset to an earlier
    /// state, reads it again, and retries until that succeeds; `failure` says so meanwhile.
    public func run() async {
        while !Task.isCancelled, let current = materializer {
            await current.run()
            guard await current.hasLostHistory else { return }
            unread = "the log was reset, or its copy is damaged, and it is not read again yet"
            await current.close()
            var pause = Limits.foldRetry
            while unread != nil, !Task.isCancelled {
                do {
                    try await reopen()
                } catch let error as OperationLogError where error.code == .closed {
                    return
                } catch {
                    logger.error("the system database cannot be read", metadata: ["error": "\(error)"])
                    try? await Task.sleep(for: pause)
                    pause = min(pause * 2, Limits.foldRetryLongest)
                }
            }
        }
    }

    /// Erases deleted databases from the log. Every process that follows the log does; one is enough.
    nonisolated var logEraser: Eraser {
        Eraser(
            system: self, holder: "log", place: "the log", logger: logger,
            work: Eraser.Work(
                isHeld: { [log] in try await log.databaseExists($0) },
                erase: { [log] in try await log.eraseDatabase($0) }))
    }

    /// Releases the lease and closes the materialization.
    public func close() async {
        _ = try? await writing?.value
        await writer.close()
        await materializer?.close()
        for listener in shared.withLock({ Array($0.listeners.values) }) { listener.finish() }
    }

    /// Reads up to the log's present head, which confirms contact with the log.
    public func refresh() async throws {
        guard let materializer else { return }
        let began = contact.now
        try await log.requireStorage()
        try await materializer.advance()
        contact.confirm(asOf: began)
    }

    /// Reads the log's head again and again, also while nobody writes, until the task is cancelled or the
    /// log closes. At most one read is under way.
    public func keepContact() async {
        var wasHeld = true
        while !Task.isCancelled {
            var reason = ""
            do {
                try await refresh()
            } catch let error as OperationLogError where error.code == .closed {
                return
            } catch {
                reason = "\(error)"
            }
            let isHeld = contact.state == .held
            if isHeld != wasHeld {
                let seconds = contact.silence?.components.seconds ?? 0
                logger.log(
                    level: isHeld ? .notice : .error,
                    isHeld ? "the log answers again" : "no contact with the log",
                    metadata: isHeld ? [:] : ["seconds": "\(seconds)", "reason": "\(reason)"])
                wasHeld = isHeld
            }
            try? await Task.sleep(for: contact.beat)
        }
    }

    /// The reason why the log is not followed; nil while it is.
    public func failure() async -> String? {
        if let unread { return unread }
        return await materializer?.failure
    }

    private func reload() async {
        guard let materializer else { return }
        let replica = materializer.replica
        do {
            // Positions of another fold say nothing about this one.
            let known = directoryFold === materializer ? directory : nil
            let directory = try await materializer.executor.run {
                try replica.read { try SystemDirectory($0, since: known) }
            }
            // Another read may have ended first, with more, or of a later fold.
            let isLate = directoryFold === materializer && directory.head < self.directory.head
            guard self.materializer === materializer, !isLate else { return }
            directoryFold = materializer
            // A record of a later version may be a revocation: reports it rather than let somebody in.
            unread = directory.unreadable == 0 ? nil : "\(directory.unreadable) records cannot be read"
            directory.measureBackups()
            if !directory.limits.isEmpty { UsageCharge.isNeeded.store(true, ordering: .relaxed) }
            let isAccepted = restoreNotice?.isAccepted(in: directory) ?? false
            if isAccepted {
                restoreFile.remove()
                logger.notice("an operator has accepted that the log was put back")
            }
            shared.withLock { shared in
                shared.directory = directory
                if isAccepted { shared.notice = nil }
                for listener in shared.listeners.values { listener.yield() }
            }
        } catch {
            unread = "\(error)"
            logger.error("the system database cannot be read", metadata: ["error": "\(error)"])
        }
    }

    /// Changes the database. The body may run several times, each time on the log's state then.
    /// - Throws: the errors of the body and of the log.
    public func write(_ body: @escaping @Sendable (SystemWriter) throws -> Void) async throws {
        let previous = writing
        let task = Task {
            _ = try? await previous?.value
            try await self.perform(body)
        }
        writing = task
        try await task.value
    }

    private func perform(_ body: @escaping @Sendable (SystemWriter) throws -> Void) async throws {
        guard let materializer else {
            throw OperationLogError(.closed, "the system database is not open: the service stops")
        }
        try await materializer.append(by: writer, reading: SystemCollectionName.allCases.map(\.name)) {
            try body(SystemWriter($0))
        }
    }
}

extension SystemDatabase: KeySource {
    /// The keys of all databases, as of the log's head.
    public func refreshedKeys() async throws -> KeySet {
        try await refresh()
        return directory.keys
    }
}

/// A change of the system database in flight; reads see its own writes.
public struct SystemWriter {
    private let transaction: WriteTransaction

    init(_ transaction: WriteTransaction) { self.transaction = transaction }

    /// The record with an id; nil if there is none.
    public func get<Record: SystemRecord>(_ id: String, as type: Record.Type = Record.self) throws -> Record?
    {
        // Ids come from paths: one that no document can have has no record.
        guard let key = try? DocumentID(.string(id)) else { return nil }
        var found: Record?
        try transaction.lookup(Record.collection.name, key) { record in
            found = Record.read(id, try record.document.root.value())
        }
        return found
    }

    /// Writes a record whole: a member that it lacks is gone, also within its objects.
    public func replace<Record: SystemRecord>(_ record: Record) throws {
        try remove(record.id, Record.self)
        try put(record)
    }

    /// Writes a record over the one with the same id. A member that it lacks stays as it was, also within
    /// objects: see `replace`.
    public func put(_ record: some SystemRecord) throws {
        try execute(
            "INSERT INTO \(type(of: record).collection.rawValue) DOCUMENTS (:document) "
                + "ON ID CONFLICT DO UPDATE",
            ObjectValue([(key: "document", value: .object(try record.document()))]))
    }

    /// Removes a record.
    public func remove<Record: SystemRecord>(_ id: String, _ type: Record.Type) throws {
        try execute(
            "DELETE FROM \(Record.collection.rawValue) WHERE _id = :id",
            ObjectValue([(key: "id", value: .string(id))]))
    }

    /// Removes all records of a kind but one.
    /// - Parameter id: nil to remove all.
    func removeAll<Record: SystemRecord>(but id: String?, _ type: Record.Type) throws {
        try execute(
            "DELETE FROM \(Record.collection.rawValue) WHERE _id != :id",
            ObjectValue([(key: "id", value: .string(id ?? ""))]))
    }

    private func execute(_ statement: String, _ arguments: ObjectValue) throws {
        _ = try PreparedStatement(statement).execute(
            in: transaction, arguments: arguments, options: ExecutionOptions(strictMode: true),
            idGenerator: { preconditionFailure("every record has its id") })
    }
}
