import AttachmentStore
import Foundation
import ServiceKit
import Testing

@Suite("An attachment that is damaged on the server's disk", .timeLimit(.minutes(1)))
struct DamagedAttachmentTests {
    private static func damage(_ id: String, in fixture: StoreFixture) throws {
        let path = URL(fileURLWithPath: "\(fixture.folder)/blobs/cars/\(id.prefix(2))/\(id)")
        var bytes = try Data(contentsOf: path)
        bytes[bytes.count / 2] ^= 1
        try bytes.write(to: path)
    }

    private static func eventually(_ condition: () async throws -> Bool) async throws -> Bool {
        let end = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < end {
            if try await condition() { return true }
            try await Task.sleep(for: .milliseconds(20))
        }
        return false
    }

    @Test("it is found without a reader, refused with a code, and mended by the right bytes")
    func mended() async throws {
        let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 / 5) }
        let fixture = try StoreFixture()
        let stored = try await fixture.serving { try await $0.upload(.bytes(bytes)).stored }
        let id = try #require(stored?.id)
        try Self.damage(id, in: fixture)
        let again = try StoreFixture(at: fixture)
        try await again.serving { client async throws in
            // Whether the scrub or the reader is first.
            let answer = try await client.get(id)
            #expect(answer.status == 500 && answer.code == "BLOB-0202")
            #expect(answer.headers["cache-control"]?.contains("immutable") != true)
            #expect(try await client.get(id, method: "HEAD").status == 500)
            #expect(await again.part.health().detail?.hasPrefix("BLOB-0202: 1 attachment") == true)
            #expect(try await client.upload(.bytes(bytes)).status == 200)
            #expect(try await client.get(id).body == bytes)
            #expect(await again.part.health() == .ok)
        }
        try Self.damage(id, in: fixture)
        let last = try StoreFixture(at: fixture)
        try await last.serving { _ async throws in
            #expect(try await Self.eventually { await last.part.health().status == .failing })
        }
        // It stays damaged over restarts, until it is uploaded.
        let one = try StoreFixture(at: fixture)
        try await one.serving { client async throws in
            #expect(try await client.get(id).code == "BLOB-0202")
            #expect(await one.part.health().status == .failing)
        }
    }
}
