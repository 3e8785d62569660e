import Foundation
import TestSupport
import Testing

@testable import DittoSwift

/// Stores that version 0.2.0 or a later one has written, byte for byte: every later one has to open them. A
/// format that is released adds a folder here and takes none away.
///
/// `store-11` was made by `mimeo dql`: four documents, one with a composite id, one deleted and one evicted;
/// an update, a counter, an INITIAL document, an index, a persisted parameter. A build before 0.2.0 wrote it
/// in format 4, and the last of them opened it.
@Suite("Stores of earlier versions")
struct StoreFixtureTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("Fixtures")

    /// Runs a body with a copy of a fixture.
    private func withFixture(_ name: String, _ body: (Ditto) async throws -> Void) async throws {
        try await withTemporaryDirectory { directory in
            let copy = directory.appendingPathComponent("store")
            try FileManager.default.copyItem(at: Self.folder.appendingPathComponent(name), to: copy)
            let ditto = try await Ditto.openAlone(config: .local(copy))
            try await body(ditto)
            await ditto.close()
            // And once more, as this version has left it.
            let again = try await Ditto.openAlone(config: .local(copy))
            #expect(try await again.store.execute(query: "SELECT * FROM cars").items.count == 3)
            await again.close()
        }
    }

    private func rows(_ ditto: Ditto, _ query: String) async throws -> [String] {
        try await ditto.store.execute(query: query).items.map { $0.jsonString() }
    }

    @Test(
        "a store of format 11 or 12 has its documents, index and parameters, and is written to",
        arguments: ["store-11", "store-12"])
    func opens(name: String) async throws {
        try await withFixture(name) { ditto in
            #expect(
                try await rows(ditto, "SELECT * FROM cars").sorted() == [
                    #"{"_id":"a","color":"blue","features":{"speakers":5,"trim":"Standard"},"make":"Ford","#
                        + #""mileage":160000,"tags":["x",1,1.5,true,null],"visits":5}"#,
                    #"{"_id":{"owner":"abc123","orderId":"def456"},"make":"Hyundai"}"#,
                ])
            #expect(try await rows(ditto, "SELECT * FROM people") == [#"{"_id":"seed","name":"Susan"}"#])
            #expect(
                try await rows(ditto, "SELECT name, state FROM system:indexes")
                    == [#"{"name":"cars_make","state":"ready"}"#])
            #expect(
                try await rows(ditto, "EXPLAIN SELECT * FROM cars WHERE make = 'Ford'").joined().contains(
                    "cars_make"))
            #expect(
                try await rows(ditto, "SHOW document_size_soft_limit_bytes")
                    == [#"{"document_size_soft_limit_bytes":100000}"#])
            // A document that is written at every launch changes nothing.
            try await ditto.store.execute(
                query: "INSERT INTO people INITIAL DOCUMENTS ({'_id': 'seed', 'name': 'Max'})")
            #expect(try await rows(ditto, "SELECT name FROM people") == [#"{"name":"Susan"}"#])
            try await ditto.store.execute(query: "UPDATE cars APPLY visits INCREMENT BY 1 WHERE _id = 'a'")
            let written = try await ditto.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 7})")
            #expect(written.commitID == 7)
            #expect(
                try await rows(ditto, "SELECT visits FROM cars WHERE make = 'Ford'") == [#"{"visits":6}"#])
        }
    }

    @Test(
        "a store of a later or an earlier format is refused, and not changed by that", arguments: [99, 10, 4])
    func otherFormat(_ format: UInt8) async throws {
        try await withTemporaryDirectory { directory in
            let copy = directory.appendingPathComponent("store")
            let source = Self.folder.appendingPathComponent("store-11")
            try FileManager.default.copyItem(at: source, to: copy)
            let file = copy.appendingPathComponent("replica.sqlite")
            var bytes = try Data(contentsOf: file)
            // SQLite's header keeps `user_version` here, big end first.
            bytes.replaceSubrange(60..<64, with: [0, 0, 0, format])
            try bytes.write(to: file)
            await #expect { _ = try await Ditto.openAlone(config: .local(copy)) } throws: {
                storeReason($0) == "backendError"
            }
            #expect(try Data(contentsOf: file) == bytes)
        }
    }
}
