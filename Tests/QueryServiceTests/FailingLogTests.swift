import CRDT
import Identity
import Logging
import OperationLog
import QueryService
import ServiceKit
import Testing

@Suite("A log that fails")
struct FailingLogTests {
    private func withTampered(
        _ body: @escaping @Sendable (TamperedLog, QueryClient) async throws -> Void
    ) async throws {
        try await QueryBench.each { bench in
            let log = TamperedLog(try await bench.openLog())
            try await bench.serving(log) { try await body(log, $0) }
            await log.close()
        }
    }

    @Test("when somebody else wrote as the projection's actor, the statement runs once more under a new one")
    func newActor() async throws {
        try await withTampered { log, client async throws in
            log.answerAppends(with: [.conflict(.foreignActor)])
            let answer = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(answer.status == 200)
            #expect(answer.transactionID == 1)
            #expect(Set(log.requests.map(\.record.actor)).count == 2)
            #expect(try await client.execute("SELECT * FROM c").items.count == 1)
        }
    }

    @Test("two refusals in a row are a conflict, and nothing is stored")
    func conflict() async throws {
        try await withTampered { log, client async throws in
            log.answerAppends(with: [.duplicate(through: 9), .gap(expected: 4)])
            let answer = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(answer.status == 409)
            #expect(answer.code == "QUERY-0302")
            #expect(try await client.execute("SELECT * FROM c").items == [])
        }
    }

    @Test(
        "a log that takes nothing is a 503; the next write after it has recovered is stored",
        arguments: [
            (OperationLogErrorCode.storageFull, "QUERY-0304"), (.overloaded, "QUERY-0303"),
        ])
    func refusedAppend(_ failure: OperationLogErrorCode, _ code: String) async throws {
        try await withTampered { log, client async throws in
            log.failAppends(failure)
            let answer = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(answer.status == 503)
            #expect(answer.code == code)
            #expect(answer.retryAfter == "1")
            log.failAppends(nil)
            #expect(try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})").transactionID == 1)
        }
    }

    /// Appends an operation of a peer that inserts a document, unknown to the service.
    static func insertElsewhere(_ log: any OperationLog, _ number: UInt64) async throws {
        let stamp = Stamp(time: (1_700_000_000_000 + number) << 16, actor: ActorID(11))
        var editor = DocumentEditor(document: Document(), stamp: stamp)
        try editor.create(ObjectValue([(key: "peer", value: .int(Int64(number)))]))
        let delta = try #require(editor.pending.delta(stamp: stamp))
        let change = CRDT.Operation.Change(
            collection: "c", id: try DocumentID(.string("peer\(number)")), delta: delta.encoded())
        let operation = CRDT.Operation(
            actor: stamp.actor, sequence: SequenceNumber(number), timestamp: stamp.time, changes: [change])
        let outcomes = try await log.append(
            [AppendRequest(operation, authorKey: "pk-anna")], to: DatabaseID(QueryBench.database))
        #expect(outcomes.count == 1)
    }

    /// Inserts the first document, which opens the projection: that may take longer than a statement may.
    static func begin(_ client: QueryClient) async throws {
        let insert = "INSERT INTO c DOCUMENTS ({'_id': 1}) ON ID CONFLICT DO NOTHING"
        while try await client.execute(insert).status != 200 {}
    }

    @Test("what is written through the service that folds stands there although the log cannot be read")
    func ownWrites() async throws {
        try await withTampered { log, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            log.failReads(.storageFailed)
            #expect(
                try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'n': 1})").transactionID == 2)
            #expect(try await client.execute("UPDATE c SET n = n + 1").transactionID == 3)
            #expect(try await client.execute("DELETE FROM c WHERE _id = 1").transactionID == 4)
            #expect(try await client.execute("SELECT * FROM c").rows == [#"{"_id":2,"n":2}"#])
            #expect(try await client.health() == 200)
        }
    }

    @Test("while the projection cannot follow what others write, statements say so at once")
    func unreadable() async throws {
        try await withTampered { log, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(try await client.health() == 200)
            log.failReads(.storageFailed)
            try await Self.insertElsewhere(log, 1)
            for statement in ["SELECT * FROM c", "INSERT INTO c DOCUMENTS ({'_id': 2})"] {
                let answer = try await client.execute(statement)
                #expect(answer.status == 503)
                #expect(answer.code == "QUERY-0304")
            }
            #expect(try await client.health() == 503)
            log.failReads(nil)
            #expect(try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 2})").transactionID == 3)
            #expect(try await client.execute("SELECT * FROM c").items.count == 3)
            #expect(try await client.health() == 200)
        }
    }

    @Test(
        "a statement waits for a fold that stands still as long as it may take, and a write is not made later"
    )
    func standingFold() async throws {
        var evaluation = EvaluationOptions()
        evaluation.statementTime = .milliseconds(400)
        try await QueryBench.each { bench in
            let log = TamperedLog(try await bench.openLog())
            try await bench.serving(log, evaluation: evaluation) { client async throws in
                try await Self.begin(client)
                log.holdReads(true)
                try await Self.insertElsewhere(log, 1)
                for statement in [
                    "SELECT * FROM c", "SELECT * FROM other", "INSERT INTO c DOCUMENTS ({'_id': 2})",
                ] {
                    let answer = try await client.execute(statement)
                    #expect(answer.status == 503, "\(statement)")
                    #expect(answer.code == "QUERY-0304")
                    #expect(answer.retryAfter == "1")
                }
                log.holdReads(false)
                var answer = try await client.execute("SELECT _id FROM c")
                while answer.status != 200 { answer = try await client.execute("SELECT _id FROM c") }
                #expect(answer.items.count == 2)
            }
            await log.close()
        }
    }

    @Test("so many statements wait for a fold that stands still; one more is answered at once")
    func crowdedFold() async throws {
        var bounds = QueryServicePart.Bounds()
        bounds.waitingForFold = 2
        let embedded = try QueryBench()
        let log = TamperedLog(try await embedded.openLog())
        try await embedded.serving(log, bounds: bounds) { client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            log.holdReads(true)
            try await Self.insertElsewhere(log, 1)
            try await withThrowingTaskGroup { tasks in
                for _ in 0..<3 { tasks.addTask { try await client.execute("SELECT * FROM c") } }
                let first = try #require(try await tasks.next())
                #expect(first.status == 503 && first.code == "QUERY-0304" && first.retryAfter == "1")
                log.holdReads(false)
                for try await answer in tasks { #expect(answer.items.count == 2) }
            }
            // Their places are free again.
            for _ in 0..<5 { #expect(try await client.execute("SELECT * FROM c").status == 200) }
        }
        await log.close()
    }

    @Test("a write between whose draft and whose append others wrote is folded behind them")
    func othersBetween() async throws {
        try await QueryBench.each { bench in
            let log = MeddledLog(TamperedLog(try await bench.openLog()))
            try await bench.serving(log) { client async throws in
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
                for number in 1...3 as ClosedRange<UInt64> {
                    log.meddle {
                        let tampered = try #require(log.log as? TamperedLog)
                        try await Self.insertElsewhere(tampered, number)
                    }
                    let insert = "INSERT INTO c DOCUMENTS ({'_id': 'own\(number)'})"
                    let answer = try await client.execute(insert)
                    #expect(answer.transactionID == Int64(number * 2 + 1))
                    #expect(
                        try await client.execute("SELECT * FROM c").items.count == Int(number * 2 + 1))
                }
                #expect(log.attempts == 1)
            }
            await log.close()
        }
    }

    @Test("a projection that could not follow tries again by itself, without a wake-up")
    func retry() async throws {
        try await withTampered { log, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            log.failReads(.storageFailed)
            try await Self.insertElsewhere(log, 1)
            #expect(try await client.execute("SELECT * FROM c").status == 503)
            #expect(try await client.health() == 503)
            log.failReads(nil)
            let end = ContinuousClock.now + .seconds(60)
            var status = 503
            while status != 200, ContinuousClock.now < end {
                try await Task.sleep(for: .milliseconds(50))
                status = try await client.health()
            }
            #expect(status == 200)
        }
    }

    @Test("a log that went back under the service is folded anew, and no statement rests on what it lost")
    func wentBack() async throws {
        let bench = try QueryBench()
        let first = try await bench.openLog()
        let other = try SQLiteOperationLog(path: "\(bench.folder)/other.sqlite")
        try await other.createDatabase(DatabaseID(QueryBench.database))
        let log = TamperedLog(first)
        try await bench.serving(log) { client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            log.failOver(to: other)
            for statement in ["UPDATE c SET n = 1 WHERE _id = 1", "SELECT * FROM c"] {
                let answer = try await client.execute(statement)
                #expect(answer.status == 200)
                #expect(answer.items.isEmpty)
            }
            #expect(try await client.health() == 200)
        }
        let head = try await other.head(of: DatabaseID(QueryBench.database))
        #expect(head.offset == 0)
        for log in [first, other] { await log.close() }
    }

    @Test("a projection that the log was truncated ahead of begins with the snapshot by itself")
    func behindTruncation() async throws {
        let bench = try QueryBench()
        let underneath = try await bench.openLog()
        let log = TamperedLog(underneath)
        try await bench.serving(log) { one async throws in
            _ = try await one.execute("INSERT INTO c DOCUMENTS ({'_id': 0})")
            // Sees nothing of what follows.
            log.failReads(.storageFailed)
            try await bench.serving(underneath, projection: "other") { two async throws in
                for number in 1...20 {
                    _ = try await two.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})")
                }
            }
            let fold = try await Materializer.open(
                DatabaseID(QueryBench.database), log: underneath, folder: "\(bench.folder)/fold",
                logger: Logger(label: "test"))
            try await fold.advance()
            _ = try await fold.writeSnapshot { true }
            await fold.close()
            try await underneath.truncate(DatabaseID(QueryBench.database), through: 15, keepingHashesAfter: 0)
            #expect(try await one.execute("SELECT * FROM c").status == 503)
            log.failReads(nil)
            let answer = try await one.execute("UPDATE c SET n = 1")
            #expect(answer.status == 200)
            #expect(try await one.execute("SELECT * FROM c WHERE n = 1").items.count == 21)
            #expect(try await one.health() == 200)
        }
        await underneath.close()
    }
}
