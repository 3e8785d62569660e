import CRDT
import DQL
import Foundation
import Logging
import Replica
import Synchronization

/// Writes this small peer's report: a document of the collection `__small_peer_info` under the peer's key,
/// which sync sends to the server like any other.
///
/// Written while there is a connection, every `small_peer_info_publish_interval_secs` and as soon as the
/// application has set new metadata; and when an application first reads, changes, observes or subscribes to
/// reports, so that it finds this peer's. `signal` advances when a report may be due.
final class SmallPeerReport: Sendable {
    /// Facts about this peer from other parts of the SDK.
    struct Source: Sendable {
        var peerKey: @Sendable () -> String
        var deviceName: @Sendable () -> String
        var isConnected: @Sendable () -> Bool
        /// The queries of the subscriptions.
        var subscriptions: @Sendable () -> [String]
    }

    private struct State {
        var task: Task<Void, Never>?
        /// Writes the report that the first statement about reports needs; nil before one.
        var first: Task<Void, Never>?
        var isShutDown = false
    }

    /// The collection of the reports.
    static let collection: CollectionName = "__small_peer_info"
    private let engine: Engine
    private let info: DittoSmallPeerInfo
    private let source: Source
    private let signal = ChangeSignal()
    private let state = Mutex(State())

    init(_ engine: Engine, _ info: DittoSmallPeerInfo, _ source: Source) {
        self.engine = engine
        self.info = info
        self.source = source
    }

    /// The connection's status has changed, or the application has set new metadata.
    func wake() {
        signal.advance()
        guard source.isConnected() else { return }
        state.withLock { state in
            guard state.task == nil, !state.isShutDown else { return }
            state.task = Task { [weak self] in await self?.run() }
        }
    }

    /// Writes the report for the first statement about reports; returns when it is there.
    func provide() async {
        guard isWanted else { return }
        let task = state.withLock { state -> Task<Void, Never>? in
            guard !state.isShutDown else { return nil }
            let known = info.hasNews ? nil : state.first
            let task = known ?? Task { [weak self] in await self?.report() }
            state.first = task
            return task
        }
        await task?.value
    }

    func shutDown() {
        let tasks = state.withLock { state in
            state.isShutDown = true
            return [state.task, state.first]
        }
        for task in tasks { task?.cancel() }
    }

    private var isWanted: Bool { info.isEnabled && info.syncScope == .bigPeerOnly }

    private func report() async {
        do {
            info.wasTold()
            try await tell()
        } catch {
            engine.logger.debug("the report of this peer cannot be written", metadata: ["error": "\(error)"])
        }
    }

    private func run() async {
        var told = ContinuousClock.now
        while !Task.isCancelled {
            let version = signal.version
            let interval = engine.settings.parameters.smallPeerInfoInterval
            let isDue = info.hasNews || (interval > .zero && told.duration(to: .now) >= interval)
            if isDue, source.isConnected(), isWanted {
                told = .now
                await report()
            }
            let left = source.isConnected() ? interval - told.duration(to: .now) : .seconds(3_600)
            await signal.wait(
                after: version, atMost: interval > .zero ? max(left, .seconds(1)) : .seconds(3_600))
        }
    }

    /// Writes the report without a statement: statements may not write to the system's collections. Each
    /// field is a REGISTER.
    private func tell() async throws {
        let fields = try await document()
        let id = try DocumentID(.string(source.peerKey()))
        let replica = try engine.replica()
        try await engine.writer.run {
            _ = try replica.write { transaction in
                try transaction.edit(Self.collection, id) { editor in
                    if !editor.exists { editor.create() }
                    for field in fields.entries {
                        try editor.set([field.key], field.value, objectsAreRegisters: true)
                    }
                }
            }
        }
    }

    private func document() async throws -> ObjectValue {
        let parameters = engine.settings.parameters
        let now = Int64(clamping: engine.environment.wallMilliseconds())
        let queries = source.subscriptions().sorted().prefix(parameters.smallPeerInfoSubscriptions)
        let collections = try await counts(parameters.smallPeerInfoCollections)
        return ObjectValue(unique: [
            (key: "device_name", value: .string(source.deviceName())),
            (key: "os", value: .string(DittoPeerOS.current.stringValue)),
            (key: "sdk", value: ["language": "Swift", "version": .string(Ditto.version)]),
            (key: "last_update", value: .int(now)),
            (key: "local_subscriptions", value: .array(queries.map { .string($0) })),
            (key: "collections", value: .object(collections)),
            (key: "metadata", value: .object(info.told)),
        ])
    }

    /// The number of documents in each of the first collections.
    private func counts(_ limit: Int) async throws -> ObjectValue {
        let replica = try engine.replica()
        let names = try await engine.readers.run { try replica.read { try $0.collectionNames() } }
        var counts: [ObjectValue.Entry] = []
        for name in names.sorted().prefix(limit) {
            let quoted = name.text.split(separator: "`", omittingEmptySubsequences: false).joined(
                separator: "``")
            let statement = try engine.settings.prepare("SELECT COUNT(*) AS n FROM `\(quoted)`")
            let rows = try await engine.execute(statement, ObjectValue()).rows
            counts.append((key: name.text, value: rows.first?["n"] ?? .int(0)))
        }
        return ObjectValue(unique: counts)
    }
}
