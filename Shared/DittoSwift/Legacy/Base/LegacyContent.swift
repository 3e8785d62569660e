import CRDT
import DQL
import Foundation

/// A value that an application passes to the 4.x API, with the types that its counters and registers ask for.
@available(*, deprecated, message: "Use the arguments of DQL")
struct LegacyContent {
    /// The type of a value, and of the fields below it.
    struct Declaration {
        var kind: String
        var fields: [(name: String, type: Declaration)] = []

        /// The type as a definition spells it: `MAP(n COUNTER)`.
        var text: String { fields.isEmpty ? kind : kind + "(" + Self.list(fields) + ")" }

        static func list(_ fields: [(name: String, type: Declaration)]) -> String {
            fields.map { StatementText.name($0.name) + " " + $0.type.text }.joined(separator: ", ")
        }
    }

    let value: Value
    /// Nil if the value needs no declared type.
    let declaration: Declaration?

    /// Converts a value. `path` names it in errors.
    /// - Throws: `SDK-0201` to `SDK-0203`.
    init(_ given: Any?, path: String) throws {
        let (plain, declaration) = Self.plain(given)
        self.declaration = declaration
        value = try plain.map { try Arguments.value($0, path: path, depth: 0) } ?? .null
    }

    /// The fields of a document.
    init(document: [String: Any?]) throws {
        let (plain, declaration) = Self.plain(document)
        self.declaration = declaration
        value = .object(try Arguments.object(plain as? [String: Any?] ?? document))
    }

    /// The value without counters and registers. Only dictionaries have fields of their own: an array is
    /// one register.
    private static func plain(_ given: Any?) -> (Any?, Declaration?) {
        switch given {
        case nil: return (nil, nil)
        case let counter as DittoCounter: return (counter.number.plain, Declaration(kind: "COUNTER"))
        case let register as DittoRegister: return (register.value, Declaration(kind: "REGISTER"))
        case let members as [String: Any?]:
            var plain = members
            var fields: [(name: String, type: Declaration)] = []
            for (name, member) in members.sorted(by: { $0.key < $1.key }) {
                let (value, type) = Self.plain(member)
                guard let type else { continue }
                plain.updateValue(value, forKey: name)
                fields.append((name: name, type: type))
            }
            // Untouched otherwise: the members may be of a type of their own.
            return fields.isEmpty ? (given, nil) : (plain, Declaration(kind: "MAP", fields: fields))
        default: return (given, nil)
        }
    }
}

@available(*, deprecated, message: "Use INSERT")
extension LegacyCollection {
    /// Writes a document, and returns its id.
    func upsert(_ document: [String: Any?], _ strategy: DittoWriteStrategy) throws -> DittoDocumentID {
        do {
            return try upsert(try LegacyContent(document: document), strategy)
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// Writes a document that encodes itself.
    func upsert(encoding document: some Encodable, _ strategy: DittoWriteStrategy) throws -> DittoDocumentID {
        do {
            let content = try LegacyContent(document, path: "document")
            guard case .object = content.value else {
                throw SDKError(.argumentTypeInvalid, "a document is an object, \(type(of: document)) is none")
            }
            return try upsert(content, strategy)
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// The `insert` of 1.x.
    func insert(_ document: [String: Any?], _ id: Any?, isDefault: Bool) throws -> DittoDocumentID {
        var document = document
        if let id { document["_id"] = id }
        return try upsert(document, isDefault ? .insertDefaultIfAbsent : .merge)
    }

    private func upsert(_ content: LegacyContent, _ strategy: DittoWriteStrategy) throws -> DittoDocumentID {
        let fields = content.declaration?.fields ?? []
        let target = try quoted()
        let typed =
            fields.isEmpty ? target : "COLLECTION \(target) (\(LegacyContent.Declaration.list(fields)))"
        let policy =
            switch strategy {
            case .merge, .overwrite: " ON ID CONFLICT DO UPDATE"
            case .insertIfAbsent: " ON ID CONFLICT DO NOTHING"
            case .updateDifferentValues: " ON ID CONFLICT DO UPDATE_LOCAL_DIFF"
            case .insertDefaultIfAbsent: ""
            }
        let given = content.value["_id"]
        return try writing("upsert") { transaction in
            var statements: [(text: String, arguments: ObjectValue)] = []
            if strategy == .overwrite, let given {
                statements.append(
                    (text: "DELETE FROM \(target) WHERE _id = :id", arguments: .one("id", given)))
            }
            let initial = strategy == .insertDefaultIfAbsent ? "INITIAL " : ""
            statements.append(
                (
                    text: "INSERT INTO \(typed) \(initial)DOCUMENTS (:document)\(policy)",
                    arguments: .one("document", content.value)
                ))
            let result = try transaction.run(statements)
            let written = result.mutatedDocumentIDs()
            transaction.note(.inserted, written, name)
            guard let id = written.first ?? given.map(DittoDocumentID.init(content:)) else {
                preconditionFailure("a document without an id is always written")
            }
            return id
        }
    }
}
