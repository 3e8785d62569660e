import CRDT
import ServiceKit

/// The lines of one call of a webhook.
struct WebhookBatch {
    private var lines: [String] = []
    private var bytes = 0
    /// The offset of the last operation of which all lines are in this call or an earlier one.
    private(set) var completed: Offset

    /// No lines, after an offset.
    init(after offset: Offset) { completed = offset }

    var isEmpty: Bool { lines.isEmpty }

    /// Returns whether a further line would be too much for one call.
    func isFull(for line: String) -> Bool {
        !lines.isEmpty
            && (lines.count >= Limits.webhookLines || bytes + line.utf8.count > Limits.webhookBytes)
    }

    mutating func add(_ line: String) {
        lines.append(line)
        bytes += line.utf8.count
    }

    /// Notes that an operation has no further lines.
    mutating func complete(_ offset: Offset) { completed = offset }

    /// `{"webhook", "database", "transactionId", "changes": [lines of the changes feed]}`.
    func body(of webhook: WebhookRecord) -> [UInt8] {
        let head: Value = [
            "webhook": .string(webhook.id), "database": .string(webhook.databaseID.text),
            "transactionId": .offset(completed),
        ]
        let text = JSONText.print(head)
        return Array("\(text.dropLast()),\"changes\":[\(lines.joined(separator: ","))]}".utf8)
    }
}
