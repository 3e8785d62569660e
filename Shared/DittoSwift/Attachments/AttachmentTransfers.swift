import AsyncHTTPClient
import Attachments
import CRDT
import Foundation
import Logging
import Synchronization
import Transport

/// The transfers of a store: downloads that fetchers or the parameter `attachments_auto_fetch` want, and
/// uploads of attachments that were made on this device.
///
/// A download has one task, however many fetchers want it. Its received part is kept on disk, so it goes on
/// at the byte after a restart of the application too. Uploads go one after the other. Both retry until they
/// succeed.
/// `signal` advances when a retry may succeed.
///
/// `state` guards the downloads and the single upload task.
final class AttachmentTransfers: Sendable {
    private struct Key: Hashable {
        var id: BlobID
        var length: Int64
    }

    private struct Running {
        var task: Task<Void, Never>?
        var fetchers: Set<DittoAttachmentFetcher> = []
        /// True if it is wanted without a fetcher.
        var isAutomatic = false
    }

    private struct State {
        var downloads: [Key: Running] = [:]
        /// Attachments to be fetched without a fetcher, in the order in which documents named them.
        var wanted: [Key] = []
        var sending: Task<Void, Never>?
        /// Ended tasks whose last steps may still run.
        var ending: [Task<Void, Never>] = []
        /// True if more work may have come while the task was ending.
        var isCalled = false
        var isShutDown = false
    }

    private let folder: AttachmentFolder
    private let server: AttachmentServer?
    private let logger: Logger
    private let isConnected: @Sendable () -> Bool
    private let links: @Sendable () -> [BlobLink]
    private let mentions: MentionLook
    private let patience: Duration
    private let signal = ChangeSignal()
    private let state = Mutex(State())

    /// - Parameters:
    ///   - unmentioned: takes out of a set all that documents here mention; nil if that cannot be told.
    ///   - links: ways to the attachments of linked peers.
    ///   - patience: time without a byte after which a fetcher is told.
    init(
        _ folder: AttachmentFolder, server: ServerAddresses?, authenticator: DittoAuthenticator?,
        logger: Logger, patience: Duration = Limits.fetchPatience,
        unmentioned: @escaping @Sendable (Set<UInt64>) async -> Set<UInt64>? = { _ in nil },
        links: @escaping @Sendable () -> [BlobLink] = { [] },
        isConnected: @escaping @Sendable () -> Bool
    ) {
        self.folder = folder
        self.server = server.flatMap { server in
            authenticator.map { AttachmentServer(origin: server.attachments, authenticator: $0) }
        }
        self.logger = logger
        self.patience = patience
        mentions = MentionLook(unmentioned)
        self.isConnected = isConnected
        self.links = links
    }

    var fetchers: Set<DittoAttachmentFetcher> {
        state.withLock { state in
            state.downloads.values.reduce(into: Set()) { $0.formUnion($1.fetchers) }
        }
    }

    /// The ids of attachments that are on their way to this device.
    var arriving: Set<BlobID> { state.withLock { Set($0.downloads.keys.map(\.id)) } }

    func add(_ fetcher: DittoAttachmentFetcher) {
        let key = Key(id: fetcher.id, length: Int64(fetcher.attachment.len))
        let isTaken = state.withLock { state in
            guard !state.isShutDown else { return false }
            state.downloads[key, default: Running()].fetchers.insert(fetcher)
            start(key, &state)
            return true
        }
        if !isTaken { fetcher.stop() }
    }

    func remove(_ fetcher: DittoAttachmentFetcher) {
        let key = Key(id: fetcher.id, length: Int64(fetcher.attachment.len))
        state.withLock { state in
            state.downloads[key]?.fetchers.remove(fetcher)
            guard let running = state.downloads[key], running.fetchers.isEmpty, !running.isAutomatic else {
                return
            }
            end(key, &state)
        }
    }

    /// Fetches attachments that documents have named, a few at a time; unknown lengths and ids are skipped.
    func want(_ tokens: [AttachmentToken]) {
        let keys = tokens.compactMap { token in
            (try? BlobID(token.id)).map { Key(id: $0, length: token.length) }
        }
        state.withLock { state in
            guard !state.isShutDown else { return }
            for key in keys where state.wanted.count < Limits.wantedAttachments {
                if !state.wanted.contains(key) { state.wanted.append(key) }
            }
            startWanted(&state)
        }
    }

    /// The connection's status has changed, or there is something to upload.
    func wake() {
        signal.advance()
        guard server != nil, isConnected() else { return }
        state.withLock { state in
            state.isCalled = true
            guard state.sending == nil, !state.isShutDown else { return }
            state.sending = Task { [weak self] in await self?.send() }
        }
    }

    /// A commit has come: documents may name other attachments now.
    func documentsChanged() { mentions.documentsChanged() }

    /// Linked peers have come or gone.
    func linksChanged() { signal.advance() }

    /// Cancels everything, and waits until nothing more is written.
    func shutDownAndWait() async {
        shutDown()
        let tasks = state.withLock { state in
            state.downloads.values.compactMap(\.task) + state.ending + [state.sending].compactMap { $0 }
        }
        for task in tasks { await task.value }
    }

    /// Cancels everything.
    func shutDown() {
        let (fetchers, tasks) = state.withLock { state in
            state.isShutDown = true
            let running = Array(state.downloads.values)
            return (
                running.flatMap(\.fetchers), running.compactMap(\.task) + [state.sending].compactMap { $0 }
            )
        }
        for task in tasks { task.cancel() }
        for fetcher in fetchers { fetcher.stop() }
    }
}

// MARK: - Downloads

extension AttachmentTransfers {
    /// Begins a download unless it runs.
    private func start(_ key: Key, _ state: inout State) {
        guard state.downloads[key]?.task == nil else { return }
        let before = state.ending
        let download = AttachmentDownload(
            key.id, length: key.length, folder,
            AttachmentDownload.Surroundings(
                sources: { [weak self] in self?.sources ?? [] },
                isMentioned: { [weak self] in await self?.isMentioned($0) }, signal: signal,
                patience: patience, logger: logger),
            report: { [weak self] bytes in self?.each(key) { $0.report(bytes) } },
            tell: { [weak self] problem in self?.each(key) { $0.tell(problem) } })
        state.downloads[key]?.task = Task { [weak self] in
            // One that was stopped just now may still have the file.
            for task in before { await task.value }
            let outcome = await download.run()
            self?.ended(key, outcome)
        }
    }

    private func isMentioned(_ id: BlobID) async -> Bool? {
        await mentions.isMentioned(id, others: arriving)
    }

    /// Linked peers before the server: they are nearer.
    private var sources: [any AttachmentSource] {
        let peers = links().map { LinkedPeer(link: $0) }
        guard let server, isConnected() else { return peers }
        return peers + [server]
    }

    private func each(_ key: Key, _ body: (DittoAttachmentFetcher) -> Void) {
        for fetcher in state.withLock({ $0.downloads[key]?.fetchers ?? [] }) { body(fetcher) }
    }

    private func ended(_ key: Key, _ outcome: Download.Outcome) {
        guard outcome != .stopped else { return }
        let fetchers = state.withLock { state in
            defer { startWanted(&state) }
            return state.downloads.removeValue(forKey: key)?.fetchers ?? []
        }
        for fetcher in fetchers {
            if outcome == .completed { fetcher.complete() } else { fetcher.delete() }
        }
    }

    private func end(_ key: Key, _ state: inout State) {
        guard let task = state.downloads.removeValue(forKey: key)?.task else { return }
        task.cancel()
        state.ending.append(task)
        if state.ending.count > Limits.endingTransfers { state.ending.removeFirst() }
    }

    private func startWanted(_ state: inout State) {
        while !state.isShutDown, !state.wanted.isEmpty,
            state.downloads.values.count(where: \.isAutomatic) < Limits.automaticDownloads
        {
            let key = state.wanted.removeFirst()
            state.downloads[key, default: Running()].isAutomatic = true
            start(key, &state)
        }
    }
}

// MARK: - Uploads

extension AttachmentTransfers {
    /// Waits until a retry may succeed or the pause is over; returns the next pause.
    private func rest(after version: UInt64, _ pause: Duration) async -> Duration {
        await signal.wait(after: version, atMost: isConnected() ? pause : .seconds(3_600))
        return min(pause * 2, Limits.longestTransferPause)
    }

    private func send() async {
        var pause = Limits.firstTransferPause
        while !Task.isCancelled {
            let version = signal.version
            state.withLock { $0.isCalled = false }
            let waiting = folder.waiting
            var sent = 0
            // A failed upload does not hold up the others. One that the server refuses for good is not
            // retried.
            for id in waiting where isConnected() && !Task.isCancelled {
                guard await isSent(id) else { continue }
                folder.wasSent(id)
                sent += 1
            }
            if sent == waiting.count || !isConnected() {
                let isDone = state.withLock { state in
                    guard !state.isCalled || state.isShutDown else { return false }
                    state.sending = nil
                    return true
                }
                if isDone { return }
            } else {
                pause = await rest(after: version, sent > 0 ? Limits.firstTransferPause : pause)
            }
        }
    }

    /// One attempt. Returns true if the attachment is there, or never will be.
    private func isSent(_ id: BlobID) async -> Bool {
        guard let server else { return false }
        do {
            switch try await AttachmentUpload(id: id, folder: folder, server: server).attempt() {
            case .sent: return true
            case .later: return false
            case .refused:
                logger.warning(
                    "the server does not accept an attachment of this size", metadata: ["id": "\(id)"])
                return true
            }
        } catch {
            logger.warning("an attachment cannot be sent", metadata: ["id": "\(id)", "error": "\(error)"])
            return (error as? AttachmentError)?.code == .notFound
        }
    }
}

/// The transfers of a store, which are created after the store.
final class TransfersLink: Sendable {
    private let transfers = Mutex<AttachmentTransfers?>(nil)

    var current: AttachmentTransfers? { transfers.withLock { $0 } }
    func connect(_ made: AttachmentTransfers) { transfers.withLock { $0 = made } }
}
