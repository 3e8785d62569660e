import CRDT
import Identity
import OperationLog
import Postgres
import QueryService
import ServiceKit
import Testing

@Suite(
    "A projection in PostgreSQL, over HTTP",
    .enabled(if: PostgresDatabase.serverURL != nil, "`make test` starts a PostgreSQL"),
    .timeLimit(.minutes(5)))
struct QueryProjectionPostgresTests {
    @Test("a PostgreSQL that is not there is a 503 that says when to come back; once it is, requests succeed")
    func missing() async throws {
        let (name, url) = try PostgresDatabase.named()
        let bench = try QueryBench(postgres: url)
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            for statement in ["SELECT * FROM c", "INSERT INTO c DOCUMENTS ({'_id': 1})"] {
                let answer = try await client.execute(statement)
                #expect(answer.status == 503)
                #expect(answer.code == "QUERY-0304")
                #expect(answer.retryAfter == "1")
            }
            #expect(try await client.health() == 503)
            try PostgresDatabase.create(name)
            #expect(try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})").transactionID == 1)
            #expect(try await client.execute("SELECT * FROM c").items.count == 1)
            #expect(try await client.health() == 200)
        }
        await log.close()
        try PostgresDatabase.drop(name)
    }

    @Test(
        "a server that cannot be reached, a URL that is none, a wrong encoding, a foreign schema are a 503",
        arguments: ["unreachable", "garbled", "encoding", "foreign", "newer"])
    func wrong(_ kind: String) async throws {
        let (name, url) = try PostgresDatabase.named()
        var place = url
        switch kind {
        case "unreachable": place = "postgres://nobody@/none?host=/nowhere"
        case "garbled": place = "postgres://["
        case "encoding":
            try PostgresDatabase.create("\(name) TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        case "foreign":
            try PostgresDatabase.create(name)
            try PostgresDatabase.run("CREATE SCHEMA mimeo_projection", at: url)
        default:
            try PostgresDatabase.create(name)
            try PostgresDatabase.run(
                """
                CREATE SCHEMA mimeo_projection; CREATE TABLE mimeo_projection.format (version int8);
                INSERT INTO mimeo_projection.format VALUES (99)
                """, at: url)
        }
        let bench = try QueryBench(postgres: place)
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            let answer = try await client.execute("SELECT * FROM c")
            #expect(answer.status == 503)
            #expect(answer.code == "QUERY-0304")
            #expect(answer.retryAfter == "1")
            let code = ["unreachable": "PROJ-0101", "foreign": "PROJ-0103", "newer": "PROJ-0104"][kind]
            let message = answer.body["error"]?["message"]?.stringValue ?? ""
            #expect(message.contains(code ?? "PROJ-0102"), "\(message)")
        }
        await log.close()
        try PostgresDatabase.drop(name)
    }

    @Test("with the log in the same PostgreSQL, each read sees what another process has just written")
    func besideLog() async throws {
        try await PostgresDatabase.use { url in
            let bench = try QueryBench(postgres: url)
            let logs = [try PostgresOperationLog(url: url), try PostgresOperationLog(url: url)]
            try await logs[0].createDatabase(DatabaseID(QueryBench.database))
            try await bench.serving(logs[0]) { one async throws in
                try await bench.serving(logs[1]) { two async throws in
                    for id in 0..<12 {
                        let (writer, reader) = id.isMultiple(of: 2) ? (one, two) : (two, one)
                        let written = try await writer.execute(
                            "INSERT INTO c DOCUMENTS ({'_id': \(id), 'n': \(id)})")
                        let read = try await reader.execute("SELECT * FROM c WHERE _id = \(id)")
                        #expect(read.rows == [#"{"_id":\#(id),"n":\#(id)}"#])
                        #expect(read.transactionID == written.transactionID)
                        let list = try await reader.execute("SELECT * FROM c WHERE n >= 0 LIMIT 40")
                        #expect(list.items.count == id + 1)
                        #expect(try await reader.execute("SELECT * FROM d").items.isEmpty)
                    }
                }
            }
            for log in logs { await log.close() }
        }
    }

    @Test("with the log in the same PostgreSQL, what another process has just written can be undone")
    func undoBeside() async throws {
        try await PostgresDatabase.use { url in
            let bench = try QueryBench(postgres: url)
            let logs = [try PostgresOperationLog(url: url), try PostgresOperationLog(url: url)]
            try await logs[0].createDatabase(DatabaseID(QueryBench.database))
            try await bench.serving(logs[0]) { one async throws in
                try await bench.serving(logs[1]) { two async throws in
                    _ = try await one.execute("INSERT INTO c DOCUMENTS ({'_id': 'stays'})")
                    for id in 0..<12 {
                        let written = try await two.execute("INSERT INTO c DOCUMENTS ({'_id': \(id)})")
                        let undone = try await one.execute(
                            "DELETE FROM c WHERE _id = \(id)",
                            headers: ["Idempotency-Key": "undo/\(written.transactionID ?? 0)/0"])
                        #expect(undone.status == 200, "\(undone.body)")
                    }
                    #expect(try await two.execute("SELECT _id FROM c").rows == [#"{"_id":"stays"}"#])
                }
            }
            for log in logs { await log.close() }
        }
    }

    @Test("with the log in the same PostgreSQL, a write is one commit, alone and among sixteen")
    func oneCommit() async throws {
        try await PostgresDatabase.use { url in
            let bench = try QueryBench(postgres: url)
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase(DatabaseID(QueryBench.database))
            try await bench.serving(log) { client async throws in
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'n': 0})")
                let commit = """
                    SELECT (g.xmin::text = d.xmin::text AND g."offset" = d.head AND o.xmin = d.xmin)::text
                    FROM mimeo_projection.databases p, mimeo_projection.generations g, mimeo_log.databases d,
                        mimeo_log.operations o
                    WHERE d.id = 'cars' AND p.id = d.id AND g.number = p.generation
                        AND o.database = d.number AND o."offset" = d.head
                    """
                for statement in [
                    "INSERT INTO c DOCUMENTS ({'_id': 'x', 'n': 1})", "UPDATE c SET n = n + 1",
                    "UPDATE c APPLY hits INCREMENT BY 2 WHERE _id = 'x'", "DELETE FROM c WHERE _id = 'x'",
                ] {
                    #expect(try await client.execute(statement).status == 200)
                    #expect(try PostgresDatabase.sql(commit, at: url) == "true", "\(statement)")
                }
                try await withThrowingTaskGroup { group in
                    for id in 1...16 { group.addTask { try await Self.count(id, client) } }
                    try await group.waitForAll()
                }
                let hits = try await client.execute("SELECT hits FROM c")
                #expect(hits.rows == Array(repeating: #"{"hits":5}"#, count: 16) + [#"{"hits":80}"#])
            }
            await log.close()
        }
    }

    /// Counts five times in a document of its own, and in the first one.
    private static func count(_ id: Int, _ client: QueryClient) async throws {
        for _ in 0..<5 {
            for statement in [
                "INSERT INTO c DOCUMENTS ({'_id': \(id)}) ON ID CONFLICT DO NOTHING",
                "UPDATE c APPLY hits INCREMENT BY 1 WHERE _id = \(id)",
                "UPDATE c APPLY hits INCREMENT BY 1 WHERE _id = 0",
            ] { #expect(try await client.execute(statement).status == 200) }
        }
    }

    @Test("a write whose fold stands still waits for it as long as it may take, and is not made later")
    func standingFold() async throws {
        var evaluation = EvaluationOptions()
        evaluation.statementTime = .seconds(2)
        try await PostgresDatabase.use { [evaluation] url in
            let bench = try QueryBench(postgres: url)
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase(DatabaseID(QueryBench.database))
            try await bench.serving(log, evaluation: evaluation) { client async throws in
                try await FailingLogTests.begin(client)
                var holder: AnyObject? = try PostgresDatabase.begin(
                    "SELECT 1 FROM mimeo_projection.generations FOR UPDATE", at: url)
                #expect(holder != nil)
                try await FailingLogTests.insertElsewhere(log, 1)
                let refused = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
                #expect(refused.status == 503 && refused.code == "QUERY-0304", "\(refused.body)")
                withExtendedLifetime(holder) {}
                holder = nil
                var answer = try await client.execute("SELECT _id FROM c")
                while answer.status != 200 { answer = try await client.execute("SELECT _id FROM c") }
                #expect(answer.items.count == 2)
                #expect(try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 4})").transactionID == 3)
            }
            await log.close()
        }
    }

    @Test("connections that the server ends under load: no acknowledged write is lost, none stands twice")
    func endedConnections() async throws {
        try await PostgresDatabase.use { url in
            let bench = try QueryBench(postgres: url)
            let logs = [try await bench.openLog(), try await bench.openLog()]
            try await bench.serving(logs[0]) { one async throws in
                try await bench.serving(logs[1]) { two async throws in
                    _ = try await one.execute("INSERT INTO c DOCUMENTS ({'_id': 'n'})")
                    let added = try await withThrowingTaskGroup(of: Int.self) { group in
                        for client in [one, two, one, two] {
                            group.addTask {
                                var added = 0
                                for _ in 0..<15 {
                                    let answer = try await client.execute(
                                        "UPDATE c APPLY hits INCREMENT BY 1")
                                    if answer.status == 200 { added += 1 }
                                }
                                return added
                            }
                        }
                        group.addTask {
                            for _ in 0..<6 {
                                try await Task.sleep(for: .milliseconds(40))
                                try PostgresDatabase.endConnections(of: url)
                            }
                            return 0
                        }
                        return try await group.reduce(0, +)
                    }
                    var answer = try await two.execute("SELECT hits FROM c")
                    while answer.status != 200 { answer = try await two.execute("SELECT hits FROM c") }
                    #expect(answer.rows == [#"{"hits":\#(added)}"#])
                    #expect(
                        try PostgresDatabase.sql("SELECT document ->> 'hits' FROM db_cars.c", at: url)
                            == "\(added)")
                }
            }
            for log in logs { await log.close() }
        }
    }

    @Test("a statement that waits for PostgreSQL ends when it is cancelled, and the server's work with it")
    func cancelledInTheServer() async throws {
        try await PostgresDatabase.use { url in
            let bench = try QueryBench(postgres: url)
            let log = try await bench.openLog()
            try await bench.serving(log) { client async throws in
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})")
                let slow = "SELECT COUNT(*) AS n FROM c WHERE a = 1"
                #expect(try await client.execute(slow).rows == [#"{"n":1}"#])
                var blocker: AnyObject? = try PostgresDatabase.begin("LOCK TABLE mimeo_g1.c1", at: url)
                #expect(blocker != nil)
                let locks = "SELECT count(*)::text FROM pg_locks WHERE relation = 'mimeo_g1.c1'::regclass"
                async let answer = client.execute(slow)
                while try PostgresDatabase.sql(locks + " AND NOT granted", at: url) == "0" {
                    try await Task.sleep(for: .milliseconds(20))
                }
                for row in try await client.send("/api/v5/requests").body["requests"]?.arrayValue ?? [] {
                    let id = row["id"]?.intValue ?? 0
                    #expect(try await client.send("/api/v5/requests/\(id)", method: "DELETE").status == 200)
                }
                #expect(try await answer.code == "QUERY-0402")
                #expect(try PostgresDatabase.sql(locks + " AND NOT granted", at: url) == "0")
                withExtendedLifetime(blocker) {}
                blocker = nil
                #expect(try await client.execute(slow).rows == [#"{"n":1}"#])
            }
            await log.close()
        }
    }

    @Test("a role that loses a right is said so where that is needed; the rest goes on, and all comes back")
    func lostRight() async throws {
        try await PostgresDatabase.use { url in
            let (role, address) = try PostgresDatabase.makeRole(at: url)
            defer { #expect(throws: Never.self) { try PostgresDatabase.drop(role: role, at: url) } }
            let bench = try QueryBench(postgres: address)
            let log = try await bench.openLog()
            try await bench.serving(log) { client async throws in
                for statement in [
                    "INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 5})", "CREATE INDEX b ON c (b)",
                    "CREATE INDEX spare ON c (b, a)",
                ] {
                    #expect(try await client.execute(statement).status == 200)
                }
                try PostgresDatabase.run(
                    "REVOKE CREATE ON SCHEMA mimeo_g1 FROM \(role); "
                        + "REVOKE CREATE ON DATABASE \(String(role.dropFirst(5))) FROM \(role)", at: url)
                let insert = "INSERT INTO d DOCUMENTS ({'_id': 1})"
                let refused = try await client.execute(insert)
                #expect(refused.status == 503 && refused.code == "QUERY-0304" && refused.retryAfter == "1")
                #expect(refused.body["error"]?["message"]?.stringValue?.contains("PROJ-0205") == true)
                let created = try await client.execute("CREATE INDEX by_a ON c (a)")
                #expect(created.status == 200 && "\(created.body)".contains("PROJ-0205"), "\(created.body)")
                #expect(!"\(created.body)".contains("permission denied"), "\(created.body)")
                let dropped = try await client.execute("DROP INDEX spare ON c")
                #expect(dropped.status == 200 && !"\(dropped.body)".contains("the index"), "\(dropped.body)")
                let more = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'a': 5})")
                #expect(more.status == 200)
                let select = "SELECT _id FROM c WHERE a = 5"
                #expect(try await client.execute(select).items.count == 2)
                #expect(try await client.health() == 200)
                try PostgresDatabase.run("GRANT CREATE ON SCHEMA mimeo_g1 TO \(role)", at: url)
                #expect(try await client.execute(insert).status == 200)
                let indexes = "SELECT name FROM system:indexes WHERE state = 'ready'"
                while try await client.execute(indexes).items.count < 2 {
                    try await Task.sleep(for: .milliseconds(50))
                }
                #expect(try await client.execute(select).items.count == 2)
            }
            await log.close()
        }
    }

    @Test("a PostgreSQL that goes away in the midst of a statement is a 503 with a time, and comes back")
    func goneInTheMidst() async throws {
        try await PostgresDatabase.use { url in
            let bench = try QueryBench(postgres: url)
            let log = try await bench.openLog()
            try await bench.serving(log) { client async throws in
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})")
                let statement = "SELECT COUNT(*) AS n FROM c WHERE a = 1"
                #expect(try await client.execute(statement).rows == [#"{"n":1}"#])
                let blocker = try PostgresDatabase.begin("LOCK TABLE mimeo_g1.c1", at: url)
                let waiting = """
                    SELECT count(*)::text FROM pg_locks
                    WHERE relation = 'mimeo_g1.c1'::regclass AND NOT granted
                    """
                async let answer = client.execute(statement)
                while try PostgresDatabase.sql(waiting, at: url) == "0" {
                    try await Task.sleep(for: .milliseconds(20))
                }
                // It is not there for another try on a new connection either.
                try PostgresDatabase.allowConnections(false, of: url)
                try PostgresDatabase.endConnections(of: url)
                let gone = try await answer
                try PostgresDatabase.allowConnections(true, of: url)
                #expect(gone.status == 503 && gone.retryAfter == "1", "\(gone.status) \(gone.body)")
                withExtendedLifetime(blocker) {}
                var again = try await client.execute(statement)
                while again.status == 503 { again = try await client.execute(statement) }
                #expect(again.rows == [#"{"n":1}"#])
            }
            await log.close()
        }
    }

    @Test("statements on two services while the projection is built anew see all that was written")
    func rebuild() async throws {
        try await PostgresDatabase.use { url in
            let bench = try QueryBench(postgres: url)
            let logs = [try await bench.openLog(), try await bench.openLog()]
            try await bench.serving(logs[0]) { one async throws in
                try await bench.serving(logs[1]) { two async throws in
                    for number in 0..<30 {
                        let (writer, reader) = number % 2 == 0 ? (one, two) : (two, one)
                        let insert = try await writer.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})")
                        #expect(insert.status == 200)
                        if number % 10 == 5 {
                            #expect(
                                try PostgresDatabase.sql(
                                    "SELECT mimeo_projection.rebuild('cars')::text", at: url) == "true")
                        }
                        #expect(try await reader.execute("SELECT _id FROM c").items.count == number + 1)
                    }
                    #expect(
                        try PostgresDatabase.sql(
                            "SELECT (generation > 1)::text FROM mimeo_projection.databases", at: url)
                            == "true")
                }
            }
            for log in logs { await log.close() }
        }
    }
}
