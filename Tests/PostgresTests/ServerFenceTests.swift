import CRDT
import Foundation
import OperationLog
import Testing

@testable import Postgres

/// A primary that a standby has replaced is neither read nor written.
@Suite("A PostgreSQL that was replaced")
struct ServerFenceTests {
    @Test("a fence refuses earlier timelines of the same cluster, also after a restart of its process")
    func timelines() throws {
        try withFolder { file in
            let fence = try ServerFence(file: file)
            try fence.admit(place("7", 1))
            try fence.admit(place("7", 3))
            #expect(refusal { try fence.admit(place("7", 2)) } == .replaced)
            #expect(fence.refusal?.code == .replaced)
            try fence.admit(place("7", 3))
            #expect(fence.refusal == nil)
            let next = try ServerFence(file: file)
            #expect(refusal { try next.admit(place("7", 2)) } == .replaced)
            try next.admit(place("7", 4))
        }
    }

    @Test("another cluster is not judged, and an operator's word releases an earlier timeline")
    func words() throws {
        try withFolder { file in
            let fence = try ServerFence(file: file)
            try fence.admit(place("7", 3))
            try fence.admit(place("8", 1))
            try fence.admit(place("7", 3))
            #expect(refusal { try fence.admit(place("7", 1)) } == .replaced)
            try FileManager.default.removeItem(atPath: file)
            try fence.admit(place("7", 1))
            #expect(refusal { try ServerFence(file: file).admit(place("7", 1)) } == nil)
        }
    }

    @Test(
        "a file that no fence wrote is refused, and changes nothing",
        arguments: ["", "7", "7 0\n", "7 x\n", "7 1 2\n", "7 -1\n", "7 99999999999999999999\n"])
    func files(text: String) throws {
        try withFolder { file in
            try Data(text.utf8).write(to: URL(fileURLWithPath: file))
            #expect(refusal { _ = try ServerFence(file: file) } == .cannotOpen)
            #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == Data(text.utf8))
        }
    }

    @Test("a place that cannot be kept is not admitted: a killed process would forget it")
    func unwritable() throws {
        try withFolder { file in
            let fence = try ServerFence(file: file + "/missing/postgres.mark")
            #expect(refusal { try fence.admit(place("7", 1)) } == .cannotOpen)
        }
    }

    @Test(
        "a log refuses a replaced server at its start and while it is open, and serves it after a word",
        .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"),
        .timeLimit(.minutes(2)))
    func server() async throws {
        try await TestDatabase.use { url in
            try await withFolder { file in
                var options = PostgresOperationLog.Options()
                let fence = try ServerFence(file: file)
                options.fence = fence
                let log = try PostgresOperationLog(url: url, options: options, logger: quiet)
                try await log.createDatabase("db")
                _ = try await log.append([record(1, 1)], to: "db")
                #expect(log.status.refusal == nil)
                #expect(try await log.figures().timeline ?? 0 > 0)
                // As if another connection had met the promoted standby.
                let here = try #require(ServerFence.Place(try String(contentsOfFile: file, encoding: .utf8)))
                try fence.admit(ServerFence.Place(system: here.system, timeline: here.timeline + 1))
                #expect(await refusal { _ = try await log.read("db", after: 0) } == .replaced)
                #expect(await refusal { _ = try await log.append([record(1, 2)], to: "db") } == .replaced)
                #expect(log.status.refusal?.code == .replaced)
                #expect(
                    refusal {
                        var again = PostgresOperationLog.Options()
                        again.fence = try ServerFence(file: file)
                        _ = try PostgresOperationLog(url: url, options: again, logger: quiet)
                    } == .replaced)
                try FileManager.default.removeItem(atPath: file)
                #expect(try await log.read("db", after: 0).map(\.sequence) == [1])
                _ = try await log.append([record(1, 2)], to: "db")
                #expect(log.status.refusal == nil)
                await log.close()
            }
        }
    }

    @Test(
        "a server that was full is tried without leaving anything",
        .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"),
        .timeLimit(.minutes(2)))
    func room() async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url, logger: quiet)
            for _ in 0..<3 { try await log.requireRoom() }
            let left = try Connection(url: url).query("SELECT count(*) FROM pg_class WHERE relname = 'tried'")
            #expect(left.int8(0, 0) == 0)
            #expect(try await log.figures().databaseBytes > 0)
            await log.close()
        }
    }

    private func place(_ system: String, _ timeline: Int64) -> ServerFence.Place {
        ServerFence.Place(system: system, timeline: timeline)
    }

    private func refusal(_ body: () throws -> Void) -> OperationLogErrorCode? {
        do { try body() } catch { return (error as? OperationLogError)?.code }
        return nil
    }

    private func refusal(_ body: () async throws -> Void) async -> OperationLogErrorCode? {
        do { try await body() } catch { return (error as? OperationLogError)?.code }
        return nil
    }

    private func withFolder(_ body: (String) throws -> Void) throws {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder.appendingPathComponent("postgres.mark").path)
    }

    private func withFolder(_ body: (String) async throws -> Void) async throws {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try await body(folder.appendingPathComponent("postgres.mark").path)
    }

    private static func folder() throws -> URL {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "fence-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder
    }
}
