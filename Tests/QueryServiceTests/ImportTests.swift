import AsyncHTTPClient
import CRDT
import Foundation
import Identity
import OperationLog
import ServiceKit
import Testing

@testable import QueryService

@Suite("An import of lines", .timeLimit(.minutes(5)))
struct ImportTests {
    private static let insert = "INSERT INTO c DOCUMENTS (:documents)"

    private static func send(
        _ client: QueryClient, _ body: String, _ statement: String? = insert, headers: [String: String] = [:]
    ) async throws -> QueryAnswer {
        var parts = URLComponents()
        parts.queryItems = statement.map { [URLQueryItem(name: "statement", value: $0)] }
        var request = HTTPClientRequest(
            url: "\(client.origin)/api/v5/store/import?\(parts.percentEncodedQuery ?? "")")
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/x-ndjson")
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        if let token = client.token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
        // Without a length, as a program sends it that makes the lines meanwhile.
        request.body = .bytes(Array(body.utf8), length: .unknown)
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(120))
        let bytes = Array(buffer: try await response.body.collect(upTo: 1_000_000))
        return QueryAnswer(
            status: Int(response.status.code), retryAfter: nil, isRepeated: false,
            body: try JSONText.parse(bytes))
    }

    private static func body(_ ids: some Sequence<Int>) -> String {
        ids.map { "{\"_id\":\($0),\"n\":\($0 % 7)}\n" }.joined()
    }

    private static func counts(_ answer: QueryAnswer) -> [Int64?] {
        ["transactionId", "lines", "documents"].map { answer.body[$0]?.intValue }
    }

    @Test("a thousand lines are one operation, and the answer counts them all")
    func groups() async throws {
        try await QueryBench.run { _, client async throws in
            let answer = try await Self.send(client, Self.body(0..<2_500) + "\n")
            #expect(answer.status == 200, "\(answer.body)")
            #expect(Self.counts(answer) == [3, 2_501, 2_500])
            #expect(answer.body["error"] == .object(ObjectValue()))
            #expect(try await client.execute("SELECT RAW COUNT(*) FROM c").rows == ["2500"])
            #expect(try await client.execute("SELECT RAW n FROM c WHERE _id = 2499").rows == ["0"])
            // Again: nothing is there to be written, and nothing is.
            let again = try await Self.send(
                client, Self.body(0..<2_501), "\(Self.insert) ON ID CONFLICT DO NOTHING")
            #expect(again.status == 200 && Self.counts(again) == [4, 2_501, 1], "\(again.body)")
            #expect(try await Self.send(client, "").body["lines"] == 0)
        }
    }

    @Test("the first line that is refused is named, those before it are stored and none after it")
    func refused() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 0})")
            let bad = [
                ("{\"_id\":0}", "DQL-0601"), ("{\"_id\":11}", "DQL-0601"), ("[{\"_id\":99}]", "QUERY-0101"),
                ("{\"_id\":1.5e3", "QUERY-0101"), ("{\"_id\":null}", "DQL-0604"),
                ("{\"a\":1,\"a\":2}", "QUERY-0101"),
            ]
            for (number, (line, code)) in bad.enumerated() {
                let begin = 11 + number * 1_000
                let body = Self.body(begin..<begin + 700) + line + "\n" + Self.body(90_000..<90_010)
                let answer = try await Self.send(client, body)
                #expect(answer.status == 400 && answer.code == code, "\(line) \(answer.body)")
                #expect(answer.body["error"]?["inputLine"] == 701, "\(line) \(answer.body)")
                #expect(Self.counts(answer).dropFirst() == [700, 700], "\(line)")
                let rows = try await client.execute(
                    "SELECT RAW COUNT(*) FROM c WHERE _id >= :a AND _id < :b",
                    ["a": .int(Int64(begin)), "b": .int(Int64(begin + 1_000))]
                ).rows
                #expect(rows == ["700"], "\(line)")
            }
            #expect(try await client.execute("SELECT RAW COUNT(*) FROM c WHERE _id >= 90000").rows == ["0"])
            // One id twice in a group is no mistake where it may be.
            let twice = try await Self.send(
                client, Self.body([7, 8, 7]), "\(Self.insert) ON ID CONFLICT DO UPDATE")
            #expect(twice.status == 200 && Self.counts(twice).dropFirst() == [3, 3], "\(twice.body)")
        }
    }

    @Test("rights hold for each line, and for the collection before one is read")
    func rights() async throws {
        try await QueryBench.run { bench, client async throws in
            let own = client.with(
                token: bench.token(
                    Grant(
                        read: .everything, write: AccessRules(queriesByCollection: ["c": ["_id != 5"]]),
                        queryLanguage: 1)))
            let answer = try await Self.send(own, Self.body(1...9))
            #expect(answer.status == 403 && answer.code == "QUERY-0203", "\(answer.body)")
            #expect(answer.body["error"]?["inputLine"] == 5 && answer.body["lines"] == 4)
            #expect(try await client.execute("SELECT RAW _id FROM c").rows == ["1", "2", "3", "4"])
            let other = try await Self.send(own, "no JSON", "INSERT INTO d DOCUMENTS (:documents)")
            #expect(other.status == 403 && other.body["error"]?["inputLine"] == nil)
            #expect(other.body["lines"] == 0)
            #expect(try await Self.send(client.with(token: nil), Self.body(1...2)).status == 401)
        }
    }

    @Test("what is no INSERT of the lines is refused before one is read")
    func malformed() async throws {
        try await QueryBench.run { _, client async throws in
            let statements: [(String?, code: String)] = [
                (nil, "QUERY-0101"), ("SELECT * FROM c", "QUERY-0101"),
                ("DELETE FROM c WHERE _id IN :documents", "QUERY-0101"),
                ("INSERT INTO c DOCUMENTS ({'_id': 1})", "QUERY-0101"),
                ("INSERT INTO c DOCUMENTS (:line)", "QUERY-0101"),
                ("INSERT INTO c DOCUMENTS (:documents), (:more)", "QUERY-0101"),
                ("INSERT INTO c DOCUMENTS", "DQL-0107"),
            ]
            for (statement, code) in statements {
                let answer = try await Self.send(client, Self.body(1...2), statement)
                #expect(answer.status == 400 && answer.code == code, "\(statement ?? "none") \(answer.body)")
                #expect(Self.counts(answer) == [0, 0, 0])
            }
            let key = try await Self.send(
                client, Self.body(1...2), headers: ["Idempotency-Key": "k"])
            #expect(key.status == 400 && key.code == "QUERY-0101")
            #expect(try await client.execute("SELECT RAW COUNT(*) FROM c").rows == ["0"])
        }
    }
}
