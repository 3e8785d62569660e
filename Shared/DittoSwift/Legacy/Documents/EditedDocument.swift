import CRDT
import DQL
import Foundation
import Synchronization

/// One call of `update`: the changes of its closure, in the open transaction.
final class LegacyUpdate: Sendable {
    /// The effect of a change.
    enum Change: Sendable {
        case set(Value)
        case removed
        case incremented(Double)
    }

    /// One change.
    struct Entry: Sendable {
        let id: DittoDocumentID
        let path: String
        let change: Change
    }

    private struct State {
        var isOpen = true
        var entries: [Entry] = []
    }

    let collection: LegacyCollection
    let transaction: LegacyTransaction
    private let state = Mutex(State())

    init(_ collection: LegacyCollection, _ transaction: LegacyTransaction) {
        self.collection = collection
        self.transaction = transaction
    }

    /// The changes so far, in order.
    var entries: [Entry] { state.withLock { $0.entries } }

    /// The closure has returned.
    func close() { state.withLock { $0.isOpen = false } }

    /// - Throws: `SDK-0212` after the closure has returned.
    func checkOpen() throws(SDKError) {
        guard !state.withLock({ $0.isOpen }) else { return }
        throw SDKError(
            .updateEnded, "a mutable document can be changed only until the closure of its update returns")
    }

    func note(_ entry: Entry) { state.withLock { $0.entries.append(entry) } }
}

/// A document that `update` handed out, with its changes so far.
final class EditedDocument: Sendable {
    let id: DittoDocumentID
    let update: LegacyUpdate
    private let current: Mutex<KeptRow>

    init(_ row: KeptRow, _ update: LegacyUpdate) {
        id = row.documentID
        self.update = update
        current = Mutex(row)
    }

    /// The document as it is now.
    var row: KeptRow { current.withLock { $0 } }

    /// Runs an UPDATE of this document, which is `:id`, and reads it again.
    func write(_ statement: String, _ value: Value?, _ path: String, _ change: LegacyUpdate.Change) throws {
        try update.checkOpen()
        var arguments = ObjectValue.one("id", id.content)
        if let value { arguments["value"] = value }
        let written = try update.transaction.run(statement, arguments).mutatedDocumentIDs()
        guard !written.isEmpty else { return }
        update.note(LegacyUpdate.Entry(id: id, path: path, change: change))
        let select = try update.collection.statement(byID: "SELECT *")
        if let row = try update.transaction.run(select, .one("id", id.content)).items.first?.kept {
            current.withLock { $0 = row }
        }
    }
}

@available(*, deprecated, message: "Use UPDATE … SET")
extension LegacyPlace {
    /// Writes a value.
    func set(_ given: Any?, isDefault: Bool) {
        editing { document, target in
            guard !isDefault || value == nil else { return }
            let content = try LegacyContent(given, path: text)
            let types = content.declaration.map { " (\(declaration(of: $0)))" } ?? ""
            let collection = try document.update.collection.quoted()
            let source = types.isEmpty ? collection : "COLLECTION \(collection)\(types)"
            try document.write(
                "UPDATE \(source) SET \(target) = :value WHERE _id = :id", content.value, text,
                .set(content.value))
        }
    }

    /// Removes the field.
    func remove() {
        editing { document, target in
            let collection = try document.update.collection.quoted()
            try document.write(
                "UPDATE \(collection) UNSET \(target) WHERE _id = :id", nil, text, .removed)
        }
    }

    /// Adds to a counter.
    func increment(by amount: Double) {
        editing { document, target in
            let collection = try document.update.collection.quoted()
            let number: Value = Int64(exactly: amount).map { .int($0) } ?? .double(amount)
            try document.write(
                "UPDATE \(collection) APPLY \(target) PN_INCREMENT BY :value WHERE _id = :id", number, text,
                .incremented(amount))
        }
    }

    /// Calls a closure with the document and the path as a statement spells it. Errors go to the log.
    private func editing(_ body: (EditedDocument, _ target: String) throws -> Void) {
        guard case .edited(let document) = source else { return }
        do {
            try document.update.checkOpen()
            try body(document, try target())
        } catch {
            document.update.collection.store.unthrown.report("update", error)
        }
    }

    private func target() throws(SDKError) -> String {
        var names: [String] = []
        for step in steps {
            guard case .key(let key) = step, !key.isEmpty else {
                throw SDKError(
                    .placeNotWritable,
                    "'\(text)' cannot be written: an array is written as a whole, and a name is not empty")
            }
            names.append(StatementText.name(key))
        }
        return names.joined(separator: ".")
    }

    /// The types of a value here, declared from the document's top.
    private func declaration(of type: LegacyContent.Declaration) -> String {
        var type = type
        var names = steps.compactMap { if case .key(let key) = $0 { key } else { nil } }
        while names.count > 1, let name = names.popLast() {
            type = LegacyContent.Declaration(kind: "MAP", fields: [(name: name, type: type)])
        }
        return LegacyContent.Declaration.list([(name: names.first ?? "", type: type)])
    }
}
