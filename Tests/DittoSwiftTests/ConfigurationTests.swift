import CRDT
import TestSupport
import Testing

@testable import DittoSwift

@Suite("Configurations")
struct ConfigurationTests {
    private let root = URL(fileURLWithPath: "/base", isDirectory: true)
    private let database = "f232511c-256b-4b69-8d28-90283bf715d2"

    private func directory(_ given: URL?) throws -> String {
        let config = DittoConfig(
            databaseID: database, connect: .smallPeersOnly(), persistenceDirectory: given)
        return try OpenedConfig(config, root: root).directory
    }

    private func code(_ config: DittoConfig) -> String? {
        do {
            _ = try OpenedConfig(config, root: root)
            return nil
        } catch { return error.code }
    }

    @Test("a configuration is written with the published keys")
    func keys() throws {
        let server = DittoConfig(
            databaseID: database, connect: .server(url: "https://a.example"),
            persistenceDirectory: URL(string: "MyApp/Data"))
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        #expect(
            String(decoding: try encoder.encode(server), as: UTF8.self)
                == #"{"connect":{"type":"server","url":"https://a.example"},"database_id":"\#(database)","#
                + #""experimental":{},"persistence_directory":"MyApp/Data"}"#)
        let small = DittoConfig(databaseID: database, connect: .smallPeersOnly(privateKey: "abc"))
        #expect(
            String(decoding: try encoder.encode(small), as: UTF8.self)
                == #"{"connect":{"private_key":"abc","type":"small_peers_only"},"#
                + #""database_id":"\#(database)","experimental":{}}"#)
    }

    @Test("what was written is read back")
    func roundTrip() throws {
        let text =
            #"{"database_id":"x","connect":{"type":"server","url":"http://h:1/p"},"#
            + #""persistence_directory":"a/b"}"#
        let config = try JSONDecoder().decode(DittoConfig.self, from: Data(text.utf8))
        #expect(config.databaseID == "x")
        #expect(config.persistenceDirectory?.relativeString == "a/b")
        guard case .server(let url) = config.connect else {
            Issue.record("not a server connection")
            return
        }
        #expect(url.absoluteString == "http://h:1/p")
    }

    @Test("JSON and CBOR have the same members, and give back what was written")
    func coding() throws {
        let configs = [
            DittoConfig(
                databaseID: database, connect: .server(url: "https://a.example/p?q"),
                persistenceDirectory: URL(string: "MyApp/Data")),
            DittoConfig(
                databaseID: database, connect: .smallPeersOnly(privateKey: "abc"),
                persistenceDirectory: URL(fileURLWithPath: "/data/x")),
            DittoConfig(databaseID: database, connect: .smallPeersOnly()), .default,
        ]
        for config in configs {
            let json = try config.jsonData()
            let cbor = try config.cborData()
            #expect(try CBOR.decode([UInt8](cbor)) == JSONText.parse([UInt8](json)))
            #expect(try DittoConfig(jsonData: json).jsonData() == json)
            #expect(try DittoConfig(cborData: cbor).jsonData() == json)
        }
    }

    @Test("the default configuration has a constant database and no server")
    func defaultConfiguration() throws {
        #expect(DittoConfig.default.databaseID == DittoConfig.default.databaseID)
        #expect(try OpenedConfig(.default, root: root).server == nil)
    }

    @Test("persistence directories are absolute, below the root, or named after the database")
    func directories() throws {
        #expect(try directory(nil) == "/base/ditto-\(database)")
        #expect(try directory(URL(string: "/app/data")) == "/app/data")
        #expect(try directory(URL(fileURLWithPath: "/app/data")) == "/app/data")
        #expect(try directory(URL(string: "MyApp/Data")) == "/base/MyApp/Data")
        #expect(try directory(URL(string: "../other")) == "/other")
        #expect(try directory(URL(fileURLWithPath: "/with blank")) == "/with blank")
    }

    @Test("a server URL may be a URL, an optional one or text, and leads to both endpoints")
    func serverURLs() throws {
        for connect: DittoConfigConnect in [
            .server(url: "https://h.example:8443/base/"),
            .server(url: URL(string: "https://h.example:8443/base")),
            .server(url: URL(string: "https://h.example:8443/base")!),
        ] {
            let opened = try OpenedConfig(DittoConfig(databaseID: database, connect: connect), root: root)
            #expect(opened.server?.login.absoluteString == "https://h.example:8443/base/_ditto/auth/login")
            #expect(opened.server?.sync.absoluteString == "wss://h.example:8443/base/_ditto/sync")
        }
        #expect(try ServerAddresses(URL(string: "http://h")!).sync.absoluteString == "ws://h/_ditto/sync")
    }

    @Test(
        "database ids are 1 to 128 letters, digits, - and _",
        arguments: ["", "a/b", "ä", "a b", String(repeating: "a", count: 129)])
    func databaseIDs(id: String) {
        #expect(code(DittoConfig(databaseID: id, connect: .smallPeersOnly())) == "SDK-0101")
    }

    @Test(
        "a server URL needs http or https and a host",
        arguments: [
            "", "REPLACE_ME_WITH_YOUR_URL", "ftp://h", "http://", "https:///path", "ws://h", "not a url",
        ])
    func badServers(url: String) {
        #expect(code(DittoConfig(databaseID: database, connect: .server(url: url))) == "SDK-0102")
    }

    @Test("a private key is base64 of a P-256 key", arguments: ["", "abc", "AAAA"])
    func badKeys(key: String) {
        #expect(
            code(DittoConfig(databaseID: database, connect: .smallPeersOnly(privateKey: key))) == "SDK-0103")
    }

    @Test("a persistence directory is a path", arguments: ["https://h/path", "//host/path"])
    func badDirectories(url: String) {
        let config = DittoConfig(
            databaseID: database, connect: .smallPeersOnly(), persistenceDirectory: URL(string: url))
        #expect(code(config) == "SDK-0104")
    }

    @Test("an unusable configuration is a validation error, whichever way it is opened")
    func publicError() async throws {
        let config = DittoConfig(databaseID: "", connect: .smallPeersOnly())
        await #expect { try await Ditto.openAlone(config: config) } throws: { error in
            if case DittoSwiftError.validationError(.invalidDittoConfig) = error { true } else { false }
        }
        #expect { try Ditto.openSync(config: config) } throws: { error in
            (error as? DittoSwiftError)?.errorDescription?.hasPrefix("SDK-0101: ") == true
        }
    }

    @Test("a directory that cannot be made is a validation error")
    func unusableDirectory() throws {
        var config = DittoConfig.default
        config.persistenceDirectory = URL(string: "/proc/none/such")
        #expect { try Ditto.openSync(config: config) } throws: { error in
            if case DittoSwiftError.validationError(.invalidDittoConfig) = error { true } else { false }
        }
    }

    @Test("a private key is not shown")
    func redaction() async throws {
        try await withTemporaryDirectory { directory in
            var config = DittoConfig.default
            config.persistenceDirectory = directory
            config.connect = .smallPeersOnly(privateKey: sharedKey)
            let ditto = try await Ditto.openAlone(config: config)
            guard case .smallPeersOnly(let shown) = ditto.config.connect else {
                Issue.record("another connection than was asked for")
                return
            }
            #expect(shown == "[REDACTED]")
            await ditto.close()
        }
    }

    /// A P-256 key made for this test.
    private let sharedKey =
        "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQggh0hf+g7Goz/qFMyjNYoZMQeWqZiteNb"
        + "dmsgrITuugehRANCAAT51HjMOzlnsOC7hVhpVq4mM36OTOwTFeAbx245JuwZSWoIrtJ84g+ggFifdiGi"
        + "y5ciuZNoHxquSgrqxRLdrLi3"
}
