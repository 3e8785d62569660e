import CRDT
import Foundation
import NIOCore
import ServiceKit
import Testing

@testable import QueryService

@Suite("Answers as lines", .timeLimit(.minutes(5)))
struct RowLineTests {
    private static let headers = ["Accept": "application/x-ndjson, application/json;q=0.1"]
    private static let path = "/api/v5/store/execute"

    /// 8,000 rows of about a kilobyte.
    private static let many = "SELECT RAW b.t FROM c a JOIN c b USE INDEX '' ON a.k = b.k"

    private static func open(_ client: QueryClient, _ body: Value) async throws -> (type: String?, [Value]) {
        let answer = try await client.open(path, headers: headers, method: "POST", body: body)
        let lines = try await QueryClient.lines(of: answer) { _ in false }
        return (answer.headers.first(name: "content-type"), lines)
    }

    private static func fill(_ client: QueryClient) async throws {
        let all = (0..<90).map { (number: Int64) -> Value in
            let text = (0..<28).map { _ in UUID().uuidString }.joined().prefix(1_000)
            return ["_id": .int(number), "k": 1, "t": .string(String(text))]
        }
        let filled = try await client.execute("INSERT INTO c DOCUMENTS (:all)", ["all": .array(all)])
        #expect(filled.status == 200)
    }

    @Test("a row a line, and last the envelope without rows; an error before the first row is an envelope")
    func lines() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
            let (type, lines) = try await Self.open(client, ["statement": "SELECT * FROM c ORDER BY _id"])
            #expect(type == "application/x-ndjson" && lines.count == 3)
            #expect(lines.prefix(2) == [["_id": 1], ["_id": 2]])
            #expect(lines[2]["items"] == [] && lines[2]["transactionId"] == 1)
            #expect(lines[2]["queryType"] == "select")
            let (_, infinite) = try await Self.open(
                client, ["statement": "SELECT RAW 1e308 * 10 FROM c"])
            #expect(infinite.prefix(2) == [.null, .null])
            #expect(infinite[2]["totalWarningsCount"] == 1)
            let (_, past) = try await Self.open(client, ["statement": "SELECT * FROM c", "asOf": 0])
            #expect(past.count == 1 && past[0]["transactionId"] == 0)
            let (_, written) = try await Self.open(
                client, ["statement": "UPDATE c SET n = 1 RETURNING _id"])
            #expect(written.count == 3 && written[2]["mutatedDocumentIds"] == [1, 2])
            #expect(written[2]["transactionId"] == 2)
            let (_, all) = try await Self.open(
                client, ["transaction": [["statement": "SELECT RAW _id FROM c"], ["statement": "SHOW ALL"]]])
            #expect(all.count == 3 && all[0]["items"] == [1, 2] && all[2]["results"] == [])
            for (body, index) in [
                (["statement": "SELECT * FROM"] as Value, Value?.none),
                (["transaction": [["statement": "SELECT * FROM c"], ["statement": "DELETE"]]], 1),
            ] {
                let wrong = try await client.open(
                    Self.path, headers: Self.headers, method: "POST", body: body)
                #expect(wrong.status == .badRequest)
                #expect(wrong.headers.first(name: "content-type") == "application/json")
                let error = try await QueryClient.lines(of: wrong) { _ in false }
                #expect(error.first?["error"]?["index"] == index || error.isEmpty)
            }
        }
    }

    @Test("a client that reads nothing holds no statement: it ends, and the client gets every row later")
    func slowClient() async throws {
        try await QueryBench.run { _, client async throws in
            try await Self.fill(client)
            let answer = try await client.open(
                Self.path, headers: Self.headers, method: "POST", body: ["statement": .string(Self.many)])
            var running = 1
            for _ in 0..<3_000 where running > 0 {
                try await Task.sleep(for: .milliseconds(10))
                running = try await client.send("/api/v5/requests").body["requests"]?.arrayValue?.count ?? 0
            }
            #expect(running == 0)
            let lines = try await QueryClient.lines(of: answer) { _ in false }
            #expect(lines.count == 8_101)
            #expect(lines.dropLast().allSatisfy { $0.stringValue?.count == 1_000 })
            #expect(lines.last?["items"] == [] && lines.last?["error"] == .object(ObjectValue()))
        }
    }

    @Test("a large answer in one piece waits where lines do, and says what rows one a line say")
    func largeAnswer() async throws {
        try await QueryBench.run { _, client async throws in
            try await Self.fill(client)
            let answer = try await client.open(
                Self.path, method: "POST", body: ["statement": .string(Self.many)])
            var running = 1
            for _ in 0..<3_000 where running > 0 {
                try await Task.sleep(for: .milliseconds(10))
                running = try await client.send("/api/v5/requests").body["requests"]?.arrayValue?.count ?? 0
            }
            #expect(running == 0)
            #expect(answer.headers.first(name: "content-type") == "application/json")
            let bytes = Array(buffer: try await answer.body.collect(upTo: 50_000_000))
            let whole = QueryAnswer(
                status: 200, retryAfter: nil, isRepeated: false, body: try JSONText.parse(bytes))
            let (_, lines) = try await Self.open(client, ["statement": .string(Self.many)])
            #expect(whole.items.count == 8_100 && whole.items == lines.dropLast())
            var rest = whole.body.objectValue
            rest?["items"] = []
            #expect(rest.map { .object($0) } == lines.last)
        }
    }

    @Test("a large answer as CBOR is one value, and says what lines say")
    func largeCBOR() async throws {
        try await QueryBench.run { _, client async throws in
            try await Self.fill(client)
            let answer = try await client.open(
                Self.path, headers: ["Accept": "application/cbor"], method: "POST",
                body: ["statement": .string(Self.many)])
            #expect(answer.headers.first(name: "content-type") == "application/cbor")
            let value = try CBOR.decode(Array(buffer: try await answer.body.collect(upTo: 50_000_000)))
            let (_, lines) = try await Self.open(client, ["statement": .string(Self.many)])
            #expect(lines.count == 8_101 && value["items"]?.arrayValue == Array(lines.dropLast()))
            var rest = value.objectValue
            rest?["items"] = []
            #expect(
                rest.map { JSONText.print(.object($0), sortedKeys: true) }
                    == lines.last.map { JSONText.print($0, sortedKeys: true) })
            // The client unpacks no answer that was packed so well.
            let few = try await client.open(
                Self.path, headers: ["Accept": "application/cbor", "Accept-Encoding": "identity"],
                method: "POST",
                body: ["statement": "SELECT RAW repeat(t, 100) FROM c WHERE _id < 30 ORDER BY _id"])
            let large = try CBOR.decode(Array(buffer: try await few.body.collect(upTo: 100_000_000)))
            #expect(large["items"]?.arrayValue?.count == 30)
        }
    }

    @Test("the head of a list in CBOR is the one that a decoder expects")
    func listHead() throws {
        for count in [0, 1, 23, 24, 255, 256, 65_535, 65_536, 70_000] {
            let list = Value.array(Array(repeating: .int(1), count: count))
            #expect(CBOR.encode(list).starts(with: ExecuteAnswer.listHead(count)))
        }
    }

    /// Takes the lines of a spool up to its end.
    private static func all(of spool: RowSpool) async throws -> (lines: ByteBuffer, end: Value) {
        var lines = ByteBuffer()
        while true {
            switch try await spool.next() {
            case .lines(var next): lines.writeBuffer(&next)
            case .end(let end): return (lines, try end.get())
            }
        }
    }

    @Test(
        "a reader as fast as the writer gets every line in order and the end, from memory and from a file",
        arguments: [0, Limits.spoolHeldBytes])
    func fastReader(before: Int) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        for _ in 0..<300 {
            let spool = RowSpool(folder: folder, for: Account(address: "test"))
            // So many that all others go to the file, however fast the reader is.
            try spool.append(ByteBuffer(repeating: 7, count: before))
            try spool.append(ByteBuffer(integer: UInt32(0)))
            let writer = Task.detached {
                for number in 1..<UInt32(2_000) { try spool.append(ByteBuffer(integer: number)) }
                spool.finish(.success("end"))
            }
            var (lines, end) = try await Self.all(of: spool)
            #expect(end == "end")
            lines.moveReaderIndex(forwardBy: before)
            #expect(lines.readableBytes == 8_000)
            #expect((0..<2_000).allSatisfy { lines.readInteger(as: UInt32.self) == $0 })
            try await writer.value
        }
    }

    @Test("a spool without lines ends at once: the first look throws its error, and so does each later step")
    func onlyEnd() async throws {
        let spool = RowSpool(
            folder: FileManager.default.temporaryDirectory.path, for: Account(address: "test"))
        let error = QueryError(.unavailable, "it broke")
        let first = Task { try await spool.first() }
        spool.finish(.failure(error))
        await #expect(throws: error) { try await first.value }
        for _ in 0..<2 {
            await #expect(throws: error) { try await Self.all(of: spool) }
        }
    }

    @Test("a spool keeps the order, holds a bounded part in memory, and refuses more than its file may have")
    func spool() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let spool = RowSpool(folder: folder, for: Account(address: "test"), limit: 4 << 20)
        let piece = ByteBuffer(repeating: 7, count: 100_000)
        var pieces = 0
        let refusal = #expect(throws: QueryError.self) {
            for number in 0..<1_000 {
                var numbered = ByteBuffer(integer: UInt32(number))
                numbered.writeImmutableBuffer(piece)
                try spool.append(numbered)
                pieces += 1
            }
        }
        #expect(refusal?.code == .answerTooLarge)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == [])
        spool.finish(.success("end"))
        #expect(throws: Never.self) { try spool.begin() }
        for number in 0..<30 {
            var numbered = ByteBuffer(integer: UInt32(number))
            numbered.writeImmutableBuffer(piece)
            try spool.append(numbered)
        }
        var (all, _) = try await Self.all(of: spool)
        for number in 0..<30 {
            #expect(all.readInteger(as: UInt32.self) == UInt32(number))
            all.moveReaderIndex(forwardBy: 100_000)
        }
        #expect(all.readableBytes == 0 && pieces > 40)
        // The client has lines of this run: another one cannot take their place.
        #expect(throws: QueryError(.unavailable, "the connection to the projection was lost")) {
            try spool.begin()
        }
    }
}
