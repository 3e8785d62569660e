import Attachments
import Dispatch
import Foundation
import Synchronization

/// One fetch of an attachment. It continues even if the application does not keep this object.
///
/// `state` guards the active task. `delivery` is held while the handler runs, so that `stop()` returns only
/// when no call is active; it is recursive because a handler may stop its own fetcher.
public final class DittoAttachmentFetcher: Hashable, Sendable {
    private struct State {
        var isOver = false
        var task: Task<Void, Never>?
    }

    let id: BlobID
    /// The attachment to deliver when it is complete.
    let attachment: DittoAttachment
    private weak let transfers: AttachmentTransfers?
    private let queue: DispatchQueue
    private let handler: Handler<(DittoAttachmentFetchEvent) -> Void>
    private let state = Mutex(State())
    private let delivery = NSRecursiveLock()

    init(
        _ id: BlobID, _ attachment: DittoAttachment, _ transfers: AttachmentTransfers, _ queue: DispatchQueue,
        _ handler: @escaping (DittoAttachmentFetchEvent) -> Void
    ) {
        self.id = id
        self.attachment = attachment
        self.transfers = transfers
        self.queue = queue
        self.handler = Handler(handler)
    }

    /// Ends the fetch. After this returns, its handler is not called any more, unless the handler itself
    /// called this. The received part is not kept.
    public func stop() {
        end()
        delivery.withLock {}
    }

    /// Starts the fetch.
    func begin(_ work: @escaping @Sendable () async -> Void) {
        let task = Task { await work() }
        let isOver = state.withLock { state in
            state.task = task
            return state.isOver
        }
        if isOver { task.cancel() }
    }

    /// Waits until the task writes nothing more.
    func ended() async { await state.withLock { $0.task }?.value }

    /// Reports progress: `bytes` are on this device.
    func report(_ bytes: Int64) {
        let total = UInt64(attachment.len)
        queue.deliver { [self] in
            delivery.withLock {
                guard !isOver else { return }
                handler.call(.progress(downloadedBytes: UInt64(bytes), totalBytes: total))
            }
        }
    }

    /// Delivers the complete attachment.
    func complete() {
        queue.deliver { [self] in
            delivery.withLock {
                guard end() else { return }
                handler.call(.completed(attachment))
            }
        }
    }

    private var isOver: Bool { state.withLock { $0.isOver } }

    /// Returns false when the fetch had ended before.
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

    /// True for the same fetch.
    public static func == (left: DittoAttachmentFetcher, right: DittoAttachmentFetcher) -> Bool {
        left === right
    }
    /// Hashes the identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
