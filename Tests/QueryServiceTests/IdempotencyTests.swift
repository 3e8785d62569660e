import CRDT
import DQL
import Foundation
import Identity
import OperationLog
import Synchronization
import Testing

@testable import QueryService

@Suite("Idempotency-Key")
struct IdempotencyTests {
    private static let increment = "UPDATE counters SET n = n + 1 WHERE _id = 'a'"

    private static func begin(_ client: QueryClient) async throws {
        let answer = try await client.execute("INSERT INTO counters DOCUMENTS ({'_id': 'a', 'n': 0})")
        #expect(answer.status == 200)
    }

    private static func count(_ client: QueryClient) async throws -> Int64? {
        try await client.execute("SELECT n FROM counters WHERE _id = 'a'").items.first?["n"]?.intValue
    }

    @Test("a write under one key is done once, and answered as the first time, byte for byte")
    func once() async throws {
        try await QueryBench.run { _, client in
            try await Self.begin(client)
            let key = ["Idempotency-Key": "order-17"]
            let first = try await client.execute(Self.increment, headers: key)
            #expect(first.status == 200 && !first.isRepeated)
            _ = try await client.execute("INSERT INTO other DOCUMENTS ({'_id': 1})")
            for _ in 0..<3 {
                let again = try await client.execute(Self.increment, headers: key)
                #expect(again.isRepeated && again.body == first.body)
            }
            #expect(try await Self.count(client) == 1)
            let other = try await client.execute(Self.increment, headers: ["Idempotency-Key": "order-18"])
            #expect(!other.isRepeated)
            #expect(try await client.execute(Self.increment).status == 200)
            #expect(try await Self.count(client) == 3)
        }
    }

    @Test("twenty requests with one key at once, over two services, are one write")
    func atOnce() async throws {
        try await QueryBench.each { bench in
            let log = try await bench.openLog()
            try await bench.serving(log, projection: "one") { one async throws in
                try await bench.serving(log, projection: "two") { two async throws in
                    try await Self.begin(one)
                    let answers = try await withThrowingTaskGroup(of: QueryAnswer.self) { group in
                        for number in 0..<20 {
                            group.addTask {
                                try await (number % 2 == 0 ? one : two)
                                    .execute(Self.increment, headers: ["Idempotency-Key": "k"])
                            }
                        }
                        return try await group.reduce(into: [QueryAnswer]()) { $0.append($1) }
                    }
                    #expect(answers.allSatisfy { $0.status == 200 })
                    #expect(answers.filter { !$0.isRepeated }.count == 1)
                    #expect(Set(answers.map { JSONText.print($0.body) }).count == 1)
                    #expect(try await Self.count(two) == 1)
                }
            }
            await log.close()
        }
    }

    @Test("the key holds after a restart with an empty projection")
    func restarted() async throws {
        let bench = try QueryBench()
        let key = ["Idempotency-Key": "k"]
        var answers: [QueryAnswer] = []
        for projection in ["one", "one", "two"] {
            let log = try await bench.openLog()
            answers.append(
                try await bench.serving(log, projection: projection) { client async throws in
                    if try await Self.count(client) == nil { try await Self.begin(client) }
                    let answer = try await client.execute(Self.increment, headers: key)
                    #expect(try await Self.count(client) == 1)
                    return answer
                })
            await log.close()
        }
        #expect(answers.map(\.isRepeated) == [false, true, true])
        #expect(answers[1].body == answers[0].body && answers[2].body == answers[0].body)
    }

    @Test("another request under a key is refused, and a key must be one short visible text")
    func wrong() async throws {
        try await QueryBench.run { _, client in
            try await Self.begin(client)
            let key = ["Idempotency-Key": "k"]
            #expect(try await client.execute(Self.increment, headers: key).status == 200)
            let other = try await client.execute(
                "UPDATE counters SET n = n + 2 WHERE _id = 'a'", headers: key)
            #expect(other.status == 422 && other.code == "QUERY-0105")
            let elsewhere = try await client.execute(Self.increment, version: "v4", headers: key)
            #expect(elsewhere.code == "QUERY-0105")
            for text in ["", " ", String(repeating: "k", count: 256), "a b"] {
                let answer = try await client.execute(Self.increment, headers: ["Idempotency-Key": text])
                #expect(answer.status == 400 && answer.code == "SRV-0400", "\(text)")
            }
            #expect(try await Self.count(client) == 1)
            // Reads need no key, and keep none.
            for _ in 0..<2 {
                #expect(try await client.execute("SELECT 1 FROM system:dual", headers: key).status == 200)
            }
        }
    }

    @Test("a write that failed keeps nothing: the same key may try again; one that changed nothing is kept")
    func failed() async throws {
        try await QueryBench.run { _, client in
            try await Self.begin(client)
            let key = ["Idempotency-Key": "k"]
            let insert = "INSERT INTO counters DOCUMENTS ({'_id': 'a'}) ON ID CONFLICT FAIL"
            #expect(try await client.execute(insert, headers: key).status == 400)
            #expect(try await client.execute("DELETE FROM counters").status == 200)
            let second = try await client.execute(insert, headers: key)
            #expect(second.status == 200 && !second.isRepeated)
            let nothing = "UPDATE counters SET n = 1 WHERE _id = 'nobody'"
            let first = try await client.execute(nothing, headers: ["Idempotency-Key": "n"])
            _ = try await client.execute("INSERT INTO counters DOCUMENTS ({'_id': 'nobody'})")
            let again = try await client.execute(nothing, headers: ["Idempotency-Key": "n"])
            #expect(again.isRepeated && again.body == first.body)
        }
    }

    @Test("rows of RETURNING come again, and an answer that is too large says what is missing")
    func answers() async throws {
        try await QueryBench.run { _, client in
            let insert = "INSERT INTO c DOCUMENTS (:d) RETURNING *"
            for (size, isKept) in [(10, true), (Limits.keptAnswerBytes, false)] {
                // Packed it is not much smaller.
                let letters = (0..<size).map { _ in UInt8.random(in: 97...122) }
                let text = String(decoding: letters, as: UTF8.self)
                let arguments: Value = ["d": ["_id": .int(Int64(size)), "text": .string(text)]]
                let key = ["Idempotency-Key": "k\(size)"]
                let first = try await client.execute(insert, arguments, headers: key)
                let again = try await client.execute(insert, arguments, headers: key)
                #expect(first.status == 200 && again.isRepeated)
                #expect((again.body == first.body) == isKept)
                #expect((again.body["totalWarningsCount"] == 0) == isKept)
                #expect(again.transactionID == first.transactionID)
            }
        }
    }

    @Test("kept answers are nobody's to see or to write, whatever a grant says")
    func hidden() async throws {
        try await QueryBench.run { bench, client in
            try await Self.begin(client)
            #expect(
                try await client.execute(Self.increment, headers: ["Idempotency-Key": "k"]).status == 200)
            let name = KeptAnswers.collection.text
            let select = try await client.execute("SELECT * FROM \(name)")
            #expect(select.status == 403 && select.code == "QUERY-0202")
            let quoted = try await client.execute(
                "SELECT * FROM counters c JOIN `\(name)` k ON k._id != c._id")
            #expect(quoted.status != 200)
            for write in ["INSERT INTO \(name) DOCUMENTS ({'_id': 1})", "DELETE FROM \(name)"] {
                #expect(try await client.execute(write).status != 200)
            }
            let listed = try await client.execute("SELECT name FROM system:collections")
            #expect(listed.rows == [#"{"name":"counters"}"#])
        }
    }

    private final class Clock: Sendable {
        let days = Mutex<Int64>(20_000)
    }

    @Test("a user's keys are bounded, and old ones make room and may be used again")
    func bounded() async throws {
        var bounds = QueryServicePart.Bounds()
        bounds.keptAnswersPerUser = 5
        let clock = Clock()
        bounds.nowSeconds = { clock.days.withLock { $0 } * 86_400 }
        try await QueryBench.run(bounds: bounds) { _, client in
            try await Self.begin(client)
            func write(_ number: Int) async throws -> QueryAnswer {
                try await client.execute(Self.increment, headers: ["Idempotency-Key": "k\(number)"])
            }
            for number in 0..<5 { #expect(try await write(number).status == 200) }
            let refused = try await write(5)
            #expect(refused.status == 429 && refused.code == "QUERY-0305")
            clock.days.withLock { $0 += 2 }
            try await Task.sleep(for: Limits.keptAnswersSecondLook)
            let again = try await write(0)
            #expect(again.status == 200 && !again.isRepeated)
        }
    }
}
