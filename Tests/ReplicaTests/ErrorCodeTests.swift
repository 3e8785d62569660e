import CRDT
import Exchange
import Foundation
import GRDB
import TestSupport
import Testing

@testable import Replica

@Suite("Error codes of the store")
struct ErrorCodeTests {
    @Test("every code is raised by something", arguments: ReplicaErrorCode.allCases)
    func raised(_ expected: ReplicaErrorCode) throws {
        try withTemporaryDirectory { folder in
            #expect(code { try Self.provoke(expected, in: folder) } == expected)
        }
    }

    @Test("codes are unique and stay below STORE-")
    func format() {
        let texts = ReplicaErrorCode.allCases.map(\.rawValue)
        #expect(Set(texts).count == texts.count)
        #expect(texts.allSatisfy { $0.hasPrefix("STORE-") && $0.utf8.count == 10 })
        #expect(ReplicaError(.closed, "gone").description == "STORE-0105: gone")
    }

    private static func provoke(_ code: ReplicaErrorCode, in folder: URL) throws {
        let file = folder.appendingPathComponent(DocumentStore.fileName)
        let large = arguments(("t", .string(String(repeating: "x", count: 4_500_000))))
        switch code {
        case .directoryLocked:
            let first = try open(folder)
            defer { withExtendedLifetime(first) {} }
            _ = try open(folder)
        case .directoryUnusable:
            // A directory where the store's file should be.
            try FileManager.default.createDirectory(at: file, withIntermediateDirectories: true)
            _ = try open(folder)
        case .unsupportedFormat:
            try open(folder).close()
            let queue = try DatabaseQueue(path: file.path)
            try queue.writeWithoutTransaction {
                try $0.execute(sql: "PRAGMA user_version = \(Schema.format + 1)")
            }
            try queue.close()
            _ = try open(folder)
        case .damaged:
            try Data(repeating: 1, count: 4_096).write(to: file)
            _ = try open(folder)
        case .closed:
            let store = try open(folder)
            try store.close()
            try store.execute("DELETE FROM c")
        case .otherDatabase:
            try open(folder, owner: "a").close()
            _ = try open(folder, owner: "b")
        case .documentTooLarge:
            try open(folder).execute("INSERT INTO c DOCUMENTS ({'_id': 1, 't': :t, 'u': :t})", large)
        case .transactionTooLarge:
            let store = try open(folder)
            _ = try store.write { transaction in
                for id in 0..<4 {
                    try transaction.edit("c", DocumentID(.int(Int64(id)))) {
                        try $0.set(["t"], large["t"] ?? .null)
                    }
                }
            }
        case .invalidCollection:
            _ = try open(folder).write { try $0.edit("", DocumentID(1)) { $0.create() } }
        case .storageFailed:
            let store = try open(folder)
            try FailureTests.limitPages(of: store, toFree: 5)
            try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 't': :t})", large)
        case .brokenLog:
            let store = try openFold(folder)
            _ = try store.fold([Materialization.LogItem(position: TestLog().position(2), bytes: [])])
        case .clockTooFarAhead:
            let state = try document("a", 1, by: 5, at: .max).encoded()
            let update = DocumentUpdate(key: try key("c", 1), content: .state(state))
            _ = try open(folder).receive(Reception(updates: [update]))
        }
    }
}
