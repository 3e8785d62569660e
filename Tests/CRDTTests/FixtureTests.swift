import Foundation
import Testing

@testable import CRDT

/// The first form of every encoding. These bytes are in stores and logs: each later version must load them.
/// `first-form.json` is what the first version wrote; `kinds.json` was added with counters, attachments and
/// seeds, `log-forms.json` with what servers write into the log, `new-sums.json` with counters of doubles
/// that begin again after a RESTART.
/// `Tests/Conformance/document_decoder.py` decodes the same files without any of our code.
@Suite("First-form fixtures")
struct FixtureTests {
    /// One example: its bytes, the stamp it came under when it is a delta, and what it decodes to.
    struct Fixture: Sendable, CustomTestStringConvertible {
        let kind: String
        let name: String
        let bytes: [UInt8]
        let stamp: Stamp
        let decoded: Value

        var testDescription: String { "\(kind): \(name)" }
    }

    static func load() throws -> [Fixture] {
        try load("first-form.json") + load("kinds.json") + load("log-forms.json") + load("new-sums.json")
    }

    private static func load(_ name: String) throws -> [Fixture] {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Fixtures").appendingPathComponent(name)
        let text = try JSONText.parse([UInt8](Data(contentsOf: file)))
        return try #require(text["fixtures"]?.arrayValue).map { fixture in
            let parts = (fixture["stamp"]?.stringValue ?? "0@0").split(separator: "@")
            return Fixture(
                kind: try #require(fixture["kind"]?.stringValue),
                name: try #require(fixture["name"]?.stringValue),
                bytes: Hex.decode(try #require(fixture["bytes"]?.stringValue)),
                stamp: Stamp(
                    time: try #require(UInt64(parts[0])),
                    actor: ActorID(try #require(UInt64(parts[1], radix: 16)))),
                decoded: try #require(fixture["decoded"]))
        }
    }

    private static let fixtures = (try? load()) ?? []

    @Test("there is a fixture of every kind")
    func kinds() throws {
        let kinds = Set(try Self.load().map(\.kind))
        #expect(kinds == ["delta", "document", "id", "operation", "vector"])
    }

    @Test("a fixture decodes to what it did when it was written", arguments: fixtures)
    func decodes(_ fixture: Fixture) throws {
        #expect(try Exemplar.describe(fixture.kind, fixture.bytes, fixture.stamp) == fixture.decoded)
    }

    @Test("a fixture's bytes are still what this version writes", arguments: fixtures)
    func encodes(_ fixture: Fixture) throws {
        #expect(try Exemplar.again(fixture.kind, fixture.bytes, fixture.stamp) == fixture.bytes)
    }

    @Test("a fixture cut anywhere is refused", arguments: fixtures)
    func truncated(_ fixture: Fixture) {
        let survivors = fixture.bytes.indices.filter { end in
            errorCode { try Exemplar.again(fixture.kind, Array(fixture.bytes[..<end]), fixture.stamp) } == nil
        }
        #expect(survivors == [])
    }
}
