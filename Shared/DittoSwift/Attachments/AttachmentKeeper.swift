import Attachments
import CRDT
import DQL
import Foundation
import Logging
import Machine
import Replica
import Synchronization

/// Keeps the attachments of a device in step with its documents: removes those that no document mentions and
/// the application does not hold, and with `attachments_auto_fetch` fetches those that documents name.
///
/// `state` guards the task.
final class AttachmentKeeper: Sendable {
    private struct State {
        var task: Task<Void, Never>?
        var listener: Int?
    }

    private let engine: Engine
    private let transfers: AttachmentTransfers
    private let logger: Logger
    private let state = Mutex(State())

    init(_ engine: Engine, _ transfers: AttachmentTransfers, logger: Logger) {
        (self.engine, self.transfers, self.logger) = (engine, transfers, logger)
    }

    /// Begins to look, and to listen for documents.
    func begin() {
        guard let replica = try? engine.replica() else { return }
        let settings = engine.settings
        let listener = replica.addListener { [weak self] commit in
            self?.transfers.documentsChanged()
            guard commit.actor == nil, settings.fetchesAttachments else { return }
            self?.want(commit.documents)
        }
        state.withLock { state in
            state.listener = listener
            state.task = Task { [weak self] in
                await self?.wantAll()
                while !Task.isCancelled {
                    let pause = self?.engine.settings.attachmentCollectionInterval
                    guard let pause, (try? await Alarm.sleep(for: pause)) != nil else { return }
                    await self?.collect(nowSeconds: Int64(Date().timeIntervalSince1970))
                }
            }
        }
    }

    /// Ends, and waits until nothing more is removed.
    func shutDownAndWait() async {
        let task = shutDown()
        await task?.value
    }

    /// Ends.
    @discardableResult func shutDown() -> Task<Void, Never>? {
        let (task, listener) = state.withLock { state in
            defer { state.listener = nil }
            return (state.task, state.listener)
        }
        task?.cancel()
        if let listener { try? engine.replica().removeListener(listener) }
        return task
    }

    // MARK: Fetching

    /// All documents, for what they named before the parameter was set or while the application was not
    /// running.
    private func wantAll() async {
        guard engine.settings.fetchesAttachments else { return }
        let engine = engine
        let tokens = try? await engine.readers.run {
            var tokens: [AttachmentToken] = []
            try engine.replica().read { transaction in
                for collection in try transaction.collectionNames() {
                    try transaction.scan(collection) { record in
                        try record.document.root.forEachAttachment { tokens.append($0) }
                        return tokens.count < Limits.wantedAttachments
                    }
                }
            }
            return tokens
        }
        transfers.want(tokens ?? [])
    }

    private func want(_ keys: [DocumentKey]) {
        let (engine, transfers) = (engine, transfers)
        Task {
            let tokens = try? await engine.readers.run {
                var tokens: [AttachmentToken] = []
                try engine.replica().read { transaction in
                    for key in keys {
                        try transaction.lookup(key.collection, key.id) { record in
                            try record.document.root.forEachAttachment { tokens.append($0) }
                        }
                    }
                }
                return tokens
            }
            transfers.want(tokens ?? [])
        }
    }

    // MARK: Removing

    /// One pass: removes what no document has mentioned for `Limits.attachmentGraceSeconds`, except what the
    /// application holds, what waits to be sent, and what is being fetched.
    func collect(nowSeconds: Int64, graceSeconds: Int64 = Limits.attachmentGraceSeconds) async {
        let (engine, transfers) = (engine, transfers)
        do {
            let removed = try await AttachmentFolder.disk.run {
                let store = try engine.attachments.store()
                guard let turn = try store.collectionTurn() else { return 0 }
                defer { turn.end() }
                let pass = try CollectionPass(store, nowSeconds: nowSeconds, graceSeconds: graceSeconds)
                while let prefixes = try pass.nextSlice() {
                    let due = try pass.settle(unmentioned: Self.unmentioned(prefixes, engine, transfers))
                    guard !due.isEmpty else { continue }
                    _ = try pass.remove(unmentioned: Self.unmentioned(due, engine, transfers))
                }
                try store.removeDownloads(untouchedSince: nowSeconds - Limits.partialDownloadSeconds)
                return pass.report.removed
            }
            if removed > 0 {
                logger.info(
                    "attachments that no document mentions were removed",
                    metadata: ["attachments": "\(removed)"])
            }
        } catch {
            logger.debug("attachments cannot be collected", metadata: ["error": "\(error)"])
        }
    }

    private static func unmentioned(
        _ all: Set<UInt64>, _ engine: Engine, _ transfers: AttachmentTransfers
    ) throws -> Set<UInt64> {
        let left = try removing(all, engine)
        let kept = engine.attachments.held.union(engine.attachments.waiting).union(transfers.arriving)
        return left.subtracting(kept.map(\.prefix))
    }

    /// Takes out all that documents here mention.
    private static func removing(_ all: Set<UInt64>, _ engine: Engine) throws -> Set<UInt64> {
        var left = all
        try engine.replica().read { transaction in
            for collection in try transaction.collectionNames() where !left.isEmpty {
                try transaction.scan(collection) { record in
                    BlobMentions.forEach(in: record.document.bytes) { left.remove($0) }
                    return !left.isEmpty
                }
            }
        }
        return left
    }

    /// The ones that no document here mentions; nil if that cannot be told.
    static func unmentioned(_ all: Set<UInt64>, _ engine: Engine) async -> Set<UInt64>? {
        try? await engine.readers.run { try removing(all, engine) }
    }
}

extension StoreSettings {
    /// `attachments_auto_fetch`.
    fileprivate var fetchesAttachments: Bool { parameters["attachments_auto_fetch"] == .bool(true) }

    /// `attachments_gc_interval_secs`.
    fileprivate var attachmentCollectionInterval: Duration {
        guard case .int(let seconds)? = parameters["attachments_gc_interval_secs"] else {
            preconditionFailure("the table has a number of seconds")
        }
        return .seconds(min(seconds, 86_400))
    }
}
