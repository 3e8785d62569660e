import DittoObjC
import DittoSwift
import Foundation
import Mimeo
import TestSupport
import Testing

@Suite("Starting an application of 4.x", .timeLimit(.minutes(5)))
struct StartTests {
    private struct Delegate: DittoAuthenticationDelegate {
        let called: Gathered<String>
        let token: String
        let provider: String

        func authenticationRequired(authenticator: DittoAuthenticator) {
            called.add("required")
            authenticator.loginWithToken(token, provider: provider) { [called] error in
                called.add(error == nil ? "logged in" : "refused")
            }
        }

        func authenticationExpiringSoon(authenticator: DittoAuthenticator, secondsRemaining: Int64) {
            called.add("expiring")
        }
    }

    private static let key =
        "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQggh0hf+g7Goz/qFMyjNYoZMQeWqZiteNbdmsgrITuugeh"
        + "RANCAAT51HjMOzlnsOC7hVhpVq4mM36OTOwTFeAbx245JuwZSWoIrtJ84g+ggFifdiGiy5ciuZNoHxquSgrqxRLdrLi3"

    @Test("an identity without a server opens a store, with any text as its id")
    func offline() async throws {
        try await withTemporaryDirectory { directory in
            let identities: [(DittoIdentity, String)] = [
                (.offlinePlayground(), "00000000-0000-4000-8000-000000000000"),
                (.offlinePlayground(appID: "live.ditto.cars", siteID: 5), "live.ditto.cars"),
                (.sharedKey(appID: "cars", sharedKey: Self.key, siteID: 5), "cars"),
                (.development(appID: "a b"), "a b"), (.development(appName: ""), ""),
            ]
            for (number, (identity, id)) in identities.enumerated() {
                let ditto = Ditto(
                    identity: identity, persistenceDirectory: directory.appendingPathComponent("\(number)"))
                #expect(ditto.appID == id && ditto.auth == nil && !ditto.isSyncActive && ditto.activated)
                #expect(ditto.persistenceDirectory == ditto.absolutePersistenceDirectory)
                try ditto.store["c"].upsert(["_id": 1])
                #expect(ditto.store["c"].findAll().exec().count == 1)
                #expect(
                    ditto.siteID != 0
                        && ditto.sdkVersion.dropFirst(4).split(separator: "_")[0] == Ditto.version)
                try ditto.disableSyncWithV3()
                try ditto.setLicenseToken("any")
                ditto.setAccessLicense("any")
                await ditto.close()
            }
        }
    }

    @Test("the folder is ditto, below the root")
    func folder() async throws {
        let ditto = Ditto(identity: .manual(certificateConfig: "-----BEGIN DITTO IDENTITY-----"))
        #expect(
            ditto.persistenceDirectory.standardized.path == Ditto.defaultRootDirectory.standardized.path
                + "/ditto")
    }

    @Test("identities are matched by their payloads in order")
    func patterns() {
        func name(_ identity: DittoIdentity) -> String {
            switch identity {
            case .offlinePlayground(let id, let site): "\(id ?? "") \(site ?? 0)"
            case .onlinePlayground(let id, let token, let usesCloud, let url):
                "\(id) \(token) \(usesCloud) \(url?.host ?? "")"
            case .onlineWithAuthentication(let id, _, let usesCloud, _): "\(id) \(usesCloud)"
            case .sharedKey(let id, let key, _): "\(id) \(key)"
            case .manual(let config): config
            }
        }
        #expect(name(.offlinePlayground(appID: "a")) == "a 0")
        #expect(
            name(.onlinePlayground(appID: "a", token: "t", customAuthURL: URL(string: "http://h")))
                == "a t true h")
        #expect(name(.sharedKey(appID: "a", sharedKey: "k")) == "a k")
        #expect(name(.manual(certificateConfig: "m")) == "m")
    }

    @Test("an instance that cannot be opened says why at the first call that throws; before, nothing happens")
    func failures() async throws {
        try await withTemporaryDirectory { directory in
            func failure(_ identity: DittoIdentity, in folder: URL) async -> (String, String) {
                let ditto = Ditto(identity: identity, persistenceDirectory: folder)
                #expect(ditto.store["c"].findAll().exec().isEmpty && ditto.store.collectionNames().isEmpty)
                let query = ditto.store["c"].findAll().observeLocal { _, _ in Issue.record("called") }
                let subscription = ditto.store["c"].findAll().subscribe()
                #expect(ditto.store.write { _ in Issue.record("called") }.isEmpty)
                #expect(ditto.store["c"].findByID(1).update { _ in Issue.record("called") }.isEmpty)
                #expect(ditto.store["c"].newAttachment(path: "/dev/null") == nil)
                ditto.stopSync()
                query.stop()
                subscription.cancel()
                let thrown = caught { try ditto.startSync() }
                let written = caught { try ditto.store["c"].upsert(["a": 1]) }
                #expect(thrown?.code == written?.code && !ditto.isSyncActive)
                _ = (ditto.presence.graph, ditto.diskUsage.exec, ditto.smallPeerInfo.metadata)
                await ditto.close()
                return (thrown?.name ?? "", thrown?.code ?? "")
            }
            let open = Ditto(persistenceDirectory: directory)
            let log = await ErrorLog.during {
                #expect(
                    await failure(.offlinePlayground(), in: directory) == (
                        "storeError.persistenceDirectoryLocked", "STORE-0101"
                    ))
            }
            #expect(log.contains { $0.contains("cannot be opened") && $0.contains("STORE-0101") })
            let other = directory.appendingPathComponent("other")
            let delegate = Delegate(called: Gathered(), token: "", provider: "")
            #expect(
                await failure(.manual(certificateConfig: "x"), in: other) == ("unsupportedError", "SDK-0108"))
            #expect(
                await failure(.sharedKey(appID: "a", sharedKey: "no key"), in: other) == (
                    "validationError.invalidDittoConfig", "SDK-0103"
                ))
            #expect(
                await failure(
                    .onlinePlayground(appID: "a b", token: "t", customAuthURL: URL(string: "http://h")),
                    in: other) == ("validationError.invalidDittoConfig", "SDK-0101"))
            let withoutServer: [DittoIdentity] = [
                .onlineWithAuthentication(appID: "a", authenticationDelegate: delegate),
                .onlineWithAuthentication(
                    appID: "a", authenticationDelegate: delegate, enableDittoCloudSync: false),
                .onlinePlayground(appID: "a", token: "t"),
                .onlinePlayground(appID: "a", token: "t", enableDittoCloudSync: false),
            ]
            for identity in withoutServer {
                #expect(
                    await failure(identity, in: other) == ("validationError.invalidDittoConfig", "SDK-0102"))
            }
            #expect(
                await failure(
                    .onlinePlayground(appID: "a", token: "t", customAuthURL: URL(string: "ftp://h")),
                    in: other) == ("validationError.invalidDittoConfig", "SDK-0102"))
            #expect(
                await failure(.offlinePlayground(), in: URL(fileURLWithPath: "/dev/null/x")) == (
                    "validationError.invalidDittoConfig", "STORE-0102"
                ))
            try open.store["c"].upsert(["a": 1])
            await open.close()
        }
    }

    @Test("a peer without a server starts to sync with small peers, by any of the names for it")
    func offlineSync() async throws {
        try await withLegacyStore { ditto in
            try ditto.startSync()
            #expect(ditto.isSyncActive)
            ditto.stopSync()
            try ditto.tryStartSync()
            #expect(ditto.isSyncActive && ditto.sync.isActive)
        }
    }

    @Test("two peers without a server find each other, though nobody has configured any transport")
    func nearby() async throws {
        try await withTemporaryDirectory { directory in
            let id = UUID().uuidString
            let peers = ["a", "b"].map { name in
                Ditto(
                    identity: .offlinePlayground(appID: id),
                    persistenceDirectory: directory.appendingPathComponent(name))
            }
            let subscription = peers[1].store["cars"].findAll().subscribe()
            for ditto in peers { try ditto.startSync() }
            try peers[0].store["cars"].upsert(["_id": "x"])
            #expect(await eventually { peers[1].store["cars"].findAll().exec().map(\.id) == ["x"] })
            subscription.cancel()
            for ditto in peers { await ditto.close() }
        }
    }

    @Test("a login with a name and a password is sent to the provider, and tells no password")
    func credentials() async throws {
        try await withTemporaryDirectory { directory in
            let ditto = Ditto(
                identity: .onlinePlayground(
                    appID: "a", token: "t", customAuthURL: URL(string: "http://127.0.0.1:9")),
                persistenceDirectory: directory)
            let errors = Gathered<String>()
            ditto.auth?.loginWithCredentials(username: "u", password: "p", provider: "mine") {
                errors.add($0?.errorDescription ?? "none")
            }
            let found = await errors.wait { !$0.isEmpty }
            #expect(found.first?.contains("SDK-0303") == true && found.first?.contains("p'") == false)
            await ditto.close()
        }
    }

    @Test("the playground's token and a delegate's login connect with a server; a delegate may be a struct")
    func online() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let url = try #require(URL(string: server.url))
                let called = Gathered<String>()
                let a = Ditto.alone(
                    .onlinePlayground(
                        appID: server.databaseID, token: server.token, enableDittoCloudSync: false,
                        customAuthURL: url),
                    in: directory.appendingPathComponent("a"))
                let b = Ditto.alone(
                    .onlineWithAuthentication(
                        appID: server.databaseID,
                        authenticationDelegate: Delegate(
                            called: called, token: server.token, provider: "__playgroundProvider"),
                        customAuthURL: url),
                    in: directory.appendingPathComponent("b"))
                a.updateTransportConfig { $0.connect.websocketURLs.insert("wss://example.org") }
                let conditions = Gathered<String>()
                let watcher = Watcher(conditions)
                b.delegateEventQueue = DispatchQueue(label: "test.delegate")
                b.delegate = watcher
                #expect(b.delegate === watcher)
                try a.startSync()
                try b.startSync()
                #expect(a.isSyncActive && b.isSyncActive)
                let subscription = b.store["cars"].find("color == 'red'").subscribe()
                try a.store["cars"].upsert(["_id": "x", "color": "red"])
                try a.store["cars"].upsert(["_id": "y", "color": "blue"])
                #expect(await eventually { b.store["cars"].findAll().exec().map(\.id) == ["x"] })
                #expect(called.all.prefix(2) == ["required", "logged in"])
                #expect(await conditions.wait { !$0.isEmpty } == ["Ok Tcp"])
                subscription.cancel()
                // A logout ends sync, keeps documents, and lets the closure evict.
                b.auth?.logout(cleanup: { ditto in
                    ditto.store.collection("cars").findAll().evict()
                })
                #expect(b.store["cars"].findAll().exec().isEmpty && !b.isSyncActive)
                #expect(b.auth?.status.isAuthenticated == false)
                #expect(a.store["cars"].findAll().exec().count == 2)
                a.stopSync()
                #expect(!a.isSyncActive)
                await a.close()
                await b.close()
            }
        }
    }

    private final class Watcher: DittoDelegate {
        private let seen: Gathered<String>
        init(_ seen: Gathered<String>) { self.seen = seen }

        func dittoTransportConditionDidChange(
            ditto: Ditto, condition: DittoTransportCondition, subsystem: DittoConditionSource
        ) { seen.add("\(condition) \(subsystem)") }
    }

    @Test("peers and transports are observed by thin fronts, and the log goes to a file too")
    func others() async throws {
        try await withLegacyStore { ditto in
            let seen = Gathered<String>()
            let peers = ditto.observePeers { seen.add("\($0.count) peers") }
            let transports = ditto.observeTransportDiagnostics {
                seen.add("\(($0 as? [[String: Any?]])?.isEmpty == false)")
            }
            let found = await seen.wait { $0.count == 2 }
            #expect(Set(found) == ["0 peers", "true"])
            peers.stop()
            transports.stop()
            ditto.setTransportConfig(config: DittoTransportConfig())
            let file = ditto.persistenceDirectory.appendingPathComponent("extra.log")
            DittoLogger.setLogFileURL(file)
            _ = ditto.store["extra"].find("wrong ==").exec()
            #expect(
                await eventually {
                    (try? String(contentsOf: file, encoding: .utf8))?.contains("error exec failed") == true
                })
            DittoLogger.setLogFile(nil)
            DittoLogger.emojiLogLevelHeadingsEnabled = true
            #expect(DittoLogger.emojiLogLevelHeadingsEnabled)
        }
    }
}
