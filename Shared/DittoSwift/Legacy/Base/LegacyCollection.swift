import CRDT
import DQL
import Foundation

/// One collection of the 4.x API, in the store or in an open transaction: the statements that its calls
/// become.
struct LegacyCollection: Sendable {
    let store: DittoStore
    let name: CollectionName
    /// Nil outside of `store.write`.
    let transaction: LegacyTransaction?

    init(_ store: DittoStore, _ name: String, _ transaction: LegacyTransaction? = nil) {
        self.store = store
        self.name = CollectionName(name)
        self.transaction = transaction
    }

    /// The name as a statement spells it.
    /// - Throws: `SDK-0211` for a name that the 4.x API does not allow.
    func quoted() throws(SDKError) -> String {
        let text = name.text
        guard !text.isEmpty, text.count < Limits.legacyNameCharacters, !text.unicodeScalars.contains("\0"),
            !text.hasPrefix("$TS_")
        else {
            throw SDKError(
                .collectionNameInvalid,
                "a collection's name has 1 to \(Limits.legacyNameCharacters - 1) characters, no U+0000,"
                    + " and does not begin with $TS_")
        }
        return StatementText.name(text)
    }

    /// The statement over the documents of a selection.
    func statement(_ verb: LegacySelection.Verb, _ selection: LegacySelection) throws -> String {
        _ = try quoted()
        return try selection.statement(verb, from: name)
    }

    /// The statement over the document of an id, which is the parameter `id`.
    func statement(byID verb: String) throws -> String { "\(verb) FROM \(try quoted()) WHERE _id = :id" }

    /// Runs a SELECT, in the transaction if there is one.
    func rows(_ statement: String, _ arguments: ObjectValue) throws -> [KeptRow] {
        if let transaction { return try transaction.run(statement, arguments).items.map(\.kept) }
        return try store.engine.readBlocking(statement, arguments, .legacy).kept
    }

    /// Runs a closure in the transaction, or in one of its own.
    func writing<Result>(_ call: String, _ body: (LegacyTransaction) throws -> Result) throws -> Result {
        if let transaction { return try body(transaction) }
        return try store.writing(call, body)
    }

    /// Removes or evicts documents. Returns their ids; none, and an entry in the log, when it fails.
    func remove(_ action: LegacyTransaction.Action, _ call: String, _ parts: () throws -> Parts)
        -> [DittoDocumentID]
    {
        do {
            let parts = try parts()
            return try writing(call) { transaction in
                let ids = try transaction.run(parts.statement, parts.arguments).mutatedDocumentIDs()
                transaction.note(action, ids, name)
                return ids
            }
        } catch {
            store.unthrown.report(call, error)
            return []
        }
    }

    /// A statement and its arguments.
    struct Parts: Sendable {
        let statement: String
        let arguments: ObjectValue
    }
}

extension ObjectValue {
    /// An object of one member.
    static func one(_ key: String, _ value: Value) -> ObjectValue {
        ObjectValue(unique: [(key: key, value: value)])
    }
}
