import CRDT
import Dispatch
import Foundation

/// The token of an attachment, as it stands in a document.
@available(*, deprecated, message: "Pass the token's dictionary, as it stands in the document")
public final class DittoAttachmentToken: Hashable, Sendable {
    let token: AttachmentToken

    init(_ token: AttachmentToken) { self.token = token }

    /// The digest of the attachment's bytes.
    public var id: String { token.id }
    /// The attachment's length in bytes.
    public var len: Int { Int(token.length) }
    /// The application's metadata for it.
    public var metadata: [String: String] {
        Dictionary(token.metadata.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
    }

    /// Same bytes and same metadata.
    public static func == (left: DittoAttachmentToken, right: DittoAttachmentToken) -> Bool {
        left.token == right.token
    }
    /// Hashes the id.
    public func hash(into hasher: inout Hasher) { hasher.combine(token.id) }
}

extension DittoStore {
    /// As `fetchAttachment` with the token's dictionary.
    @available(*, deprecated, message: "Pass the token's dictionary, as it stands in the document")
    @discardableResult
    public func fetchAttachment(
        token: DittoAttachmentToken, deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        onFetchEvent: @escaping (DittoAttachmentFetchEvent) -> Void
    ) throws -> DittoAttachmentFetcher {
        try fetchAttachment(
            token: token.token.value.objectValue?.plain ?? [:], deliverOn: queue, onFetchEvent: onFetchEvent)
    }
}
