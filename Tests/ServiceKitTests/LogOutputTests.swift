import CRDT
import Foundation
import Logging
import Synchronization
import Testing

@testable import ServiceKit

@Suite("Lines of the log")
struct LogOutputTests {
    /// An output that keeps what it writes, and a clock that a test moves.
    private final class Bench: Sendable {
        let lines = Mutex<[String]>([])
        let time = Mutex(ContinuousClock.now)
        func output() -> LogOutput {
            LogOutput(now: { self.time.withLock { $0 } }) { bytes in
                self.lines.withLock { $0.append(String(decoding: bytes, as: UTF8.self)) }
            }
        }
        var written: [String] { lines.withLock { $0 } }
    }

    private func logger(_ label: String, _ output: LogOutput) -> Logger {
        Logger(label: label) { ServiceLogHandler(label: $0, output: output) }
    }

    @Test("JSON has the four members first, numbers as numbers, and no field that hides one of them")
    func json() throws {
        let bench = Bench()
        let output = bench.output()
        output.form = .json
        var logger = logger("replicator", output)
        logger[metadataKey: "request"] = "r-1"
        logger.info("a \"line\"\nof two", metadata: ["duration_ms": "12", "level": "low", "peer": "pk"])
        let line = try #require(bench.written.first)
        #expect(line.hasSuffix("}\n") && line.filter { $0 == "\n" }.count == 1)
        let value = try JSONText.parse(Array(line.utf8))
        #expect(value["level"] == "info" && value["service"] == "replicator")
        #expect(value["message"] == "a \"line\"\nof two")
        #expect(value["duration_ms"] == 12 && value["level_"] == "low" && value["request"] == "r-1")
        let time = try #require(value["time"]?.stringValue)
        #expect(time.count == 24 && time.hasSuffix("Z"))
    }

    @Test("text is one line, whatever the message has")
    func text() {
        let bench = Bench()
        let output = bench.output()
        logger("mimeo", output).warning("a\n2026 info forged", metadata: ["b": "1", "a": "2"])
        #expect(bench.written.count == 1)
        #expect(bench.written[0].hasSuffix("warning mimeo: a=2 b=1 [ServiceKitTests] a\\n2026 info forged\n"))
    }

    @Test(
        "warnings and errors that repeat are counted beyond ten in a window, and no others or critical ones"
    )
    func repeated() {
        let bench = Bench()
        let output = bench.output()
        let (one, other) = (logger("replicator", output), logger("query-service", output))
        for number in 0..<1_000 {
            one.error("refused", metadata: ["request": "\(number)"])
            one.critical("damaged")
            one.info("fine")
        }
        #expect(bench.written.count { $0.contains("refused") } == 10)
        #expect(bench.written.count { $0.contains("damaged") } == 1_000)
        #expect(bench.written.count { $0.contains("fine") } == 1_000)
        // Another service, level or message is another line.
        other.error("refused")
        one.warning("refused")
        one.error("broken")
        #expect(bench.written.suffix(3).map { $0.contains("refused") } == [true, true, false])
        output.tellLeftOut()
        #expect(!bench.written.contains { $0.contains("left out") })
        bench.time.withLock { $0 += .seconds(10) }
        output.tellLeftOut()
        output.tellLeftOut()
        #expect(bench.written.count { $0.contains("left out") } == 1)
        #expect(bench.written.last?.contains("count=990") == true)
        #expect(bench.written.last?.contains("refused (and 990 more of these lines") == true)
        // The next window begins with a line, and the lines that it leaves out are told before a later one.
        for _ in 0..<12 { one.error("refused") }
        #expect(bench.written.suffix(10).allSatisfy { $0.contains("refused") && !$0.contains("left out") })
        bench.time.withLock { $0 += .seconds(11) }
        one.info("later")
        #expect(bench.written.suffix(2).first?.contains("count=2") == true)
        #expect(output.lines(limit: 2).first?.contains("left out") == true)
    }

    @Test("a failure of another status is told among many of an outage, and each line of the audit is")
    func told() {
        let bench = Bench()
        let output = bench.output()
        let logger = logger("mimeo", output)
        for number in 0..<20 {
            logger.error("request failed", metadata: ["status": "503", "path": "/away/\(number)"])
            logger.warning("\(AuditEntry.lineMessage)", metadata: ["path": "/admin/\(number)"])
        }
        logger.error("request failed", metadata: ["status": "500", "path": "/broken"])
        #expect(bench.written.count { $0.contains("status=503") } == 10)
        #expect(bench.written.count { $0.contains("path=/admin/") } == 20)
        #expect(bench.written.last?.contains("path=/broken status=500") == true)
        bench.time.withLock { $0 += .seconds(10) }
        output.tellLeftOut()
        #expect(bench.written.last?.contains("count=10 status=503 ") == true)
    }

    @Test("a level that is set for a time is that of one service, and ends by itself")
    func levels() {
        let bench = Bench()
        let output = bench.output()
        let (one, other) = (logger("replicator", output), logger("query-service", output))
        one.debug("no")
        output.set(.debug, of: "replicator", for: .seconds(60))
        one.debug("yes")
        other.debug("no")
        #expect(output.level(of: "replicator").level == .debug)
        #expect(output.level(of: "replicator").rest == .seconds(60))
        #expect(output.changed(of: "replicator") == .debug && output.changed(of: "query-service") == nil)
        bench.time.withLock { $0 += .seconds(61) }
        #expect(output.level(of: "replicator").level == .info)
        one.debug("no")
        #expect(output.changed(of: "replicator") == nil)
        #expect(bench.written.count == 1)
        output.level = .error
        one.warning("no")
        #expect(bench.written.count == 1)
    }

    @Test("a logger's own level stays its own")
    func own() {
        let bench = Bench()
        let output = bench.output()
        var quiet = logger("mimeo", output)
        quiet.logLevel = .critical
        output.level = .trace
        quiet.error("no")
        logger("mimeo", output).trace("yes")
        #expect(bench.written.count == 1)
    }

    @Test("the latest lines are kept, cut and bounded")
    func kept() {
        let bench = Bench()
        let output = bench.output()
        let logger = logger("mimeo", output)
        for number in 0..<3 * Limits.keptLines { logger.info("line \(number)") }
        logger.info("\(String(repeating: "x", count: 10_000))")
        let lines = output.lines(limit: 3)
        #expect(lines.count == 3 && lines[2].utf8.count <= Limits.keptLineBytes)
        #expect(lines[1].hasSuffix("line \(3 * Limits.keptLines - 1)"))
        #expect(output.lines(limit: .max).count <= 2 * Limits.keptLines)
    }

    @Test("only a traceparent of W3C's form names a trace, and it is passed on with a span of ours")
    func traces() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        let trace = RequestTrace(text)
        #expect(trace?.id == "4bf92f3577b34da6a3ce929d0e0e4736")
        #expect(trace?.text.hasPrefix("00-4bf92f3577b34da6a3ce929d0e0e4736-") == true)
        #expect(trace?.text.hasSuffix("-01") == true && trace?.text != text)
        for wrong in [
            nil, "", "00-4bf9", text + "-more", text.uppercased(), "ff" + text.dropFirst(2),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", text.replacing("b", with: "g"),
        ] {
            #expect(RequestTrace(wrong) == nil, "\(wrong ?? "")")
        }
        #expect(RequestTrace("01" + text.dropFirst(2) + "-more") != nil)
    }

    @Test("a setting tells its origin, and no password")
    func settings() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(
            "effective-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(#"{"listen": "127.0.0.1:1", "keepAliveSeconds": 7}"#.utf8).write(to: file)
        let sources = try SettingSources(
            config: file.path, environment: ["MIMEO_LISTEN": "127.0.0.1:2", "MIMEO_DRAIN_SECONDS": "4"])
        let all = EffectiveSetting.all(
            of: .replicator,
            arguments: [
                "--log", "postgres://me:s3cret@db/x?sslmode=require&password=t0p", "--no-behind-proxy",
                "--cors-origin=https://a", "--cors-origin", "https://b",
            ], sources: sources)
        func found(_ name: String) -> String {
            all.first { $0.name == name }.map { "\($0.origin.rawValue) \($0.value ?? "")" } ?? ""
        }
        #expect(found("log") == "flag postgres://me:***@db/x?sslmode=require&password=***")
        #expect(found("behindProxy") == "flag false" && found("corsOrigin") == "flag https://a,https://b")
        #expect(found("listen") == "environment 127.0.0.1:2")
        #expect(found("drainSeconds") == "environment 4" && found("keepAliveSeconds") == "file 7")
        #expect(found("data") == "default ./mimeo-data")
        #expect(!all.contains { $0.name == "providers" })
    }
}
