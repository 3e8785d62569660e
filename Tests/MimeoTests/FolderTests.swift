import DittoSwift
import Foundation
import ServiceKit
import TestSupport
import Testing

@testable import Mimeo

@Suite("Folders and their configuration")
struct FolderTests {
    private func mode(_ url: URL) throws -> Int? {
        let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
        return (attributes[.posixPermissions] as? NSNumber)?.intValue
    }

    private func makeOpenFolder(_ url: URL) throws {
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        // Whatever the umask is.
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: url.path)
    }

    @Test("a store's directory is made for its owner only, one that exists stays as it is")
    func store() async throws {
        try await withTemporaryDirectory { directory in
            let made = directory.appendingPathComponent("a/b")
            let existing = directory.appendingPathComponent("c")
            try makeOpenFolder(existing)
            for store in [made.path + "/.", existing.path] { try await LocalRunner(store: store).close() }
            #expect(try mode(made) == 0o700)
            #expect(try mode(existing) == 0o755)
        }
    }

    @Test(
        "a server's data folder is made for its owner only; one that exists stays, with private folders in it"
    )
    func data() async throws {
        try await withTemporaryDirectory { directory in
            let made = directory.appendingPathComponent("a/b")
            let existing = directory.appendingPathComponent("c")
            try makeOpenFolder(existing)
            for data in [made.path, existing.path] { try await EmbeddedServer.run(data: data) { _ in } }
            #expect(try mode(made) == 0o700)
            for folder in [made, existing] {
                for name in ["auth", "replicator", "attachments", "system"] {
                    #expect(try mode(folder.appendingPathComponent(name)) == 0o700, "\(name)")
                }
                #expect(try mode(folder.appendingPathComponent("log.sqlite")) == 0o600)
            }
            #expect(try mode(existing) == 0o755)
        }
    }

    @Test("a setting that is no text is named", arguments: ["7", "null", "{}", "[\"x\"]", "true"])
    func settings(value: String) throws {
        try withTemporaryDirectory { directory in
            let file = directory.appendingPathComponent("config.json")
            try Data("{\"data\": \"d\", \"listen\": \(value)}".utf8).write(to: file)
            let options = try ServiceOptions.parse(["--config", file.path])
            let error = #expect(throws: ServiceError.self) {
                _ = try ServiceConfiguration(options, port: AllServices.defaultPort)
            }
            #expect(error?.code == .configurationInvalid)
            #expect(error?.message.hasSuffix("the value of 'listen' must be a string") == true)
        }
    }
}
