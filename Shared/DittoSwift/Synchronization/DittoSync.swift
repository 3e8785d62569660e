import CRDT
import DQL
import Foundation
import Identity
import Logging
import Replica
import Sync
import Synchronization
import Transport
import WebSocket

/// Syncs documents with the server, and with small peers: sends local writes and fetches the documents of
/// subscriptions.
///
/// `state` guards the requested state and the subscriptions. Starting and stopping run one after another in
/// `lifecycle`, because a connection needs a moment to end.
public final class DittoSync: Sendable {
    private struct State {
        var isActive = false
        /// False once the application took the server's address out of its transport configuration.
        var wantsServer = true
        var isShutDown = false
        var subscriptions: Set<DittoSyncSubscription> = []
        var lifecycle: Task<Void, Never>?
        /// The refusals that stand, by the key of their subscription.
        var refusals: [[UInt8]: (query: String, reason: Failure)] = [:]

        /// The refusals that stand, by query.
        var problems: [String: Failure] {
            Dictionary(refusals.values.map { ($0.query, $0.reason) }) { first, _ in first }
        }
    }

    private let engine: Engine
    /// Sync with the server.
    private let peer: PeerSync?
    /// Sync with small peers; nil if the store could not be opened.
    private let links: PeerLinks?
    private let authenticator: DittoAuthenticator?
    private let logger: Logger
    private let state = Mutex(State())
    /// Advances with each status, acknowledgement and report.
    private let changes: ChangeSignal
    /// Called when the status of the connection has changed.
    private let statusListener = Mutex<(@Sendable () -> Void)?>(nil)
    let owner = Owner()

    /// Sync without a server: with small peers only.
    init(_ engine: Engine, _ links: PeerLinks?) {
        self.engine = engine
        self.links = links
        logger = engine.logger
        peer = nil
        authenticator = nil
        changes = ChangeSignal()
        engine.setSyncInformation { [weak self] _ in self?.linkInformation() ?? [] }
    }

    init(
        _ engine: Engine, _ server: ServerAddresses, _ databaseID: String,
        _ authenticator: DittoAuthenticator, _ links: PeerLinks,
        _ logger: Logger
    ) throws {
        self.engine = engine
        self.links = links
        self.authenticator = authenticator
        self.logger = logger
        let changes = ChangeSignal()
        self.changes = changes
        var configuration = PeerSync.Configuration(
            address: try WebSocketAddress(server.sync), databaseID: DatabaseID(databaseID),
            peerKey: authenticator.peerKey,
            token: { try await authenticator.token() })
        configuration.proof = { challenge, token in authenticator.proof(of: challenge, token) }
        configuration.writeRules = { AccessToken.claimedWriteRules(of: $0) }
        configuration.newestToken = { authenticator.newestToken }
        configuration.presence = links.presence
        let settings = engine.settings
        configuration.keepAlive = {
            let parameters = settings.parameters
            return PeerSync.KeepAlive(
                interval: parameters.connectionCheckInterval, patience: parameters.connectionIdleTimeout)
        }
        let notices = NoticeBoard()
        let peer = PeerSync(
            replica: try engine.replica(), configuration: configuration, environment: engine.environment,
            logger: logger
        ) { notice in
            if case .unauthorized(let token, let reason) = notice {
                authenticator.tokenWasRefused(token, reason)
            }
            notices.post(notice)
            changes.advance()
        }
        self.peer = peer
        authenticator.whenRenewed { [weak peer] in peer?.renewToken() }
        notices.onPost { [weak self] notice in self?.heard(notice) }
        engine.onScopesWidened { [weak peer] in peer?.restartSession() }
        engine.setSyncInformation { [weak self] lastUpdate in self?.information(lastUpdate) ?? [] }
    }

    /// Starts sync, which reconnects after lost connections until `stop()`.
    /// - Throws: `authenticationError(.expirationHandlerMissing)` with a server and no handler.
    public func start() throws {
        do {
            _ = try engine.replica()
            guard authenticator?.hasHandler ?? true else {
                throw SDKError(
                    .expirationHandlerMissing,
                    "set auth.expirationHandler before starting sync: it has to log in")
            }
            then { [peer, authenticator, links, logger] state in
                guard !state.isActive else { return nil }
                state.isActive = true
                let server = state.wantsServer ? peer : nil
                return {
                    logger.info(
                        "sync has started",
                        metadata: ["server": "\(server != nil)", "sdk": "\(Ditto.version)"])
                    authenticator?.beginRenewing()
                    server?.start()
                    links?.start()
                }
            }
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// Stops sync. A connection may still take a moment to close.
    public func stop() {
        then { [peer, authenticator, links, logger] state in
            guard state.isActive else { return nil }
            state.isActive = false
            return {
                authenticator?.endRenewing()
                await peer?.stop()
                await links?.stop()
                logger.info("sync has stopped")
            }
        }
    }

    /// Lets sync have a session with the server or none; links are not concerned.
    func use(server isWanted: Bool) {
        then { [peer, logger] state in
            guard state.wantsServer != isWanted else { return nil }
            state.wantsServer = isWanted
            guard state.isActive, let peer else { return nil }
            return {
                logger.info(
                    "the transport configuration has changed for the server",
                    metadata: ["wanted": "\(isWanted)"])
                if isWanted { peer.start() } else { await peer.stop() }
            }
        }
    }

    /// True if sync was started and not stopped; says nothing about a connection.
    public var isActive: Bool { state.withLock { $0.isActive } }

    /// Requests the documents of a SELECT, now and as they change, until the subscription is cancelled, even
    /// if its return value is dropped. Subscriptions do not survive a restart.
    /// - Throws: `storeError(.queryNotSupported)` for anything but `SELECT * FROM c [WHERE …]`, and the
    ///   errors of a statement.
    @discardableResult
    public func registerSubscription(
        query: String, arguments: [String: Any?]? = nil
    ) throws -> DittoSyncSubscription {
        do {
            return try registerSubscription(query, try Arguments.object(arguments), GivenArguments(arguments))
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// As above, with converted arguments, and the errors of the modules below.
    func registerSubscription(
        _ query: String, _ values: ObjectValue, _ given: GivenArguments
    ) throws -> DittoSyncSubscription {
        _ = try engine.replica()
        let checked = try SubscriptionQuery(
            statement: query, arguments: values,
            isRestricted: engine.settings.parameters.restrictsSubscriptions)
        guard !checked.isWindowed else {
            throw SDKError(
                .windowedSubscriptionUnsupported,
                "a subscription cannot have ORDER BY, LIMIT or OFFSET in this version")
        }
        if checked.collection == SmallPeerReport.collection { engine.provideReport() }
        let key = try peer?.subscribe(statement: query, arguments: values) ?? checked.canonicalKey
        try links?.mesh.subscribe(statement: query, arguments: values)
        let subscription = DittoSyncSubscription(
            sync: self, owner: owner, key: key, query: query, given: given)
        state.withLock { _ = $0.subscriptions.insert(subscription) }
        return subscription
    }

    /// The subscriptions that are not cancelled.
    public var subscriptions: Set<DittoSyncSubscription> { state.withLock { $0.subscriptions } }

    func cancel(_ subscription: DittoSyncSubscription) {
        let wasThere = state.withLock { state in
            guard state.subscriptions.remove(subscription) != nil else { return false }
            let isLast = !state.subscriptions.contains { $0.key == subscription.key }
            if isLast { state.refusals[subscription.key] = nil }
            return true
        }
        guard wasThere else { return }
        peer?.unsubscribe(subscription.key)
        links?.mesh.unsubscribe(subscription.key)
    }

    func holds(_ subscription: DittoSyncSubscription) -> Bool {
        state.withLock { $0.subscriptions.contains(subscription) }
    }

    /// Ends sync for good; returns when it has ended.
    func shutDown() async {
        stop()
        let lifecycle = state.withLock { state in
            state.isShutDown = true
            state.subscriptions = []
            return state.lifecycle
        }
        await lifecycle?.value
        changes.advance()
    }

    /// Changes the requested state, and runs the step that this needs, if any, after all earlier steps.
    private func then(_ change: (inout State) -> (@Sendable () async -> Void)?) {
        state.withLock { state in
            guard !state.isShutDown, let step = change(&state) else { return }
            let before = state.lifecycle
            state.lifecycle = Task {
                await before?.value
                await step()
            }
        }
        changes.advance()
    }

    func replica() throws -> PeerReplica { try engine.replica() }

    /// The numbers of the latest commits that the server refused, for a row; descending.
    private func latestRefusals() -> [Value] {
        let found = (try? engine.replica().latestRefusedCommits(Limits.listedRefusals)) ?? []
        return found.map { .int(Int64(clamping: $0)) }
    }

    /// The server's row of `system:data_sync_info`, under the server's key; under `server` before the first
    /// login, which brings the key.
    private func information(_ lastUpdate: Int64?) -> [ObjectValue] {
        let status: Value =
            switch peer?.status ?? .stopped {
            case .stopped: "Disabled"
            case .connecting: "Not Connected"
            case .connected: "Connected"
            }
        var documents = ObjectValue([(key: "sync_session_status", value: status)])
        if let commits = try? commits() {
            documents["synced_up_to_local_commit_id"] = .int(Int64(clamping: commits.acknowledged))
            documents["refused_local_commit_ids"] = .array(latestRefusals())
        }
        if let lastUpdate { documents["last_update_received_time"] = .int(lastUpdate) }
        let key = authenticator?.serverKey ?? "server"
        return [
            ObjectValue([
                (key: "_id", value: .string(key)), (key: "is_ditto_server", value: true),
                (key: "documents", value: .object(documents)),
            ])
        ] + linkInformation()
    }

    /// A row of `system:data_sync_info` for each peer that was linked since the start.
    private func linkInformation() -> [ObjectValue] {
        (links?.mesh.knownPeers ?? []).map { peer in
            let status: Value = peer.isLinked ? "Connected" : "Not Connected"
            var documents = ObjectValue([(key: "sync_session_status", value: status)])
            if let commit = peer.syncedCommit {
                documents["synced_up_to_local_commit_id"] = .int(Int64(clamping: commit))
            }
            if let time = peer.lastUpdateMilliseconds {
                documents["last_update_received_time"] = .int(Int64(clamping: time))
            }
            return ObjectValue([
                (key: "_id", value: .string(peer.peerKey)), (key: "is_ditto_server", value: false),
                (key: "documents", value: .object(documents)),
            ])
        }
    }

    /// Sets the listener for changes of the connection's status.
    func onStatus(_ listener: @escaping @Sendable () -> Void) {
        statusListener.withLock { $0 = listener }
    }

    /// Links or their conditions have changed.
    func linksChanged() {
        statusListener.withLock { $0 }?()
        changes.advance()
    }

    /// Returns whether a session with the server is open.
    var isConnectedToServer: Bool { peer?.status == .connected }

    private func heard(_ notice: PeerSync.Notice) {
        if case .status = notice { statusListener.withLock { $0 }?() }
        guard case .report(let report) = notice else { return }
        switch report {
        case .subscriptionRefused(let key, let error):
            let query = state.withLock { state -> String? in
                let query = state.subscriptions.first { $0.key == key }?.queryString
                state.refusals[key] = query.map { ($0, Failure(remote: error.code, error.message)) }
                return query
            }
            guard let query else { return }
            logger.warning(
                "the server refused a subscription", metadata: ["query": "\(query)", "reason": "\(error)"])
        case .subscriptionIsLive(let key): state.withLock { $0.refusals[key] = nil }
        // The store keeps refused writes: `refusedCommits` lists them.
        case .writeRefused, .connected, .historyForked: break
        }
    }
}

// MARK: - For the command line

extension DittoSync {
    /// The status of the connection.
    package var status: SyncStatus {
        let problems = state.withLock { $0.problems }
        guard let peer else { return linkStatus(problems) }
        return switch peer.status {
        case .stopped: SyncStatus(text: "stopped", lastError: nil, problems: problems)
        case .connecting(let lastError):
            SyncStatus(text: "connecting", lastError: lastError, problems: problems)
        case .connected: SyncStatus(text: "connected", lastError: nil, problems: problems)
        }
    }

    /// The status of an instance without a server: connected with a link.
    private func linkStatus(_ problems: [String: Failure]) -> SyncStatus {
        guard isActive, let links else {
            return SyncStatus(text: "stopped", lastError: nil, problems: problems)
        }
        let isLinked = !links.mesh.seen.peers.isEmpty
        return SyncStatus(
            text: isLinked ? "connected" : "connecting", lastError: isLinked ? nil : links.problem,
            problems: problems)
    }

    /// The present links, and the state of dialing and listening.
    package var linkReport: LinkReport? { links.map { LinkReport($0) } }

    /// The last local commit, and the last one up to which the server holds all local writes.
    package func commits() throws -> (last: UInt64, acknowledged: UInt64) {
        let replica = try engine.replica()
        return (last: replica.head, acknowledged: try replica.acknowledgedCommit())
    }

    /// As `stop()`, but waits until the connection has ended.
    package func stopAndWait() async {
        stop()
        await state.withLock { $0.lifecycle }?.value
    }

    /// The reason why the server refused a local commit, `SYNC-0401: message`; nil when it did not.
    package func refusal(of commit: UInt64) -> String? {
        let found = try? engine.replica().refusal(ofCommit: commit)
        return found.map { $0.message.isEmpty ? $0.code : "\($0.code): \($0.message)" }
    }

    /// The latest local commits that the server refused, ascending; at most `Limits.listedRefusals`.
    package func latestRefusedCommits() throws -> [DittoRefusedCommit] {
        guard let first = try replica().latestRefusedCommits(Limits.listedRefusals).last else { return [] }
        return try refusedCommits(from: first, limit: Limits.listedRefusals)
    }

    /// Returns whether the server has acknowledged everything up to a local commit; waits for it at most
    /// `timeout`.
    package func waitForAcknowledgement(of commit: UInt64, timeout: Duration) async -> Bool {
        let deadline = ContinuousClock.now + timeout
        while !Task.isCancelled {
            let version = changes.version
            guard let acknowledged = try? commits().acknowledged else { return false }
            let isWithheld = (try? replica().isWithheld(commit: commit)) ?? false
            if acknowledged >= commit, !isWithheld { return refusal(of: commit) == nil }
            let left = deadline - ContinuousClock.now
            guard left > .zero else { return false }
            await changes.wait(after: version, atMost: left)
        }
        return false
    }
}

/// The status of sync, for the command line.
package struct SyncStatus: Sendable {
    /// `stopped`, `connecting` or `connected`.
    package let text: String
    /// The reason why the last attempt or connection ended.
    package let lastError: String?
    /// The subscriptions that the server refused, by their query.
    package let problems: [String: Failure]
}

/// Passes notices on to a receiver that is created after the sender.
private final class NoticeBoard: Sendable {
    private let receiver = Mutex<(@Sendable (PeerSync.Notice) -> Void)?>(nil)

    func onPost(_ receive: @escaping @Sendable (PeerSync.Notice) -> Void) {
        receiver.withLock { $0 = receive }
    }
    func post(_ notice: PeerSync.Notice) { receiver.withLock { $0 }?(notice) }
}
