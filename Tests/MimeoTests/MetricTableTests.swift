import CRDT
import Foundation
import ServiceKit
import Testing

@Suite("The table of metrics")
struct MetricTableTests {
    private static let root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    private static let page = root.appendingPathComponent("Docs/metrics.md")

    private static func read(_ path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// `Docs/metrics.md`, made of the table.
    private static func written() -> String {
        var lines = [
            "# Metrics", "",
            "`GET /metrics` of every process has these, in Prometheus' text form. The tests write this page",
            "from [MetricTable.swift](../Shared/ServiceKit/Metrics/MetricTable.swift). Alert rules and a",
            "dashboard of these metrics are in [monitoring](../monitoring/README.md).", "",
            "No label names a user, a peer, a document or a statement. `database` has a value of its own for",
            "the first 100 databases; the greatest value of all others is `other`. A lag is the age of the",
            "oldest thing that is missing, so it is 0 while nothing is, however long nobody writes.",
            "Histograms of time have buckets from 1 ms to 10 s.", "",
            "| metric | kind | labels | of | meaning |", "|---|---|---|---|---|",
        ]
        for row in MetricRow.all {
            let labels = row.labels.map { "`\($0)`" }.joined(separator: ", ")
            let services = row.services.isEmpty ? "every process" : row.services.joined(separator: ", ")
            lines.append("| `\(row.name)` | \(row.kind.rawValue) | \(labels) | \(services) | \(row.help) |")
        }
        return lines.joined(separator: "\n") + "\n"
    }

    @Test("the page says what the table says")
    func reference() throws {
        if ProcessInfo.processInfo.environment["MIMEO_WRITE_REFERENCE"] != nil {
            try Self.written().write(to: Self.page, atomically: true, encoding: .utf8)
        }
        let text = try Self.read("Docs/metrics.md")
        #expect(
            text == Self.written(),
            "write it again: MIMEO_WRITE_REFERENCE=1 swift test --filter MetricTableTests")
    }

    @Test("names keep Prometheus' rules")
    func names() {
        let present = MetricRow.all.filter { !$0.help.hasPrefix("Former name") }
        for row in present {
            #expect(row.name.hasPrefix("mimeo_") || row.name.hasPrefix("process_"), "\(row.name)")
            #expect((row.kind == .counter) == row.name.hasSuffix("_total"), "\(row.name)")
            #expect(!row.name.contains("milli") && !row.name.hasSuffix("_count"), "\(row.name)")
            if row.kind == .histogram {
                #expect(row.name.hasSuffix("_seconds") || row.name.hasSuffix("_operations"), "\(row.name)")
            }
            #expect(row.labels.allSatisfy { !["user", "peer", "document", "statement"].contains($0) })
            #expect(row.help.hasSuffix("."), "\(row.name)")
        }
    }

    @Test("every metric of the alert rules and of the dashboard is in the table, with its labels")
    func monitoring() throws {
        for path in ["monitoring/rules.yml", "monitoring/dashboard.json"] {
            let text = try Self.read(path)
            var found: Set<String> = []
            for match in text.matches(of: /\b(?:mimeo|process)_[a-z0-9_]+/) {
                var name = String(match.output)
                for suffix in ["_bucket", "_sum", "_count"] where name.hasSuffix(suffix) {
                    let base = String(name.dropLast(suffix.count))
                    if MetricRow.all.contains(where: { $0.name == base && $0.kind == .histogram }) {
                        name = base
                    }
                }
                found.insert(name)
            }
            let known = Set(MetricRow.all.map(\.name))
            #expect(found.subtracting(known) == [], "\(path)")
            #expect(found.count > 10, "\(path)")
            let labels = Set(MetricRow.all.flatMap(\.labels)).union(["le", "instance", "job"])
            for match in text.matches(of: /by \(([a-z_, ]+)\)/) {
                for label in match.output.1.split(separator: ",") {
                    let label = label.trimmingCharacters(in: .whitespaces)
                    #expect(labels.contains(label), "\(path): \(label)")
                }
            }
        }
        let dashboard = try JSONText.parse(Array(try Self.read("monitoring/dashboard.json").utf8))
        #expect((dashboard["panels"]?.arrayValue ?? []).count >= 12)
    }

    @Test("what a process serves is in the table, with kind, labels and help")
    func served() {
        Measured.count("mimeo_admin_requests_total", [("role", "none"), ("result", "refused")])
        let lines = PrometheusRegistry.shared.text().split(separator: "\n")
        for line in lines where line.hasPrefix("# TYPE mimeo_") {
            let words = line.split(separator: " ").map(String.init)
            let row = MetricRow.all.first { $0.name == words[2] }
            #expect(row?.kind.rawValue == words[3], "\(words[2]) is not in the table")
        }
        #expect(lines.contains { $0.hasPrefix("# HELP mimeo_admin_requests_total Admin requests") })
    }
}
