import Testing

@testable import ServiceKit

@Suite("The version of the programs")
struct BuildVersionTests {
    @Test("the version tells the commit if the build knows it")
    func text() {
        #expect(BuildVersion.text("1.2.3", "") == "1.2.3")
        #expect(BuildVersion.text("1.2.3", "0123456789abcdef0123") == "1.2.3 (commit 0123456789ab)")
    }

    @Test("health and metrics tell the version")
    func told() async throws {
        try await serving([TestPart()]) { address in
            let health = try await ask(address, "/health")
            #expect(health.body.contains(#""version":"\#(BuildVersion.number)""#))
            let metrics = try await ask(address, "/metrics")
            let lines = metrics.body.split(separator: "\n").filter { $0.hasPrefix("mimeo_build_info{") }
            #expect(lines.count == 1 && lines[0].contains(#"version="\#(BuildVersion.number)""#))
        }
    }
}
