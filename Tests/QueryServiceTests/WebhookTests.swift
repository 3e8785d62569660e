import CRDT
import Foundation
import Hummingbird
import Logging
import OperationLog
import ServiceKit
import Synchronization
import Testing

@testable import QueryService

/// A server that gets calls, and answers as it is told.
private final class Receiver: ServicePart {
    struct Call: Sendable {
        let body: Value
        let bytes: [UInt8]
        let signature: String?
    }

    let name = "receiver"
    private let received = Mutex<[Call]>([])
    private let answers = Mutex<[Response]>([])

    var calls: [Call] { received.withLock { $0 } }
    /// The changes of all calls so far.
    var changes: [Value] { calls.flatMap { $0.body["changes"]?.arrayValue ?? [] } }
    /// The changes of calls that were taken.
    let taken = Mutex<[Value]>([])

    /// Answers so to the next calls; then with 204.
    func answer(_ responses: Response...) { answers.withLock { $0 += responses } }

    func mount(on mount: inout ServiceMount) {
        mount.on(.post, "/hook") { request, _ in
            let bytes = Array(try await request.wholeBody(limitBytes: 10_000_000).readableBytesView)
            let body = try JSONText.parse(bytes)
            let signature = request.headers.first { $0.name.canonicalName == "ditto-signature" }?.value
            self.received.withLock { $0.append(Call(body: body, bytes: bytes, signature: signature)) }
            if let next = self.answers.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { return next }
            self.taken.withLock { $0 += body["changes"]?.arrayValue ?? [] }
            return Response(status: .noContent)
        }
        mount.on(.post, "/elsewhere") { _, _ in
            Issue.record("a redirect was followed")
            return Response(status: .noContent)
        }
    }
}

@Suite("Webhooks for changes", .timeLimit(.minutes(5)))
struct WebhookTests {
    private static let credential = String(repeating: "k", count: 43)
    private static let path = "/admin/query-service/databases/\(QueryBench.database)/webhooks"

    /// A service with a system database, beside a receiver at an origin.
    private struct Setting: Sendable {
        let bench: QueryBench
        let log: SQLiteOperationLog
        let receiver: Receiver
        let origin: String

        func serving(
            pause: Duration = .milliseconds(50), timeout: Duration = .seconds(2),
            _ body: @escaping @Sendable (QueryClient, SystemDatabase) async throws -> Void
        ) async throws {
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let system = SystemDatabase(log: log, folder: "\(bench.folder)/system", logger: logger)
            try await system.open()
            try await system.write {
                try $0.put(DatabaseRecord(id: QueryBench.database, createdAtSeconds: 1))
            }
            var bounds = QueryServicePart.Bounds()
            bounds.webhookPause = pause
            bounds.nowSeconds = { QueryBench.now }
            bounds.webhookTimeout = timeout
            try await bench.serving(log, bounds: bounds, system: system) { try await body($0, system) }
        }

        func create(_ client: QueryClient, _ members: Value = [:], path: String = "/hook") async throws
            -> Value
        {
            var body = members.objectValue ?? ObjectValue()
            if body["url"] == nil { body["url"] = .string(origin + path) }
            let answer = try await client.with(token: credential).open(
                WebhookTests.path, method: "POST", body: .object(body))
            return try JSONText.parse(Array(buffer: try await answer.body.collect(upTo: 1_000_000)))
        }

        func list(_ client: QueryClient) async throws -> [Value] {
            try await client.send(WebhookTests.path, bearer: credential).body["webhooks"]?.arrayValue ?? []
        }
    }

    private static func run(_ body: @escaping @Sendable (Setting) async throws -> Void) async throws {
        try await QueryBench.each { bench in
            let log = try await bench.openLog()
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            try credential.write(toFile: bench.adminFile, atomically: true, encoding: .utf8)
            try "a key of forty-three characters or more, for tests".write(
                toFile: bench.secretsKey, atomically: true, encoding: .utf8)
            let receiver = Receiver()
            let host = ServiceHost(parts: [receiver], listen: .anyLoopbackPort, logger: logger)
            try await host.run { address async throws in
                try await body(
                    Setting(bench: bench, log: log, receiver: receiver, origin: address.origin))
            }
            await log.close()
        }
    }

    private static func wait(_ isThere: () async throws -> Bool) async throws {
        for _ in 0..<1_500 {
            if try await isThere() { return }
            try await Task.sleep(for: .milliseconds(20))
        }
        Issue.record("it never came")
    }

    @Test("its calls have the changes it asked for, signed with the secret that was shown once")
    func delivery() async throws {
        try await Self.run { setting in
            try await setting.serving { client, system async throws in
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'n': 9})")
                let made = try await setting.create(
                    client, ["collections": ["c"], "where": "n > 1", "values": "both"])
                let secret = try #require(made["secret"]?.stringValue.flatMap { Data(base64Encoded: $0) })
                #expect(secret.count == 64 && made["offset"] == 1)
                for number in 1...3 {
                    _ = try await client.execute(
                        "INSERT INTO c DOCUMENTS ({'_id': \(number), 'n': \(number)})")
                    _ = try await client.execute("INSERT INTO d DOCUMENTS ({'_id': \(number), 'n': 5})")
                }
                _ = try await client.execute("UPDATE c SET n = 7 WHERE _id = 3")
                try await Self.wait { setting.receiver.changes.count >= 3 }
                let changes = setting.receiver.changes
                #expect(changes.map { $0["id"] } == [2, 3, 3])
                #expect(changes.map { $0["method"] } == ["insert", "insert", "update"])
                #expect(
                    changes.last?["oldValue"] == ["_id": 3, "n": 3] && changes.last?["transactionId"] == 8)
                for call in setting.receiver.calls {
                    #expect(call.body["webhook"] == made["id"] && call.body["database"] == "cars")
                    let signed = SigningSecret.header(
                        call.bytes, [SigningSecret(key: Array(secret))], nowSeconds: QueryBench.now)
                    #expect(call.signature == signed)
                }
                try await Self.wait { try await setting.list(client).first?["lag"] == 0 }
                let shown = try #require(try await setting.list(client).first)
                #expect(shown["state"] == "delivers" && shown["secret"] == nil)
                #expect(shown["url"] == .string("\(setting.origin)/…"))
                let sealed = try #require(system.directory.webhooks.values.first?.sealedSecret)
                #expect(!sealed.contains(try #require(made["secret"]?.stringValue)))
            }
        }
    }

    @Test("calls are bounded in lines and bytes, and come in the log's order")
    func batches() async throws {
        try await Self.run { setting in
            try await setting.serving { client, _ async throws in
                let many = (0..<250).map { (number: Int64) -> Value in ["_id": .int(number)] }
                _ = try await client.execute("INSERT INTO c DOCUMENTS (:all)", ["all": .array(many)])
                let large = (0..<4).map { (number: Int64) -> Value in
                    ["_id": .int(1_000 + number), "x": .string(String(repeating: "x", count: 100_000))]
                }
                _ = try await client.execute("INSERT INTO c DOCUMENTS (:all)", ["all": .array(large)])
                let huge: Value = ["_id": 2_000, "x": .string(String(repeating: "y", count: 400_000))]
                _ = try await client.execute("INSERT INTO c DOCUMENTS (:d)", ["d": huge])
                _ = try await setting.create(client, ["since": 0])
                try await Self.wait { setting.receiver.changes.count >= 255 }
                let calls = setting.receiver.calls
                #expect(setting.receiver.changes.count == 255)
                for call in calls {
                    let count = call.body["changes"]?.arrayValue?.count ?? 0
                    #expect(count <= 100 && (count == 1 || call.bytes.count < (256 << 10) + 1_000))
                }
                #expect(calls.count >= 5)
                let offsets = setting.receiver.changes.compactMap { $0["transactionId"]?.intValue }
                #expect(offsets == offsets.sorted())
            }
        }
    }

    @Test("one that fails, redirects or answers too much gets its changes again; another is not held up")
    func failures() async throws {
        try await Self.run { setting in
            try await setting.serving { client, _ async throws in
                let far = Response(status: .found, headers: [.location: "\(setting.origin)/elsewhere"])
                let endless = Response(
                    status: .internalServerError,
                    body: .init(byteBuffer: .init(repeating: 120, count: 1_000_000)))
                setting.receiver.answer(
                    Response(status: .internalServerError), far, endless, Response(status: .badRequest))
                _ = try await setting.create(client)
                let dead = try await setting.create(client, ["url": "http://127.0.0.1:9/x"])
                for number in 0..<5 {
                    _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})")
                }
                try await Self.wait { setting.receiver.taken.withLock { $0.count } >= 5 }
                let taken = setting.receiver.taken.withLock { $0 }
                #expect(taken.map { $0["id"] } == [0, 1, 2, 3, 4])
                #expect(setting.receiver.calls.count >= 5)
                try await Self.wait {
                    try await setting.list(client).contains {
                        $0["id"] == dead["id"] && $0["state"] == "fails"
                    }
                }
                let shown = try #require(try await setting.list(client).first { $0["id"] == dead["id"] })
                #expect(shown["failures"]?.intValue ?? 0 > 0 && shown["failure"] != .null)
                #expect(shown["lag"] == 5 && shown["nextAttemptAt"] != .null)
            }
        }
    }

    @Test("one that is slow, fails for long or lies about its length loses no change and holds up no other")
    func liars() async throws {
        try await Self.run { setting in
            let ok = "HTTP/1.1 200 OK\r\n"
            let server = RawServer([
                .late(.seconds(3)), .closes, .answers("\(ok)Content-Length: 900\r\n\r\n{}"),
                .answers("\(ok)Content-Length: -1\r\n\r\n"),
                .answers("\(ok)Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}"),
                .answers("\(ok)Transfer-Encoding: chunked\r\n\r\nzz\r\n{}"), .drips,
                .answers("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
                .answers("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
                // It takes the call, and adds an answer to the next one, which it must not get.
                .answers("\(ok)Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            ])
            defer { server.stop() }
            let bad = 9
            try await setting.serving(pause: .milliseconds(2), timeout: .milliseconds(400)) {
                client, _ async throws in
                let liar = try await setting.create(client, ["url": .string(server.url)])
                _ = try await setting.create(client)
                for number in 0..<4 {
                    _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})")
                }
                try await Self.wait {
                    Set(setting.receiver.changes.compactMap { $0["id"]?.intValue }).count == 4
                }
                try await Self.wait { server.calls.count > bad }
                // The first change was in every call that was not taken.
                for call in server.calls.prefix(bad + 1) {
                    #expect(call["changes"]?.arrayValue?.first?["id"] == 0)
                }
                for number in 4..<7 {
                    _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})")
                }
                func taken() -> [Value] {
                    server.calls.dropFirst(bad).flatMap { $0["changes"]?.arrayValue ?? [] }
                        .compactMap { $0["id"] }
                }
                try await Self.wait { taken().contains(6) }
                var order: [Value] = []
                for id in taken() where !order.contains(id) { order.append(id) }
                #expect(order == (0..<7).map { .int($0) })
                try await Self.wait {
                    try await setting.list(client).allSatisfy { $0["lag"] == 0 && $0["failures"] == 0 }
                }
                #expect(try await setting.list(client).contains { $0["id"] == liar["id"] })
            }
        }
    }

    @Test("one that answers 500 for an hour is called some twenty times, and every five minutes at last")
    func patience() {
        var (elapsed, calls, pauses) = (Duration.zero, 1, [Duration]())
        while elapsed < .seconds(3_600) {
            let pause = WebhookDelivery.pause(after: calls, first: Limits.webhookFirstPause)
            elapsed += pause
            pauses.append(pause)
            calls += 1
        }
        #expect((18...22).contains(calls))
        #expect(pauses.first == .seconds(1) && pauses.last == .seconds(300) && pauses == pauses.sorted())
        // A week of it is no other pause, and no overflow.
        #expect(WebhookDelivery.pause(after: 2_000, first: Limits.webhookFirstPause) == .seconds(300))
        #expect(WebhookDelivery.pause(after: .max, first: .milliseconds(1)) < .seconds(300))
    }

    @Test("a service that starts again goes on where the last one ended, and a deleted webhook is left alone")
    func restart() async throws {
        try await Self.run { setting in
            try await setting.serving { client, _ async throws in
                _ = try await setting.create(client)
                for number in 0..<3 {
                    _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})")
                }
                try await Self.wait { setting.receiver.changes.count == 3 }
            }
            try await setting.serving { client, _ async throws in
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 3})")
                try await Self.wait { setting.receiver.changes.count == 4 }
                #expect(setting.receiver.changes.map { $0["id"] } == [0, 1, 2, 3])
                let id = try #require(try await setting.list(client).first?["id"]?.stringValue)
                let gone = try await client.open(
                    "\(Self.path)/\(id)", headers: [:], method: "DELETE")
                #expect(gone.status == .unauthorized)
                let deleted = try await client.with(token: Self.credential)
                    .open("\(Self.path)/\(id)", method: "DELETE")
                #expect(deleted.status == .noContent)
                let again = try await client.with(token: Self.credential)
                    .get("\(Self.path)/\(id)", method: "DELETE")
                #expect(again.status == 404 && again.code == "QUERY-0601")
                #expect(try await setting.list(client).isEmpty)
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 4})")
                try await Task.sleep(for: .milliseconds(500))
                #expect(setting.receiver.changes.count == 4)
            }
        }
    }

    @Test("a webhook that would begin before the log does is refused, and one at its oldest state is not")
    func beginsBeforeLog() async throws {
        try await Self.run { setting in
            try await setting.serving { client, _ async throws in
                for n in 1...6 { _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(n)})") }
                try await PastTests.truncate(setting.log, through: 4, setting.bench)
                let refused = try await setting.create(client, ["since": 3])
                #expect(refused["error"]?["code"] == "QUERY-0503" && refused["error"]?["oldest"] == 6)
                #expect(try await setting.list(client).isEmpty)
                #expect(try await setting.create(client, ["since": 6])["id"] != nil)
            }
        }
    }

    @Test("a request that is wrong is refused by name, and there are not too many")
    func refusals() async throws {
        try await Self.run { setting in
            try await setting.serving { client, _ async throws in
                for (members, code) in [
                    (["url": "ftp://x"], "QUERY-0101"), (["url": "http://a:b@x/"], "QUERY-0101"),
                    (["url": 5], "QUERY-0101"), (["collections": []], "QUERY-0101"),
                    (["collections": ["a", 1]], "QUERY-0101"), (["where": 1], "QUERY-0101"),
                    (["values": "all"], "QUERY-0101"), (["since": -1], "QUERY-0101"),
                    (["since": 99], "QUERY-0501"), (["secret": "short"], "QUERY-0101"),
                    (["urls": "http://x"], "QUERY-0101"),
                ] as [(Value, String)] {
                    let answer = try await setting.create(client, members)
                    #expect(answer["error"]?["code"] == .string(code), "\(members) \(answer)")
                }
                let wrong = try await setting.create(client, ["where": "n >"])
                #expect(wrong["error"]?["code"]?.stringValue?.hasPrefix("DQL-") == true)
                for _ in 0..<Limits.webhooksOfDatabase {
                    #expect(try await setting.create(client, ["url": "http://127.0.0.1:9/"])["id"] != nil)
                }
                let answer = try await setting.create(client)
                #expect(answer["error"]?["code"] == "QUERY-0602")
                try FileManager.default.removeItem(atPath: setting.bench.secretsKey)
                #expect(try await setting.create(client)["error"]?["code"] == "QUERY-0603")
            }
        }
    }
}
