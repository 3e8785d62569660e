/// What one transaction has edited so far, on its way to becoming an operation: a pending delta per document,
/// in the order of their first edits, under one stamp. Whoever drafts keeps the documents' states.
public struct OperationDraft: Sendable {
    /// For the transaction's result: documents above the soft limit.
    public private(set) var warnings: [String] = []
    private var pending: [DocumentKey: DocumentEditor.Pending] = [:]
    private var order: [DocumentKey] = []

    /// Nothing is edited yet.
    public init() {}

    /// Whether nothing is edited yet.
    public var isEmpty: Bool { order.isEmpty }

    /// What was edited in a document so far; nil when nothing was.
    public subscript(key: DocumentKey) -> DocumentEditor.Pending? { pending[key] }

    /// Takes note of an edit: all that is pending of a document, this edit included.
    public mutating func note(_ edits: DocumentEditor.Pending, of key: DocumentKey) {
        if pending.updateValue(edits, forKey: key) == nil { order.append(key) }
    }

    /// Judges the size of a document that an edit leaves, in encoded bytes; what shrinks is never refused.
    /// - Returns: why it must not be so large; nil when it may, with a warning above the soft limit.
    public mutating func refusal(
        of key: DocumentKey, bytes: Int, before: Int, softBytes: Int = Limits.documentSoftLimitBytes,
        hardBytes: Int = Limits.documentHardLimitBytes
    ) -> String? {
        guard bytes <= hardBytes || bytes <= before else {
            return "document \"\(key.id)\" of \(bytes) bytes exceeds limit of \(hardBytes) bytes"
        }
        if bytes > softBytes {
            warnings.append(
                "document \"\(key.id)\" has \(bytes) bytes, more than the recommended \(softBytes)")
        }
        return nil
    }

    /// The operation of everything edited, with its encoding; nil when nothing was.
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

    /// Why an operation of so many encoded bytes is not made; nil when it may be.
    public static func refusal(operationBytes bytes: Int) -> String? {
        guard bytes > Limits.operationBytes else { return nil }
        return "the transaction changes \(bytes) bytes, one may change \(Limits.operationBytes)"
    }
}
