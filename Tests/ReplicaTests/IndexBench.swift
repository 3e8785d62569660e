import CRDT
import DQL
import Foundation
import TestSupport

@testable import Replica

/// An index of collection `c`: paths with dots, a minus in front is DESC, `!` leaves out what lacks it.
func index(_ name: String, on paths: [String]) -> IndexDescription {
    IndexDescription(
        name: name, collection: "c",
        keys: paths.map { path in
            IndexDescription.Key(
                path: path.drop { "-!".contains($0) }.split(separator: ".").map(String.init),
                isDescending: path.hasPrefix("-"), includesMissing: !path.hasPrefix("!"))
        })
}

extension Replica {
    func createIndex(_ name: String, on paths: String...) throws {
        try change(.create(index(name, on: paths), ifNotExists: false))
    }

    /// Begins an index and adds so many steps of documents to it.
    func beginIndex(_ name: String, on path: String, steps: Int) throws {
        try store.begin(index(name, on: [path]), ifNotExists: false)
        for _ in 0..<steps { _ = try store.buildStep("c", name) }
    }

    func description(of name: String) throws -> IndexDescription? {
        try indexes().first { $0.name == name }
    }

    /// The ids of the documents that a scan finds, as JSON, in its order.
    func ids(_ name: String, _ ranges: [IndexRange], isReversed: Bool = false) throws -> [String] {
        try read { transaction in
            guard let index = try transaction.catalog(of: "c").indexes.first(where: { $0.name == name })
            else { return [] }
            let scan = IndexScan(index: index, ranges: ranges, isReversed: isReversed)
            var ids: [String] = []
            try transaction.documents(of: scan) { record in
                ids.append(record.id.description)
                return true
            }
            return ids
        }
    }

}

extension PeerReplica {
    /// Inserts many documents in one transaction.
    func insert(_ numbers: Range<Int>, _ fields: (Int) -> ObjectValue) throws {
        _ = try write { transaction in
            for number in numbers {
                try transaction.edit("c", DocumentID(.int(Int64(number)))) { editor in
                    editor.create()
                    for field in fields(number).entries { try editor.set([field.key], field.value) }
                }
            }
        }
    }
}

/// Waits until a condition holds; nothing here depends on how long that takes.
func until(_ condition: () throws -> Bool) rethrows {
    while try !condition() { usleep(1_000) }
}
