import Attachments
import Dispatch
import Foundation
import Synchronization

/// One fetch of an attachment. It goes on whether this is kept or not.
///
/// `state` guards what is under way. `delivery` is held while the handler runs, so that `stop()` returns only
/// when no call is under way; it is recursive, because a handler may stop its own fetcher.
public final class DittoAttachmentFetcher: Hashable, Sendable {
    private struct State {
        var isOver = false
        var task: Task<Void, Never>?
    }

    let id: BlobID
    /// What is told when it has come.
    let attachment: DittoAttachment
    private weak let transfers: AttachmentTransfers?
    private let queue: DispatchQueue
    private let handler: @Sendable (DittoAttachmentFetchEvent) -> Void
    private let state = Mutex(State())
    private let delivery = NSRecursiveLock()

    init(
        _ id: BlobID, _ attachment: DittoAttachment, _ transfers: AttachmentTransfers, _ queue: DispatchQueue,
        _ handler: @escaping @Sendable (DittoAttachmentFetchEvent) -> Void
    ) {
        self.id = id
        self.attachment = attachment
        self.transfers = transfers
        self.queue = queue
        self.handler = handler
    }

    /// Ends the fetch. No call of its handler runs after this has returned, unless this was called by the
    /// handler itself. What has come is not kept.
    public func stop() {
        end()
        delivery.withLock {}
    }

    /// Begins.
    func begin(_ work: @escaping @Sendable () async -> Void) {
        let task = Task { await work() }
        let isOver = state.withLock { state in
            state.task = task
            return state.isOver
        }
        if isOver { task.cancel() }
    }

    /// Waits until nothing more is written for it.
    func ended() async { await state.withLock { $0.task }?.value }

    /// So much of it is here.
    func report(_ bytes: Int64) {
        let total = UInt64(attachment.len)
        queue.async { [self] in
            delivery.withLock {
                guard !isOver else { return }
                handler(.progress(downloadedBytes: UInt64(bytes), totalBytes: total))
            }
        }
    }

    /// It is here.
    func complete() {
        queue.async { [self] in
            delivery.withLock {
                guard end() else { return }
                handler(.completed(attachment))
            }
        }
    }

    private var isOver: Bool { state.withLock { $0.isOver } }

    /// False when it was over before.
    @discardableResult private func end() -> Bool {
        let task: Task<Void, Never>?? = state.withLock { state in
            guard !state.isOver else { return .none }
            state.isOver = true
            return .some(state.task)
        }
        guard let task else { return false }
        task?.cancel()
        transfers?.remove(self)
        return true
    }

    /// Same fetch.
    public static func == (left: DittoAttachmentFetcher, right: DittoAttachmentFetcher) -> Bool {
        left === right
    }
    /// By identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
