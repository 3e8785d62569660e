import CRDT
import DQL
import Identity

/// The definitions of a database's indexes: documents of a collection that no grant covers
/// (`CompiledRules.serversOwn`), so they are on the log, and every query-service and every rebuild has them
/// (decision 0120). A store builds the indexes that they define.
enum IndexDefinitions {
    static let collection = CollectionName(CompiledRules.serversOwn + "indexes")

    /// The definition's id: collection and name, so that of two definitions of one name there is one.
    static func id(_ name: String, on collection: CollectionName) throws -> DocumentID {
        try DocumentID(.array([.string(collection.text), .string(name)]))
    }

    /// The definitions in the order of their ids. Documents that no version of ours wrote are left out.
    static func all(in documents: any DocumentSource) throws -> [IndexDescription] {
        var found: [IndexDescription] = []
        try documents.scan(collection) { record in
            if let index = try description(record) { found.append(index) }
            return true
        }
        return found
    }

    /// Returns whether an index is defined as it is described.
    static func contains(_ index: IndexDescription, in documents: any DocumentSource) throws -> Bool {
        var isThere = false
        try documents.lookup(collection, id(index.name, on: index.collection)) { record in
            isThere = try description(record)?.isDefined(like: index) ?? false
        }
        return isThere
    }

    /// Carries out CREATE INDEX or DROP INDEX.
    /// - Throws: `indexExists`, `unknownIndex`, `tooManyIndexes`.
    static func carryOut(_ change: IndexChange, in writer: any DocumentWriter) throws {
        switch change {
        case .create(let index, let ifNotExists):
            let known = try all(in: writer).filter { $0.collection == index.collection }
            if known.contains(where: { utf8Equal($0.name, index.name) }) {
                guard ifNotExists else { throw DQLError.indexExists(index.name, index.collection) }
                return
            }
            guard known.count < DQLLimits.indexesOfCollection else {
                throw DQLError.tooManyIndexes(index.collection)
            }
            try writer.edit(collection, id(index.name, on: index.collection)) {
                try $0.create(fields(of: index))
            }
        case .drop(let indexed, let name, let ifExists):
            let id = try id(name, on: indexed)
            guard try writer.exists(collection, id) else {
                if ifExists { return }
                throw DQLError.unknownIndex(name, indexed)
            }
            try writer.edit(collection, id) { $0.delete() }
        }
    }

    private static func fields(of index: IndexDescription) -> ObjectValue {
        let keys = index.keys.map { key -> Value in
            [
                "path": .array(key.path.map { .string($0) }), "descending": .bool(key.isDescending),
                "missing": .bool(key.includesMissing),
            ]
        }
        return ObjectValue([(key: "keys", value: .array(keys))])
    }

    private static func description(_ record: DocumentRecord) throws -> IndexDescription? {
        guard case .array(let names) = record.id.value, names.count == 2,
            case .string(let indexed) = names[0], case .string(let name) = names[1],
            let written = try record.document.root.value()["keys"]?.arrayValue, !written.isEmpty
        else { return nil }
        let keys = written.compactMap { key -> IndexDescription.Key? in
            guard let path = key["path"]?.arrayValue?.compactMap(\.stringValue), !path.isEmpty,
                let isDescending = key["descending"]?.boolValue,
                let includesMissing = key["missing"]?.boolValue
            else { return nil }
            return IndexDescription.Key(
                path: path, isDescending: isDescending, includesMissing: includesMissing)
        }
        guard keys.count == written.count else { return nil }
        return IndexDescription(name: name, collection: CollectionName(indexed), keys: keys, isReady: false)
    }
}

extension IndexDescription {
    /// Returns whether two have one definition, whatever their states are.
    func isDefined(like other: IndexDescription) -> Bool {
        collection == other.collection && utf8Equal(name, other.name) && keys == other.keys
    }
}
