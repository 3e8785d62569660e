import CRDT
import Foundation
import GRDB
import TestSupport
import Testing

@testable import Replica

@Suite("The database that a store belongs to")
struct StoreOwnerTests {
    private let upper: DatabaseID = "F232511C-256B-4B69-8D28-90283BF715D2"
    private let lower: DatabaseID = "f232511c-256b-4b69-8d28-90283bf715d2"

    /// A store with a document, closed again.
    private func make(
        _ folder: URL, owner: DatabaseID? = nil, seed: UInt64 = 1
    ) throws {
        let store = try open(folder, TestEnvironment(seed: seed), owner: owner)
        try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        try store.close()
    }

    /// The documents that an opening finds.
    private func count(_ folder: URL, owner: DatabaseID?) throws -> Int {
        let store = try open(folder, owner: owner)
        defer { try? store.close() }
        return try store.rows("SELECT * FROM c").count
    }

    /// The actor that a store's file names, without an opening, which gives a copy another one.
    private func actor(of folder: URL) throws -> Int64? {
        let queue = try DatabaseQueue(path: folder.appendingPathComponent(DocumentStore.fileName).path)
        defer { try? queue.close() }
        return try queue.read { try Int64.fetchOne($0, sql: "SELECT actor FROM store") }
    }

    @Test("a store is refused for another database, with both ids, and still opens for its own")
    func refused() throws {
        try withTemporaryDirectory { folder in
            try make(folder, owner: "boats")
            for _ in 0..<2 {
                let error = #expect(throws: ReplicaError.self) { _ = try open(folder, owner: "cars") }
                #expect(error?.code == .otherDatabase)
                #expect(error?.message.contains("belongs to the database boats") == true)
                #expect(error?.message.contains("opened for cars") == true)
                #expect(error?.message.contains("emptyPersistenceDirectory") == true)
            }
            #expect(try count(folder, owner: "boats") == 1)
            #expect(try count(folder, owner: nil) == 1)
        }
    }

    @Test("an empty store belongs to its database too, and one that nobody named to the first that is")
    func first() throws {
        try withTemporaryDirectory { folder in
            let empty = folder.appendingPathComponent("empty")
            try open(empty, owner: "boats").close()
            #expect(code { _ = try open(empty, owner: "cars") } == .otherDatabase)
            let unnamed = folder.appendingPathComponent("unnamed")
            try make(unnamed)
            #expect(try count(unnamed, owner: nil) == 1)
            #expect(try count(unnamed, owner: "cars") == 1)
            #expect(code { _ = try open(unnamed, owner: "boats") } == .otherDatabase)
        }
    }

    @Test("a UUID in capitals is the same database; capitals of other ids are not")
    func capitals() throws {
        try withTemporaryDirectory { folder in
            try make(folder, owner: upper)
            #expect(try count(folder, owner: lower) == 1)
            #expect(try count(folder, owner: upper) == 1)
            let named = folder.appendingPathComponent("named")
            try make(named, owner: "boats")
            #expect(code { _ = try open(named, owner: "Boats") } == .otherDatabase)
        }
    }

    @Test("a copy of a store belongs to the same database, and a refused opening gives it no new actor")
    func copy() throws {
        try withTemporaryDirectory { folder in
            let (original, copy) = (
                folder.appendingPathComponent("original"), folder.appendingPathComponent("copy")
            )
            try make(original, owner: "boats")
            try FileManager.default.copyItem(at: original, to: copy)
            let actor = try actor(of: copy)
            #expect(code { _ = try open(copy, owner: "cars") } == .otherDatabase)
            #expect(try self.actor(of: copy) == actor)
            #expect(try count(copy, owner: "boats") == 1)
        }
    }

    @Test("a store of before is judged by the id that files beside it show; a new one is not")
    func recorded() throws {
        try withTemporaryDirectory { folder in
            try make(folder)
            #expect(code { _ = try open(folder, owner: "cars", recorded: "boats") } == .otherDatabase)
            #expect(try count(folder, owner: nil) == 1)
            try open(folder, owner: "boats", recorded: "boats").close()
            // The kept id counts from now on, whatever stands beside it.
            #expect(code { _ = try open(folder, owner: "cars", recorded: "cars") } == .otherDatabase)
            try open(folder, owner: "boats", recorded: "cars").close()
            let new = folder.appendingPathComponent("new")
            try open(new, owner: "cars", recorded: "boats").close()
            #expect(code { _ = try open(new, owner: "boats") } == .otherDatabase)
        }
    }

    @Test("an emptied directory takes any database; one in use is not emptied")
    func emptied() throws {
        try withTemporaryDirectory { folder in
            let store = try open(folder, owner: "boats")
            try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let environment = TestEnvironment().environment
            #expect(
                code {
                    try PeerReplica.emptying(directory: folder.path, environment: environment) { try $0() }
                } == .directoryLocked)
            try store.close()
            try PeerReplica.emptying(directory: folder.path, environment: environment) { try $0() }
            #expect(try count(folder, owner: "cars") == 0)
            #expect(code { _ = try open(folder, owner: "boats") } == .otherDatabase)
        }
    }
}
