import Attachments
import Dispatch
import Foundation
import Synchronization

/// One fetch of an attachment. It continues even if the application does not keep this object.
///
/// `state` guards whether it is over, and its problem. `delivery` is held while the handler runs, so that
/// `stop()` returns only when no call is active; it is recursive because a handler may stop its own fetcher.
public final class DittoAttachmentFetcher: Hashable, Sendable {
    private struct State {
        var isOver = false
        var problem: DittoAttachmentFetchProblem?
    }

    let id: BlobID
    /// The attachment to deliver when it is complete.
    let attachment: DittoAttachment
    private weak let transfers: AttachmentTransfers?
    private let queue: DispatchQueue
    private let handler: Handler<(DittoAttachmentFetchEvent) -> Void>
    private let problemHandler: Handler<(DittoAttachmentFetchProblem) -> Void>?
    private let state = Mutex(State())
    private let delivery = NSRecursiveLock()

    init(
        _ id: BlobID, _ attachment: DittoAttachment, _ transfers: AttachmentTransfers, _ queue: DispatchQueue,
        _ handler: @escaping (DittoAttachmentFetchEvent) -> Void,
        _ problemHandler: ((DittoAttachmentFetchProblem) -> Void)? = nil
    ) {
        self.problemHandler = problemHandler.map { Handler($0) }
        self.id = id
        self.attachment = attachment
        self.transfers = transfers
        self.queue = queue
        self.handler = Handler(handler)
    }

    /// Ends the fetch. After this returns, its handler is not called any more, unless the handler itself
    /// called this. The received part is kept for some days, in
    /// which another fetch goes on from there.
    public func stop() {
        end()
        delivery.withLock {}
    }

    /// The reason why the fetch does not go on at the moment; nil while bytes come.
    public var problem: DittoAttachmentFetchProblem? { state.withLock { $0.problem } }

    /// Tells a reason why the fetch does not go on. It goes on by itself when the reason is gone.
    func tell(_ problem: Download.Problem) {
        let told = DittoAttachmentFetchProblem(problem)
        state.withLock { $0.problem = told }
        guard let problemHandler else { return }
        queue.deliver { [self] in
            delivery.withLock {
                guard !isOver else { return }
                problemHandler.call(told)
            }
        }
    }

    /// Reports progress: `bytes` are on this device.
    func report(_ bytes: Int64) {
        state.withLock { $0.problem = nil }
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

    /// Delivers that the attachment is nowhere any more.
    func delete() {
        queue.deliver { [self] in
            delivery.withLock {
                guard end() else { return }
                handler.call(.deleted)
            }
        }
    }

    private var isOver: Bool { state.withLock { $0.isOver } }

    /// Returns false when the fetch had ended before.
    @discardableResult private func end() -> Bool {
        let isFirst = state.withLock { state in
            defer { state.isOver = true }
            return !state.isOver
        }
        guard isFirst else { return false }
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
