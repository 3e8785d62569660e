import Foundation
import OperationLog
import Testing

@testable import Postgres

@Suite("The log in PostgreSQL over TLS", .serialized, .enabled(if: TestDatabase.serverURL != nil))
struct TLSTests {
    /// Runs the body beside a server with a certificate of its own that takes nothing but TLS.
    private func withServer(_ body: (_ url: (String) -> String, _ certificate: String) async throws -> Void)
        async throws
    {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../scripts/tls-postgres").standardizedFileURL
        let (input, output) = (Pipe(), Pipe())
        let process = Process()
        process.executableURL = script
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        defer {
            try? input.fileHandleForWriting.close()
            process.waitUntilExit()
        }
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        let parts = line.split(whereSeparator: \.isWhitespace)
        try #require(parts.count == 2, "the server did not start")
        let base = "postgres://postgres@localhost:\(parts[0])/postgres?hostaddr=127.0.0.1"
        try await body({ "\(base)&\($0)" }, String(parts[1]))
    }

    @Test("sslmode is kept: a server that proves who it is is used, encrypted; anything else is refused")
    func modes() async throws {
        try await withServer { url, certificate in
            let proven = url("sslmode=verify-full&sslrootcert=\(certificate)")
            let connection = try Connection(url: proven)
            let isEncrypted = try connection.query(
                "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            ).bool(0, 0)
            #expect(isEncrypted)
            let log = try PostgresOperationLog(url: proven, logger: quiet)
            try await log.createDatabase("db")
            #expect(try await log.append([record(1, 1)], to: "db") == [.appended(offset: 1)])
            #expect(try await log.read("db", after: 0).count == 1)
            await log.close()
            let other = try foreignCertificate()
            defer { try? FileManager.default.removeItem(atPath: other) }
            // To libpq a server that proves to be another one does not answer at all.
            let refusals: [(mode: String, code: OperationLogErrorCode)] = [
                ("sslmode=disable", .cannotOpen), ("sslmode=verify-full&sslrootcert=\(other)", .unreachable),
            ]
            for (refused, code) in refusals {
                let error = #expect(throws: OperationLogError.self) {
                    try PostgresOperationLog(url: url(refused), logger: quiet)
                }
                #expect(error?.code == code, "\(refused)")
            }
        }
    }

    /// The path of a certificate that did not sign the server's.
    private func foreignCertificate() throws -> String {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).pem")
            .path
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=other",
            "-keyout", "/dev/null", "-out", path,
        ]
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        return path
    }
}
