import CRDT
import Foundation
import ServiceKit
import Testing

@testable import QueryService

@Suite("Explaining a subscription", .timeLimit(.minutes(4)))
struct SubscriptionExplanationTests {
    private static let credential = String(repeating: "s", count: 43)
    private static let path = "/admin/query-service/databases/\(QueryBench.database)/explain-subscription"

    private typealias Ask = @Sendable (Value) async throws -> (status: Int, body: Value)

    /// A service with some ships, and a function that asks about a subscription.
    private static func run(_ body: @escaping @Sendable (Ask) async throws -> Void) async throws {
        try await QueryBench.run { bench, client async throws in
            try credential.write(toFile: bench.adminFile, atomically: true, encoding: .utf8)
            for (id, masts) in [("fram", 3), ("gjoa", 1), ("maud", 3)] {
                _ = try await client.execute(
                    "INSERT INTO ships DOCUMENTS ({'_id': '\(id)', 'masts': \(masts)})")
            }
            let admin = client.with(token: credential)
            try await body { question in
                let answer = try await admin.open(path, method: "POST", body: question)
                let text = try await answer.body.collect(upTo: 1_000_000)
                return (Int(answer.status.code), try JSONText.parse(Array(buffer: text)))
            }
        }
    }

    private static func question(
        _ subscription: String, _ id: String, collection: String = "ships", more: [(String, Value)] = []
    ) -> Value {
        var question = ObjectValue()
        question["subscription"] = .string(subscription)
        question["collection"] = .string(collection)
        question["id"] = .string(id)
        for (key, value) in more { question[key] = value }
        return .object(question)
    }

    @Test("the first reason why a document does not belong is the answer's, in the order of its way")
    func reasons() async throws {
        try await Self.run { ask async throws in
            let few = "SELECT * FROM ships WHERE masts > :least"
            let least: [(String, Value)] = [("args", ["least": 2])]
            let window = "SELECT * FROM ships ORDER BY _id LIMIT 1"
            let cases: [(Value, String, Bool)] = [
                (Self.question(few, "fram", more: least), "the document fits the subscription", true),
                (Self.question(few, "gjoa", more: least), "the document does not fit its WHERE", false),
                (
                    Self.question(few, "never", more: least),
                    "there is no such document: it was deleted, or never was", false
                ),
                (
                    Self.question(few, "fram", collection: "ports", more: least),
                    "the subscription is to ships", false
                ),
                (
                    Self.question(few, "fram", more: least + [("scope", "SmallPeersOnly")]),
                    "the device keeps the collection from servers (SmallPeersOnly)", false
                ),
                (Self.question(window, "fram"), "it is within the subscription's LIMIT", true),
                (
                    Self.question(window, "maud"),
                    "it is outside of the subscription's LIMIT: other documents come before it", false
                ),
            ]
            for (question, reason, belongs) in cases {
                let (status, body) = try await ask(question)
                #expect(status == 200 && body["belongs"] == .bool(belongs), "\(body)")
                let checks = body["checks"]?.arrayValue ?? []
                let told = checks.first { $0["passes"] == false } ?? checks.last
                #expect(body["reason"] == .string(reason) && told?["reason"] == .string(reason), "\(body)")
            }
        }
    }

    @Test("a malformed question names its fault, and a statement that is no subscription its place")
    func malformed() async throws {
        try await Self.run { ask async throws in
            let faults: [(Value, String)] = [
                (Self.question("", "fram"), "QUERY-0101"),
                (Self.question("SELECT * FROM ships", "fram", more: [("scope", "Nobody")]), "QUERY-0101"),
                (Self.question("SELECT * FROM ships", "fram", more: [("args", [1])]), "QUERY-0101"),
                (Self.question("SELECT * FROM ships", "fram", more: [("rights", .null)]), "QUERY-0101"),
                (["subscription": "SELECT * FROM ships", "collection": "ships"], "QUERY-0101"),
                (["subscription": "SELECT * FROM ships", "collection": "", "id": "a"], "QUERY-0101"),
            ]
            for (question, code) in faults {
                let (status, body) = try await ask(question)
                #expect(status == 400 && body["error"]?["code"] == .string(code), "\(question) \(body)")
            }
            let statements = ["SELEC * FROM ships", "SELECT masts FROM ships", "DELETE FROM ships"]
            for statement in statements {
                let (status, body) = try await ask(Self.question(statement, "fram"))
                #expect(status == 400, "\(statement) \(body)")
                #expect(body["error"]?["code"]?.stringValue?.hasPrefix("DQL-") == true, "\(body)")
            }
        }
    }
}
