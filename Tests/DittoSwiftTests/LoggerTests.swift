import CRDT
import Foundation
import Mimeo
import TestSupport
import Testing

@testable import DittoSwift

/// The logger is one for the process: its tests run one after the other and put back what they set. Messages
/// of other instances that are open meanwhile are told apart by what they say.
@Suite("The logger", .serialized)
struct LoggerTests {
    private static let marker = "a transaction is open for long"

    /// Runs a body while a callback gathers what is shown, then puts everything back.
    private func gathering(
        _ level: DittoLogLevel, _ body: (Collected<String>) async throws -> Void
    ) async throws {
        try await Turns.logger.run {
            let shown = Collected<String>()
            let minimum = LogSettings.shared.minimum
            DittoLogger.minimumLogLevel = level
            DittoLogger.setCustomLogCallback { level, message in shown.add("\(level.rawValue) \(message)") }
            defer {
                DittoLogger.setCustomLogCallback(nil)
                DittoLogger.isEnabled = true
                LogSettings.shared.minimum = minimum
            }
            try await body(shown)
        }
    }

    /// Lets a transaction be warned about, and waits until the log has it; where nothing is logged, a moment.
    private func warn(_ ditto: Ditto, _ hint: String) async throws {
        try await ditto.store.execute(query: "ALTER SYSTEM SET transaction_duration_before_logging_ms = 1")
        try await ditto.store.transaction(hint: hint) { _ in
            guard DittoLogger.isEnabled else { return try await Task.sleep(for: .milliseconds(60)) }
            #expect(try await eventually { try await exported().contains(hint) })
        }
    }

    private func exported() async throws -> String {
        try await withTemporaryDirectory { directory in
            let file = directory.appendingPathComponent("log")
            try await DittoLogger.export(to: file)
            return String(decoding: try GzipTests.unpacked(file), as: UTF8.self)
        }
    }

    @Test("a transaction that is open for long is warned about, with its hint")
    func longTransaction() async throws {
        try await gathering(.warning) { shown in
            try await withDitto { ditto in
                try await ditto.store.execute(
                    query: "ALTER SYSTEM SET transaction_duration_before_logging_ms = 1")
                try await ditto.store.execute(query: "ALTER SYSTEM SET transaction_trace_interval_ms = 1")
                try await ditto.store.transaction(hint: "slow one") { _ in
                    let seen = await shown.wait { $0.count { $0.contains("hint=slow one") } >= 2 }
                    #expect(
                        seen.contains { $0.hasPrefix("2 \(Self.marker)") && $0.contains("readOnly=false") })
                }
            }
        }
    }

    @Test("levels: what is less urgent than the minimum is not shown, and nothing when it is disabled")
    func levels() async throws {
        try await gathering(.error) { shown in
            try await withDitto { ditto in
                try await warn(ditto, "below the minimum")
                DittoLogger.minimumLogLevel = .warning
                DittoLogger.isEnabled = false
                #expect(!DittoLogger.enabled)
                try await warn(ditto, "while disabled")
                DittoLogger.enabled = true
                try await warn(ditto, "shown")
                _ = await shown.wait { $0.contains { $0.contains("hint=shown") } }
                #expect(
                    !shown.all.contains { $0.contains("below the minimum") || $0.contains("while disabled") })
            }
        }
    }

    @Test("nil ends the callback; the default minimum is info, and levels are those of the original")
    func callback() async throws {
        try await gathering(.warning) { shown in
            DittoLogger.setCustomLogCallback(nil)
            try await withDitto { try await warn($0, "to nobody") }
            #expect(!shown.all.contains { $0.contains("to nobody") })
            #expect(DittoLogger.minimumLogLevel == .warning)
        }
        #expect(DittoLogLevel(rawValue: 1) == .error)
        #expect(DittoLogLevel(rawValue: 5) == .verbose)
        try await gathering(.warning) { _ in
            LogSettings.shared.minimum = nil
            #expect(DittoLogger.minimumLogLevel == .info)
        }
    }

    @Test("too many observers, and too many alike, are warned about once")
    func observers() async throws {
        try await gathering(.warning) { shown in
            try await withDitto { ditto in
                let store = ditto.store
                try await store.execute(query: "ALTER SYSTEM SET live_query_total_warning_threshold = 8")
                for number in 0..<7 {
                    try store.registerObserver(query: "SELECT * FROM alike", arguments: [:]) { _ in }
                    try store.registerObserver(
                        query: "SELECT * FROM alike WHERE n = :n", arguments: ["n": number]
                    ) { _ in }
                }
                let alike = shown.all.filter { $0.contains("many observers of the same query") }
                #expect(alike == ["2 many observers of the same query count=5 query=SELECT * FROM alike"])
                #expect(shown.all.contains("2 many observers count=8"))
            }
        }
    }

    @Test("an eviction that takes the only known copy is warned about, in the log and beside the statement")
    func evictions() async throws {
        try await gathering(.warning) { shown in
            try await withTemporaryDirectory { directory in
                let ditto = try await Ditto.openAlone(
                    config: DittoConfig(
                        databaseID: "evictions", connect: .smallPeersOnly(privateKey: nil),
                        persistenceDirectory: directory))
                let store = ditto.store
                func warned() -> [String] {
                    shown.all.filter { $0.contains("no other peer is known to have") }
                }
                for number in 1...3 {
                    try await store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': \(number)})")
                }
                try await store.execute(query: "EVICT FROM c WHERE _id = 4")
                #expect(warned().isEmpty)
                ditto.updateTransportConfig { config in
                    config.listen.tcp.isEnabled = true
                    config.listen.tcp.interfaceIP = "127.0.0.1"
                    config.listen.tcp.port = 0
                }
                try ditto.sync.start()
                #expect(await eventually { ditto.sync.linkReport?.listening.isEmpty == false })
                try await store.execute(query: "EVICT FROM c WHERE _id < 3")
                #expect(
                    warned() == [
                        "2 documents were evicted that no other peer is known to have code=SDK-W102 count=2"
                    ])
                let outcome = try await store.run("EVICT FROM c", arguments: ObjectValue())
                #expect(outcome.warnings.map(\.code) == ["SDK-W102"])
                await ditto.close()
            }
        }
    }

    @Test("files take what is shown to nobody, rotate, and are exported as JSON lines; the last lines too")
    func files() async throws {
        try await gathering(.error) { shown in
            try await withTemporaryDirectory { directory in
                let ditto = try await Ditto.openAlone(
                    config: .local(directory.appendingPathComponent("store")))
                try await warn(ditto, "for the files")
                let target = directory.appendingPathComponent("log.jsonl.gz")
                let bytes = try await DittoLogger.export(to: target)
                #expect(UInt64(try Data(contentsOf: target).count) == bytes)
                let data = try GzipTests.unpacked(target)
                let lines = try data.split(separator: 10).map { try JSONText.parse([UInt8]($0)) }
                let line = lines.first { $0["hint"]?.stringValue == "for the files" }
                #expect(line?["level"] == "warning")
                #expect(line?["message"]?.stringValue == Self.marker)
                #expect(line?["time"]?.stringValue?.hasSuffix("Z") == true)
                #expect(shown.all.allSatisfy { !$0.contains("for the files") })
                await ditto.close()
            }
        }
    }

    @Test("an export tells of a healthy instance: login, session and sync, from their beginning to their end")
    func healthy() async throws {
        try await gathering(.error) { _ in
            try await withTemporaryDirectory { directory in
                let data = directory.appendingPathComponent("server").path
                try await EmbeddedServer.run(data: data) { server in
                    let ditto = try await Ditto.openAlone(
                        config: DittoConfig(
                            databaseID: server.databaseID, connect: .server(url: server.url),
                            persistenceDirectory: directory.appendingPathComponent("store")))
                    ditto.auth?.expirationHandler = { ditto, _ in
                        _ = try? await ditto.auth?.login(token: server.token, provider: .development)
                    }
                    try ditto.sync.start()
                    #expect(await eventually { ditto.sync.status.text == "connected" })
                    await ditto.sync.stopAndWait()
                    ditto.auth?.logout()
                    let text = try await exported()
                    let messages = [
                        "sync has started", "the application is asked to log in",
                        "logging in", "logged in", "connecting with the server",
                        "the session with the server has begun", "the session with the server has ended",
                        "sync has stopped", "logged out",
                    ]
                    for message in messages { #expect(text.contains("\"\(message)\""), "\(message)") }
                    #expect(!text.contains(server.token))
                    await ditto.close()
                }
            }
        }
    }

    @Test("a link with a peer is told of at both ends, when it begins and when it ends")
    func links() async throws {
        try await gathering(.info) { shown in
            try await withTemporaryDirectory { directory in
                var opened: [Ditto] = []
                for name in ["a", "b"] {
                    opened.append(
                        try await Ditto.openAlone(
                            config: DittoConfig(
                                databaseID: "told", connect: .smallPeersOnly(privateKey: nil),
                                persistenceDirectory: directory.appendingPathComponent(name))))
                }
                opened[0].updateTransportConfig { config in
                    config.listen.tcp.isEnabled = true
                    config.listen.tcp.interfaceIP = "127.0.0.1"
                    config.listen.tcp.port = 0
                }
                try opened[0].sync.start()
                #expect(await eventually { opened[0].sync.linkReport?.listening.isEmpty == false })
                let port = opened[0].sync.linkReport?.listening.first?.port ?? 0
                opened[1].updateTransportConfig { $0.connect.tcpServers = ["127.0.0.1:\(port)"] }
                try opened[1].sync.start()
                let keys = opened.map { $0.presence.graph.localPeer.peerKey }
                func told(_ message: String) -> Int {
                    keys.count { key in shown.all.contains { $0.contains(message) && $0.contains(key) } }
                }
                #expect(await eventually { told("3 linked with a peer") == 2 })
                await opened[1].sync.stopAndWait()
                #expect(await eventually { told("3 a link with a peer has ended") == 2 })
                for ditto in opened { await ditto.close() }
            }
        }
    }

    @Test("export names what is wrong with the file")
    func badExports() async throws {
        try await withTemporaryDirectory { directory in
            let there = directory.appendingPathComponent("there")
            try Data().write(to: there)
            await #expect { try await DittoLogger.export(to: there) } throws: {
                if case DittoSwiftError.ioError(.alreadyExists) = $0 { true } else { false }
            }
            await #expect {
                try await DittoLogger.export(to: directory.appendingPathComponent("no/log"))
            } throws: {
                if case DittoSwiftError.ioError(.notFound) = $0 { true } else { false }
            }
            await #expect { try await DittoLogger.export(to: URL(fileURLWithPath: "/proc/log")) } throws: {
                switch $0 {
                // What the file system says depends on who runs this.
                case DittoSwiftError.ioError(.permissionDenied), DittoSwiftError.ioError(.operationFailed):
                    true
                default: false
                }
            }
            let url = try #require(URL(string: "https://host/log"))
            await #expect { try await DittoLogger.export(to: url) } throws: {
                if case DittoSwiftError.ioError(.operationFailed) = $0 { true } else { false }
            }
        }
    }

    @Test("files are bounded in size and number, oldest first, and go on after a restart")
    func rotation() throws {
        try withTemporaryDirectory { directory in
            let policy = LogFiles.Policy(bytes: 1_000, age: .seconds(3_600), count: 3)
            func log(_ from: Int, _ to: Int) {
                let files = LogFiles()
                files.add(.info, "before the directory is known \(from)", [:])
                files.open(in: directory.path) { policy }
                for number in from..<to { files.add(.info, "message \(number)", ["n": "\(number)"]) }
                files.close()
                files.add(.info, "after closing", [:])
            }
            log(0, 100)
            log(100, 200)
            let folder = directory.appendingPathComponent("ditto_logs")
            let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
            #expect(names.count == 3)
            var numbers: [Int] = []
            for name in names {
                let data = try Data(contentsOf: folder.appendingPathComponent(name))
                #expect(data.count <= 1_000)
                numbers += try data.split(separator: 10).compactMap {
                    Int(try JSONText.parse([UInt8]($0))["n"]?.stringValue ?? "")
                }
            }
            // The newest ones, without a gap.
            #expect(numbers.last == 199)
            #expect(numbers == Array((numbers.first ?? 0)...199))
            let attributes = try FileManager.default.attributesOfItem(
                atPath: folder.appendingPathComponent(names[0]).path)
            #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
        }
    }

    @Test("an old file is not written to again")
    func age() throws {
        try withTemporaryDirectory { directory in
            let files = LogFiles()
            files.open(in: directory.path) {
                LogFiles.Policy(bytes: 1_000_000, age: .nanoseconds(1), count: 3)
            }
            for number in 0..<5 {
                files.add(.info, "\(number)", [:])
                _ = files.flushed()
            }
            #expect(files.flushed().count == 3)
            files.close()
        }
    }
}
