import CRDT
import HTTPTypes
import Hummingbird
import NIOCore
import Testing

@testable import ServiceKit

@Suite("The lines of a body, group by group")
struct BodyLinesTests {
    private let pool = EvaluationPool()

    /// The lines of a body that arrives in these pieces.
    private func lines(
        _ pieces: [[UInt8]], packed: Bool = false, groupLines: Int = 3, groupBytes: Int = 1_000,
        lineBytes: Int = 100
    ) throws -> BodyLines {
        var headers: HTTPFields = [:]
        if packed { headers[.contentEncoding] = "gzip" }
        let body = AsyncStream<ByteBuffer> { stream in
            for piece in pieces { stream.yield(ByteBuffer(bytes: piece)) }
            stream.finish()
        }
        let request = Request(
            head: HTTPRequest(
                method: .post, scheme: nil, authority: nil, path: "/", headerFields: headers),
            body: RequestBody(asyncSequence: body))
        let bounds = BodyLines.Bounds(lines: groupLines, bytes: groupBytes, lineBytes: lineBytes)
        return try BodyLines(request, for: Account("ada", in: "cars"), bounds)
    }

    /// Each group as the numbers of its lines, their values of `n`, and the number of its last line.
    private func read(_ lines: BodyLines) async throws -> [String] {
        var (rest, read) = (lines, [String]())
        let evaluation = try pool.statement("", of: "ada", in: "cars")
        defer { pool.finish(evaluation) }
        while let group = try await rest.next() {
            let (lines, failure) = try await group.objects(in: evaluation)
            let shown = lines.map { "\($0.number):\($0.value["n"]?.intValue ?? -1)" } + ["to \(group.last)"]
            read.append(shown.joined(separator: " ") + (failure.map { " bad \($0.line)" } ?? ""))
        }
        return read
    }

    @Test("they are cut at line breaks alone, however they arrive", arguments: [1, 2, 7, 1_000])
    func pieces(of length: Int) async throws {
        let text = Array("{\"n\":1}\n\r\n {\"n\":2}\r\n{\"n\":3}\n\n{\"n\":4}".utf8)
        let pieces = stride(from: 0, to: text.count, by: length).map {
            Array(text[$0..<min($0 + length, text.count)])
        }
        #expect(try await read(lines(pieces)) == ["1:1 3:2 4:3 to 4", "6:4 to 6"])
        #expect(
            try await read(lines(pieces, groupBytes: 8)) == ["1:1 to 1", "3:2 to 3", "4:3 to 4", "6:4 to 6"])
        let packed = GzipTests.packed(String(decoding: text, as: UTF8.self))
        #expect(try await read(lines([packed], packed: true)) == ["1:1 3:2 4:3 to 4", "6:4 to 6"])
    }

    @Test("a body without a line has no group, and one of blank lines no objects")
    func empty() async throws {
        #expect(try await read(lines([])) == [])
        #expect(try await read(lines([[]])) == [])
        #expect(try await read(lines([Array(" \n\n\t".utf8)])) == ["to 3"])
    }

    @Test(
        "the first line that is no object ends its group",
        arguments: [
            "[1]", "7", "{\"n\":1", "{\"n\":1,\"n\":2}", "{\"n\":1}{\"n\":2}", "{\"n\":9223372036854775808}",
        ])
    func malformed(line: String) async throws {
        let body = Array("{\"n\":1}\n\(line)\n{\"n\":3}\n".utf8)
        #expect(try await read(lines([body])) == ["1:1 to 3 bad 2"])
    }

    @Test("a line that is too long is refused after those before it")
    func tooLong() async throws {
        let long = "{\"n\":\(String(repeating: " ", count: 100))5}"
        for end in ["", "\n{\"n\":6}\n"] {
            var all = try lines([Array("{\"n\":1}\n{\"n\":2}\n\(long)\(end)".utf8)])
            #expect(try await all.next()?.last == 2)
            do {
                _ = try await all.next()
                Issue.record("it was taken")
            } catch let failure as LineFailure {
                #expect(failure.line == 3)
                #expect((failure.error as? ServiceError)?.code == .bodyTooLarge)
            }
        }
    }

    @Test("the values of a group belong to its account")
    func held() async throws {
        var all = try lines(
            [Array("{\"n\":[1,2,3]}\n{\"n\":{}}\n".utf8)])
        let evaluation = try pool.statement("", of: "ada", in: "cars")
        defer { pool.finish(evaluation) }
        let group = try await all.next()
        _ = try await group?.objects(in: evaluation)
        // Six values, counted by their brackets and commas, and one more for each line.
        #expect(evaluation.held.bytes >= 8 * ServiceKit.Limits.valueBytes)
    }
}
