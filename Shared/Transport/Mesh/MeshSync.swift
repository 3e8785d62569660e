import CRDT
import DQL
import Exchange
import Identity
import Logging
import Machine
import NIOPosix
import Replica
import Sync
import Synchronization

/// A small peer that is, or was, linked.
public struct MeshPeer: Sendable, Equatable {
    /// Its public key, which names it.
    public let peerKey: String
    /// The kind of the link.
    public let kind: LinkKind
    /// True if this side has dialed.
    public let isDialer: Bool
    /// The metadata in its certificate: JSON text of an object.
    public let identityMetadata: String?
    /// The record of its greeting, which it has signed: for the application's decision, nil otherwise.
    public let record: PresenceRecord?
    /// True while it is linked.
    public internal(set) var isLinked = true
    /// The local commit up to which it has everything that it subscribes to; nil if it has not said so.
    public internal(set) var syncedCommit: UInt64?
    /// Unix milliseconds at which something of it was stored last; nil if nothing was.
    public internal(set) var lastUpdateMilliseconds: UInt64?
}

/// Keeps a replica in sync with small peers: the links (`Mesh`), and a session on each (`MeshFeed`).
///
/// The store records changes for others only while there is something to dial or to listen on: a peer that
/// knows only its server pays nothing. `state` guards everything; the steps of starting and stopping run one
/// after the other in `state.lifecycle`, outside of the lock.
public final class MeshSync: Sendable {
    /// The identity of this peer, and the decisions of its application.
    public struct Configuration: Sendable {
        /// The database.
        public var databaseID: DatabaseID
        /// True if the instance has a server too.
        public var hasServer: Bool
        /// The peer's key; asked once, when the first link is to be made.
        public var key: @Sendable () throws -> PeerKey
        /// Key, certificate and authority as of now.
        public var credentials: @Sendable () throws -> MeshCredentials
        /// Returns whether the system keeps the clock in step with others. (The store knows a server's word
        /// on it.)
        public var isClockTrusted: @Sendable () -> Bool
        /// Decides about a peer that has greeted.
        public var ask: @Sendable (MeshPeer) async -> Bool
        /// Answers what linked peers ask about blobs; nil for an instance without any.
        public var blobs: (any BlobShare)?
        /// The presence of this peer; nil for none.
        public var presence: PresenceSync?

        /// A configuration of these parts.
        public init(
            databaseID: DatabaseID, hasServer: Bool, key: @escaping @Sendable () throws -> PeerKey,
            credentials: @escaping @Sendable () throws -> MeshCredentials,
            isClockTrusted: @escaping @Sendable () -> Bool,
            ask: @escaping @Sendable (MeshPeer) async -> Bool
        ) {
            self.databaseID = databaseID
            self.hasServer = hasServer
            self.key = key
            self.credentials = credentials
            self.isClockTrusted = isClockTrusted
            self.ask = ask
        }
    }

    private struct Running: Sendable {
        let mesh: Mesh
        let feed: MeshFeed
        let discovery: Discovery
        /// Looks now and then after documents that were ahead of the clock.
        let ticking: Task<Void, Never>
    }

    private struct Subscription {
        let statement: String
        let arguments: ObjectValue
        var holders: Int
    }

    private struct State {
        var isActive = false
        var settings = Mesh.Settings()
        var unserved: Set<CollectionName> = []
        var subscriptions: [[UInt8]: Subscription] = [:]
        var running: Running?
        var lifecycle: Task<Void, Never>?
        /// The peers that were linked since the start, by key.
        var met: [String: MeshPeer] = [:]
        var problem: String?
        /// How far documents have come each way, by the other peer's key.
        var progress: [String: Progress] = [:]
    }

    private struct Progress {
        var commit: UInt64?
        var milliseconds: UInt64?
    }

    private let replica: PeerReplica
    private let configuration: Configuration
    private let blobs: BlobLinks
    private let environment: Environment
    private let logger: Logger
    private let changed: @Sendable () -> Void
    private let executor = BlockingExecutor(label: "mimeo.mesh", isSerial: true)
    private let state = Mutex(State())

    /// A stopped engine. `changed` is called from any thread when links or conditions have changed; it must
    /// be quick.
    public init(
        replica: PeerReplica, configuration: Configuration, environment: Environment, logger: Logger,
        changed: @escaping @Sendable () -> Void
    ) {
        self.replica = replica
        self.configuration = configuration
        blobs = BlobLinks(configuration.blobs)
        self.environment = environment
        self.logger = logger
        self.changed = changed
    }

    /// Ways to the blobs of linked peers, the oldest link first.
    public var blobLinks: [BlobLink] { blobs.all }

    /// Starts linking, as far as the settings name anything.
    public func start() { step { $0.isActive = true } }

    /// Ends all links and waits until all storing has ended.
    public func stop() async {
        step { $0.isActive = false }
        await state.withLock { $0.lifecycle }?.value
    }

    /// Takes other settings: at once, if it runs.
    public func configure(_ settings: Mesh.Settings, unserved: [CollectionName]) {
        step { state in
            state.settings = settings
            state.unserved = Set(unserved)
        }
    }

    /// Adds a subscription; equal ones are counted together.
    public func subscribe(statement: String, arguments: ObjectValue) throws {
        let key = try LiveSubscription(statement: statement, arguments: arguments).key
        let feed = state.withLock { state -> MeshFeed? in
            var entry =
                state.subscriptions[key]
                ?? Subscription(statement: statement, arguments: arguments, holders: 0)
            entry.holders += 1
            state.subscriptions[key] = entry
            return entry.holders == 1 ? state.running?.feed : nil
        }
        _ = try feed?.subscribe(statement: statement, arguments: arguments)
    }

    /// Cancels one `subscribe`.
    public func unsubscribe(_ key: [UInt8]) {
        let feed = state.withLock { state -> MeshFeed? in
            guard var entry = state.subscriptions[key] else { return nil }
            entry.holders -= 1
            state.subscriptions[key] = entry.holders > 0 ? entry : nil
            return entry.holders > 0 ? nil : state.running?.feed
        }
        do {
            try feed?.unsubscribe(key)
        } catch {
            logger.error("a subscription's cursors cannot be removed", metadata: ["error": "\(error)"])
        }
    }

    /// The links, ports and conditions.
    public var seen: Mesh.Seen { state.withLock { $0.running }?.mesh.seen ?? Mesh.Seen() }

    /// The peers that were found, and the reasons why none are.
    public var found: Discovery.Seen { state.withLock { $0.running }?.discovery.seen ?? Discovery.Seen() }

    /// Takes the known connections between peers, by the keys of both ends: links to whom they do not lead
    /// are preferred.
    public func graphChanged(_ connections: [(String, String)]) {
        state.withLock { $0.running }?.discovery.graphChanged(connections)
    }

    /// The peers at the other ends of open links, oldest link first.
    public var peers: [MeshPeer] { seen.peers.map { Self.peer($0) } }

    /// The peers that were linked since the start, linked ones and others, by key.
    public var knownPeers: [MeshPeer] {
        let linked = Set(seen.peers.map(\.peerKey))
        let (met, progress) = state.withLock { ($0.met, $0.progress) }
        return met.values.sorted { $0.peerKey < $1.peerKey }.map { peer in
            var peer = peer
            peer.syncedCommit = progress[peer.peerKey]?.commit
            peer.lastUpdateMilliseconds = progress[peer.peerKey]?.milliseconds
            peer.isLinked = linked.contains(peer.peerKey)
            return peer
        }
    }

    private func progressed(_ peerKey: String, _ commit: UInt64?) {
        let milliseconds = environment.wallMilliseconds()
        state.withLock { state in
            var progress = state.progress[peerKey] ?? Progress()
            if let commit {
                progress.commit = max(progress.commit ?? 0, commit)
            } else {
                progress.milliseconds = milliseconds
            }
            if state.progress.count >= 2 * Limits.knownPeers, state.progress[peerKey] == nil {
                state.progress = state.progress.filter { state.met[$0.key] != nil }
            }
            state.progress[peerKey] = progress
        }
    }

    /// The reason why the mesh cannot run; nil if it can.
    public var problem: String? { state.withLock { $0.problem } }

    fileprivate static func peer(_ linked: Mesh.LinkedPeer, asks: Bool = false) -> MeshPeer {
        MeshPeer(
            peerKey: linked.peerKey, kind: linked.kind, isDialer: linked.isDialer,
            identityMetadata: linked.identity?.metadata, record: asks ? record(of: linked) : nil)
    }

    /// The record of a greeting, if the peer at this end of the link has signed it.
    private static func record(of linked: Mesh.LinkedPeer) -> PresenceRecord? {
        guard let signed = linked.record, let record = PresenceRecord(decoding: signed.content),
            record.peerKey == linked.peerKey,
            PresenceSignature.isValid(signed.signature, of: signed.content, by: record.peerKey)
        else { return nil }
        return record
    }

    // MARK: Steps

    private func step(_ change: (inout State) -> Void) {
        state.withLock { state in
            change(&state)
            let before = state.lifecycle
            state.lifecycle = Task {
                await before?.value
                await self.settle()
            }
        }
    }

    /// Brings what runs in line with what is wanted.
    private func settle() async {
        let (isActive, settings, unserved, running) = state.withLock { state in
            (state.isActive, state.settings, state.unserved, state.running)
        }
        let hasAny =
            !settings.addresses.isEmpty || !settings.listeners.isEmpty || settings.discovery.isAny
        switch running {
        case let running? where isActive:
            running.feed.setUnserved(unserved)
            running.mesh.configure(settings)
            running.discovery.configure(settings.discovery, syncGroup: settings.syncGroup)
        case let running?:
            await running.discovery.stop()
            running.ticking.cancel()
            configuration.presence?.leave()
            await running.mesh.stop()
            try? await executor.run { running.feed.close() }
            state.withLock { state in
                state.running = nil
                state.met = [:]
                state.progress = [:]
            }
            changed()
        case nil where isActive && hasAny: await begin(settings, unserved)
        case nil: break
        }
    }

    private func begin(_ settings: Mesh.Settings, _ unserved: Set<CollectionName>) async {
        do {
            let running = try await executor.run { try self.make() }
            running.feed.setUnserved(unserved)
            let subscriptions = state.withLock { state in
                state.running = running
                state.problem = nil
                return Array(state.subscriptions.values)
            }
            for subscription in subscriptions {
                _ = try running.feed.subscribe(
                    statement: subscription.statement, arguments: subscription.arguments)
            }
            running.mesh.configure(settings)
            running.mesh.start()
            running.discovery.configure(settings.discovery, syncGroup: settings.syncGroup)
        } catch {
            logger.error("cannot link with peers", metadata: ["error": "\(error)"])
            state.withLock { $0.problem = "\(error)" }
            changed()
        }
    }

    /// The feed and the links of this start; blocks for the disk.
    private func make() throws -> Running {
        let key = try configuration.key()
        let feed = try MeshFeed(
            replica: replica, hasServer: configuration.hasServer,
            setsLiveQueries: !configuration.hasServer, executor: executor, logger: logger)
        let greeting = feed.greeting(syncGroup: 0, isClockTrusted: false)
        let own = LinkTable.Remote(
            peerKey: key.publicKeyString,
            boot: LinkTable.Boot(count: greeting.starts, nonce: greeting.start), endsAt: nil)
        let (configuration, environment, blobs) = (configuration, environment, blobs)
        configuration.presence?.began(greeting)
        let security = LinkSecurity(
            databaseID: configuration.databaseID,
            nowSeconds: { Int64(environment.wallMilliseconds() / 1_000) },
            credentials: configuration.credentials)
        let mesh = Mesh(
            Mesh.Parts(
                databaseID: configuration.databaseID, own: own, sockets: LinkSockets(security: security),
                environment: environment, logger: logger,
                begin: { start in
                    MeshSession(
                        start, of: feed,
                        MeshSession.Own(
                            databaseID: configuration.databaseID, peerKey: own.peerKey,
                            isClockTrusted: configuration.isClockTrusted(),
                            wallMilliseconds: environment.wallMilliseconds(),
                            presence: configuration.presence,
                            progressed: { [weak self] key, commit in self?.progressed(key, commit) }),
                        blobs: blobs)
                },
                ask: { await configuration.ask(Self.peer($0, asks: true)) },
                changed: { [weak self] in self?.noteMet() }))
        let discovery = Discovery(
            Discovery.Parts(
                databaseID: configuration.databaseID, own: own, loop: mesh.loop, environment: environment,
                logger: logger, bus: BusConnection.path(), choose: { [weak mesh] in mesh?.dial(found: $0) },
                changed: { [weak self] in self?.changed() }))
        let ticking = Task {
            while (try? await Alarm.sleep(for: Limits.aheadInterval)) != nil {
                feed.askForDue()
                mesh.renewCertificates()
            }
        }
        return Running(mesh: mesh, feed: feed, discovery: discovery, ticking: ticking)
    }

    private func noteMet() {
        let seen = seen
        state.withLock { $0.running }?.discovery.linksChanged(seen)
        state.withLock { state in
            for peer in seen.peers { state.met[peer.peerKey] = Self.peer(peer) }
            // The oldest are not known; any of those that left goes.
            let linked = Set(seen.peers.map(\.peerKey))
            while state.met.count > Limits.knownPeers,
                let gone = state.met.keys.first(where: { !linked.contains($0) })
            {
                state.met[gone] = nil
            }
        }
        changed()
    }
}
