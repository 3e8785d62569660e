import CRDT
import DQL

@testable import Postgres

/// Definitions of indexes as documents, in a form of the tests' own.
enum DefinedIndexes {
    static let collection: CollectionName = "defined"
    static let projection = ProjectionIndexes(in: collection, all)

    static func id(_ name: String, _ collection: CollectionName) throws -> DocumentID {
        try DocumentID(.array([.string(collection.text), .string(name)]))
    }

    static func fields(of index: IndexDescription) -> ObjectValue {
        ObjectValue([(key: "keys", value: .binary(KeyForm.encode(index.keys)))])
    }

    @Sendable static func all(in documents: any DocumentSource) throws -> [IndexDescription] {
        var found: [IndexDescription] = []
        try documents.scan(collection) { record in
            guard case .array(let names) = record.id.value, case .string(let collection) = names[0],
                case .string(let name) = names[1],
                case .binary(let bytes)? = try record.document.root.value()["keys"],
                let keys = KeyForm.decode(bytes)
            else { return true }
            found.append(
                IndexDescription(
                    name: name, collection: CollectionName(collection), keys: keys))
            return true
        }
        return found
    }
}
