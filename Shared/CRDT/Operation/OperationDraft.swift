/// The edits of one transaction so far: a pending delta for each document, in the order of their first
/// edits, under one stamp. Becomes an operation at commit. The caller keeps the documents' states.
public struct OperationDraft: Sendable {
    /// Warnings for the transaction's result: documents above the soft limit.
    public private(set) var warnings: [String] = []
    private var pending: [DocumentKey: DocumentEditor.Pending] = [:]
    private var order: [DocumentKey] = []

    /// A draft without edits.
    public init() {}

    /// The edits of a document so far; nil when there is none.
    public subscript(key: DocumentKey) -> DocumentEditor.Pending? { pending[key] }

    /// Sets all pending edits of a document, the latest one included.
    public mutating func note(_ edits: DocumentEditor.Pending, of key: DocumentKey) {
        if pending.updateValue(edits, forKey: key) == nil { order.append(key) }
    }

    /// Checks the size of an edited document, in encoded bytes, and adds a warning above the soft limit. A
    /// document that does not grow is never refused.
    /// - Returns: the reason for a refusal; nil when the size is allowed.
    public mutating func refusal(
        of key: DocumentKey, bytes: Int, before: Int, softBytes: Int = Limits.documentSoftLimitBytes,
        hardBytes: Int = Limits.documentHardLimitBytes
    ) -> String? {
        guard bytes <= hardBytes || bytes <= before else {
            return "document \"\(key.id)\" of \(bytes) bytes exceeds the limit of \(hardBytes) bytes"
        }
        if bytes > softBytes {
            warnings.append(
                "document \"\(key.id)\" has \(bytes) bytes, more than the recommended \(softBytes)")
        }
        return nil
    }

    /// The operation of all edits, with its encoding; nil when there is no edit.
    public func operation(_ stamp: Stamp, sequence: SequenceNumber) -> (operation: Operation, bytes: [UInt8])?
    {
        guard !order.isEmpty else { return nil }
        let changes = order.compactMap { key in
            pending[key]?.delta(stamp: stamp).map {
                Operation.Change(collection: key.collection, id: key.id, delta: $0.encoded())
            }
        }
        let operation = Operation(
            actor: stamp.actor, sequence: sequence, timestamp: stamp.time, changes: changes)
        return (operation, operation.encoded())
    }

    /// The reason why an operation of this many encoded bytes is refused; nil when it is allowed.
    public static func refusal(operationBytes bytes: Int) -> String? {
        guard bytes > Limits.operationBytes else { return nil }
        return "the transaction has \(bytes) bytes, the limit is \(Limits.operationBytes); split it"
    }
}
