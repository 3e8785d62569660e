import Foundation
import OperationLog
import Testing

@testable import Postgres

@Suite("The log in PostgreSQL over TLS", .serialized, .enabled(if: TestDatabase.serverURL != nil))
struct TLSTests {
    /// Runs the body beside a server with a certificate of its own that takes nothing but TLS.
    /// - Parameter wantsClients: true to take clients with a certificate by the server's own only, whose
    ///   key the body gets.
    private func withServer(
        wantsClients: Bool = false,
        _ body: (_ url: (String) -> String, _ certificate: String, _ key: String) async throws -> Void
    ) async throws {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../scripts/tls-postgres").standardizedFileURL
        let (input, output) = (Pipe(), Pipe())
        let process = Process()
        process.executableURL = script
        process.arguments = wantsClients ? ["--client-certificates"] : []
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        defer {
            try? input.fileHandleForWriting.close()
            process.waitUntilExit()
        }
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        let parts = line.split(whereSeparator: \.isWhitespace)
        try #require(parts.count == (wantsClients ? 3 : 2), "the server did not start")
        let base = "postgres://postgres@localhost:\(parts[0])/postgres?hostaddr=127.0.0.1"
        try await body({ "\(base)&\($0)" }, String(parts[1]), String(parts[parts.count - 1]))
    }

    @Test("sslmode is kept: a server that proves who it is is used, encrypted; anything else is refused")
    func modes() async throws {
        try await withServer { url, certificate, _ in
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

    @Test("a client certificate that has ended, and one by another authority, are refused with the reason")
    func clientCertificates() async throws {
        try await withServer(wantsClients: true) { url, authority, key in
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let at = { (name: String) in folder.appendingPathComponent(name).path }
            try openssl(
                "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=postgres", "-keyout", at("key"), "-out",
                at("csr"))
            for (name, days) in [("good", "2"), ("ended", "-1")] {
                try openssl(
                    "x509", "-req", "-in", at("csr"), "-CA", authority, "-CAkey", key, "-set_serial", "7",
                    "-days", days, "-out", at(name))
            }
            try openssl(
                "x509", "-req", "-in", at("csr"), "-signkey", at("key"), "-days", "2", "-out", at("foreign"))
            let proven = "sslmode=verify-full&sslrootcert=\(authority)"
            func with(_ name: String) -> String {
                url("\(proven)&sslcert=\(at(name))&sslkey=\(at("key"))")
            }
            await (try PostgresOperationLog(url: with("good"), logger: quiet)).close()
            let refusals: [(url: String, code: OperationLogErrorCode, reason: String)] = [
                (with("ended"), .unreachable, "certificate expired"),
                (with("foreign"), .unreachable, "unknown ca"),
                (url(proven), .cannotOpen, "requires a valid client certificate"),
            ]
            for refused in refusals {
                let error = #expect(throws: OperationLogError.self) {
                    try PostgresOperationLog(url: refused.url, logger: quiet)
                }
                #expect(
                    error?.code == refused.code && error?.message.contains(refused.reason) == true, "\(error)"
                )
            }
        }
    }

    /// The path of a certificate that did not sign the server's.
    private func foreignCertificate() throws -> String {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).pem")
            .path
        try openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=other", "-keyout",
            "/dev/null", "-out", path)
        return path
    }

    private func openssl(_ arguments: String...) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
    }
}
