import Foundation
import Logging
import Replica
import TestSupport
import Testing

@testable import DittoSwift

/// Counts, from any task.
private actor Tally {
    private(set) var count = 0
    func add() { count += 1 }
}

@Suite("Transactions", .timeLimit(.minutes(5)))
struct TransactionTests {
    private func count(_ executing: any DittoQueryExecuting) async throws -> Int {
        try await executing.execute(query: "SELECT * FROM c", arguments: nil).items.count
    }

    private func insert(_ id: Int, _ executing: any DittoQueryExecuting) async throws -> DittoQueryResult {
        try await executing.execute(query: "INSERT INTO c DOCUMENTS ({'_id': :id})", arguments: ["id": id])
    }

    private func code(_ body: () async throws -> Void) async -> String? {
        do {
            try await body()
            return nil
        } catch {
            return String(error.localizedDescription.prefix { $0 != ":" && $0 != " " })
        }
    }

    @Test("everything in it is one commit, visible to it at once and to others at its end")
    func commit() async throws {
        try await withDitto { ditto in
            let results = try await ditto.store.transaction(hint: "both") { transaction in
                #expect(transaction.info.hint == "both" && !transaction.info.isReadOnly)
                #expect(transaction.store === ditto.store)
                let first = try await insert(1, transaction)
                let second = try await insert(2, transaction)
                #expect(try await count(transaction) == 2)
                #expect(first.commitID == nil)
                let outside = try await Task.detached { try await count(ditto.store) }.value
                #expect(outside == 0)
                return [first, second]
            }
            #expect(results.map(\.commitID) == [1, 1])
            #expect(try await count(ditto.store) == 2)
        }
    }

    @Test("rollback, or an error that leaves the closure, undoes everything; one that is caught does not")
    func rollback() async throws {
        try await withDitto { ditto in
            let action = try await ditto.store.transaction { transaction in
                _ = try await insert(1, transaction)
                return DittoTransactionCompletionAction.rollback
            }
            #expect(action == .rollback)
            await #expect(throws: CancellationError.self) {
                try await ditto.store.transaction { transaction in
                    _ = try await insert(1, transaction)
                    throw CancellationError()
                }
            }
            #expect(try await count(ditto.store) == 0)
            try await ditto.store.transaction { transaction in
                _ = try await insert(1, transaction)
                // The second document exists: nothing of the statement stays, the transaction goes on.
                let both = "INSERT INTO c DOCUMENTS ({'_id': 2}), ({'_id': 1})"
                #expect(await code { _ = try await transaction.execute(query: both) } == "DQL-0601")
                #expect(try await count(transaction) == 1)
                _ = try await insert(3, transaction)
            }
            let ids = try await ditto.store.execute(query: "SELECT _id FROM c ORDER BY _id").items
            #expect(ids.map { $0.value["_id"] as? Int } == [1, 3])
        }
    }

    @Test("those that write come one after the other: read-modify-write loses nothing")
    func serializable() async throws {
        try await withDitto { ditto in
            try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 0})")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<20 {
                    group.addTask {
                        try await ditto.store.transaction { transaction in
                            let read = try await transaction.execute(query: "SELECT n FROM c WHERE _id = 1")
                            let n = try #require(read.items.first?.value["n"] as? Int)
                            await Task.yield()
                            try await transaction.execute(
                                query: "UPDATE c SET n = :n WHERE _id = 1", arguments: ["n": n + 1])
                        }
                    }
                }
                try await group.waitForAll()
            }
            let read = try await ditto.store.execute(query: "SELECT n FROM c")
            #expect(read.items.first?.value["n"] as? Int == 20)
        }
    }

    @Test("one that reads sees one state, beside writers and other readers, and cannot write")
    func readOnly() async throws {
        try await withDitto { ditto in
            _ = try await insert(1, ditto.store)
            let tally = Tally()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        try await ditto.store.transaction(isReadOnly: true) { transaction in
                            await tally.add()
                            // All four are open at once, and a writer gets through.
                            while await tally.count < 5 { await Task.yield() }
                            let before = try await count(transaction)
                            let write = "DELETE FROM c"
                            await #expect { _ = try await transaction.execute(query: write) } throws: {
                                storeReason($0) == "transactionReadOnly"
                            }
                            let after = try await count(transaction)
                            #expect(before == 1 && after == 1)
                        }
                    }
                }
                group.addTask {
                    while await tally.count < 4 { await Task.yield() }
                    _ = try await insert(2, ditto.store)
                    await tally.add()
                }
                try await group.waitForAll()
            }
            #expect(try await count(ditto.store) == 2)
        }
    }

    @Test("the store inside its own transaction is refused, not waited for; another store is not")
    func nested() async throws {
        try await withDitto { ditto in
            try await withDitto { other in
                try await ditto.store.transaction { transaction in
                    #expect(await code { _ = try await insert(1, ditto.store) } == "SDK-0205")
                    #expect(await code { try await ditto.store.transaction { _ in } } == "SDK-0205")
                    _ = try await insert(1, other.store)
                    try await other.store.transaction { _ in
                        #expect(await code { _ = try await insert(1, ditto.store) } == "SDK-0205")
                    }
                    _ = try await insert(2, transaction)
                }
                #expect(try await count(ditto.store) == 1)
                #expect(try await count(other.store) == 1)
            }
        }
    }

    @Test("after its end, and for system parameters, a transaction takes nothing")
    func ended() async throws {
        try await withDitto { ditto in
            let kept = try await ditto.store.transaction { transaction in
                let show = "SHOW dql_strict_mode"
                #expect(await code { _ = try await transaction.execute(query: show) } == "SDK-0208")
                return transaction
            }
            #expect(await code { _ = try await insert(1, kept) } == "SDK-0206")
        }
    }

    @Test("one that cannot begin in time says so, and never runs")
    func timeout() async throws {
        try await withDitto { ditto in
            try await ditto.store.execute(query: "ALTER SYSTEM SET sqlite3_begin_txn_timeout_secs = 1")
            let tally = Tally()
            try await ditto.store.transaction { transaction in
                let late = Task.detached {
                    await code { try await ditto.store.transaction { _ in await tally.add() } }
                }
                #expect(await late.value == "SDK-0207")
                _ = try await insert(1, transaction)
            }
            _ = try await insert(2, ditto.store)
            #expect(await tally.count == 0)
            #expect(try await count(ditto.store) == 2)
        }
    }

    @Test("a document that was evicted is written again under a new actor, in the midst of a transaction")
    func afterEviction() async throws {
        try await withDitto { ditto in
            _ = try await insert(1, ditto.store)
            try await ditto.store.execute(query: "EVICT FROM c")
            let made = try await ditto.store.transaction { transaction in
                let made = try await transaction.execute(query: "INSERT INTO c DOCUMENTS ({'a': 1})")
                _ = try await insert(1, transaction)
                _ = try await insert(2, transaction)
                return made.mutatedDocumentIDs()[0].stringValue
            }
            let ids = try await ditto.store.execute(query: "SELECT _id FROM c").items
            #expect(ids.count == 3)
            #expect(ids.contains { $0.value["_id"] as? String == made })
        }
    }

    @Test(
        "a transaction that the store does not begin ends with its error, and waits for no statements",
        arguments: [false, true])
    func notBegun(isReadOnly: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let closed = try PeerReplica(
                directory: directory.path, environment: .system, logger: Logger(label: "test"))
            try closed.close()
            try await withDitto { ditto in
                let session = TransactionSession(ditto.store.engine, isReadOnly: isReadOnly)
                let error = #expect(throws: ReplicaError.self) {
                    try session.run(on: closed) { Issue.record("it has begun") }
                }
                #expect(error?.code == .closed)
            }
        }
    }

    @Test("closing waits for the transactions that are open")
    func closing() async throws {
        try await withTemporaryDirectory { directory in
            let ditto = try await Ditto.openAlone(config: .local(directory))
            let tally = Tally()
            async let done: Void = ditto.store.transaction { transaction in
                await tally.add()
                while await tally.count < 2 { await Task.yield() }
                _ = try await insert(1, transaction)
            }
            while await tally.count < 1 { await Task.yield() }
            async let closed: Void = ditto.close()
            await tally.add()
            try await done
            await closed
            let again = try await Ditto.openAlone(config: .local(directory))
            #expect(try await count(again.store) == 1)
            await again.close()
        }
    }
}
