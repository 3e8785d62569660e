import AsyncHTTPClient
import CRDT
import Foundation
import Identity
import Mimeo
import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import DittoSwift

@Suite("Logging in", .timeLimit(.minutes(5)))
struct LoginTests {
    /// A server connection in this directory.
    private func config(_ server: EmbeddedServer, _ directory: URL, _ name: String = "peer") -> DittoConfig {
        DittoConfig(
            databaseID: server.databaseID, connect: .server(url: server.url),
            persistenceDirectory: directory.appendingPathComponent(name))
    }

    private func withServer(_ body: @escaping @Sendable (EmbeddedServer, URL) async throws -> Void)
        async throws
    {
        try await withTemporaryDirectory { directory in
            let data = directory.appendingPathComponent("server").path
            try await EmbeddedServer.run(data: data) { try await body($0, directory) }
        }
    }

    @Test("the right token logs in, a wrong one is refused with the server's code")
    func rightAndWrong() async throws {
        try await withServer { server, directory in
            let ditto = try await Ditto.openAlone(config: config(server, directory))
            let auth = try #require(ditto.auth)
            let statuses = Collected<DittoAuthenticationStatus>()
            let observer = auth.observeStatus { statuses.add($0) }
            await #expect { try await auth.login(token: "wrong", provider: .development) } throws: { error in
                guard case DittoSwiftError.authenticationError(.failedToAuthenticate(let message)) = error
                else {
                    return false
                }
                return message.hasPrefix("AUTH-0404: ")
            }
            #expect(!auth.status.isAuthenticated)
            #expect(try await auth.login(token: server.token, provider: .development) == "{}")
            #expect(auth.status == DittoAuthenticationStatus(isAuthenticated: true, userID: "development"))
            auth.logout()
            #expect(auth.status == DittoAuthenticationStatus(isAuthenticated: false, userID: nil))
            #expect(await statuses.wait { $0.count == 2 }.map(\.isAuthenticated) == [true, false])
            observer.stop()
            await ditto.close()
        }
    }

    @Test("a login that is broken off is no failure, and hides none")
    func cancelled() async throws {
        try await withServer { server, directory in
            let ditto = try await Ditto.openAlone(config: config(server, directory))
            let auth = try #require(ditto.auth)
            await #expect(throws: DittoSwiftError.self) {
                try await auth.login(token: "wrong", provider: .development)
            }
            let login = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return try await auth.login(token: server.token, provider: .development)
            }
            await #expect(throws: CancellationError.self) { try await login.value }
            #expect(auth.lastFailure?.code == "AUTH-0404")
            await ditto.close()
        }
    }

    @Test("closures get the provider's information or the error; names of 4.x work")
    func completions() async throws {
        try await withServer { server, directory in
            let ditto = try await Ditto.openAlone(config: config(server, directory))
            let outcomes = Collected<String>()
            ditto.auth?.login(token: server.token, provider: .development) { info, error in
                outcomes.add("\(info ?? "-") \(error == nil)")
            }
            ditto.auth?.login(token: server.token, provider: "__playgroundProvider") { info, error in
                outcomes.add("\(info ?? "-") \(error == nil)")
            }
            ditto.auth?.login(token: "no", provider: "unknown") { info, error in
                outcomes.add("\(info ?? "-") \(error == nil)")
            }
            #expect(await outcomes.wait { $0.count == 3 }.sorted() == ["- false", "{} true", "{} true"])
            await ditto.close()
        }
    }

    @Test("sync without a handler does not start")
    func handlerMissing() async throws {
        try await withServer { server, directory in
            let ditto = try await Ditto.openAlone(config: config(server, directory))
            #expect { try ditto.sync.start() } throws: { error in
                guard case DittoSwiftError.authenticationError(.expirationHandlerMissing) = error else {
                    return false
                }
                return true
            }
            #expect(!ditto.sync.isActive)
            await ditto.close()
        }
    }

    @Test("the handler is asked with 0 when a login is needed, and again after one that failed")
    func handlerIsAsked() async throws {
        try await withServer { server, directory in
            let ditto = try await Ditto.openAlone(config: config(server, directory))
            let asked = Collected<TimeInterval>()
            ditto.auth?.expirationHandler = { ditto, secondsRemaining in
                asked.add(secondsRemaining)
                let token = asked.all.count == 1 ? "wrong" : server.token
                _ = try? await ditto.auth?.login(token: token, provider: .development)
            }
            try ditto.sync.start()
            #expect(await eventually { ditto.sync.status.text == "connected" })
            #expect(asked.all == [0, 0])
            await ditto.close()
        }
    }

    @Test("a session outlives a restart, without another login")
    func restart() async throws {
        try await withServer { server, directory in
            let first = try await Ditto.openAlone(config: config(server, directory))
            try await first.auth?.login(token: server.token, provider: .development)
            await first.close()
            let second = try await Ditto.openAlone(config: config(server, directory))
            #expect(second.auth?.status.isAuthenticated == true)
            let asked = Collected<TimeInterval>()
            second.auth?.expirationHandler = { _, seconds in asked.add(seconds) }
            try second.sync.start()
            #expect(await eventually { second.sync.status.text == "connected" })
            #expect(asked.all.isEmpty)
            await second.close()
        }
    }

    /// Leaves a session behind that was changed by hand.
    private func leaveSession(
        _ server: EmbeddedServer, _ directory: URL, _ change: (inout StoredSession) -> Void
    ) async throws {
        let ditto = try await Ditto.openAlone(config: config(server, directory))
        try await ditto.auth?.login(token: server.token, provider: .development)
        await ditto.close()
        let files = IdentityFiles(directory: ditto.absolutePersistenceDirectory.path)
        var session = try #require(files.session())
        change(&session)
        try files.save(session)
    }

    @Test("a session that is about to end is renewed while sync goes on")
    func renewed() async throws {
        try await withServer { server, directory in
            try await leaveSession(server, directory) { session in
                session.startedAt -= 100
                session.expiresAt = Date().timeIntervalSince1970 + 50
            }
            let ditto = try await Ditto.openAlone(config: config(server, directory))
            let asked = Collected<TimeInterval>()
            ditto.auth?.expirationHandler = { ditto, secondsRemaining in
                asked.add(secondsRemaining)
                _ = try? await ditto.auth?.login(token: server.token, provider: .development)
            }
            try ditto.sync.start()
            let first = try #require(await asked.wait { !$0.isEmpty }.first)
            #expect(first > 0 && first <= 50)
            let files = IdentityFiles(directory: ditto.absolutePersistenceDirectory.path)
            #expect(
                await eventually { (files.session()?.expiresAt ?? 0) > Date().timeIntervalSince1970 + 60 })
            #expect(await eventually { ditto.sync.status.text == "connected" })
            await ditto.close()
        }
    }

    @Test("a login while sync goes on is taken by the session that runs")
    func loginWhileSyncing() async throws {
        try await withServer { server, directory in
            let writer = try await Ditto.openAlone(config: config(server, directory, "writer"))
            try await writer.auth?.login(token: server.token, provider: .development)
            writer.auth?.expirationHandler = { _, _ in }
            try writer.sync.start()
            try await writer.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(await writer.sync.waitForAcknowledgement(of: 1, timeout: .seconds(30)))

            // A session that lasts for an hour, and reads nothing.
            let token = try await token(server, directory, .nothing)
            try await leaveSession(server, directory) { $0.accessToken = token }
            let reader = try await Ditto.openAlone(config: config(server, directory))
            reader.auth?.expirationHandler = { _, _ in }
            try reader.sync.registerSubscription(query: "SELECT * FROM c")
            try reader.sync.start()
            #expect(await eventually { reader.sync.status.problems["SELECT * FROM c"]?.code == "SYNC-0302" })
            try await reader.auth?.login(token: server.token, provider: .development)
            #expect(
                try await eventually {
                    try await reader.store.execute(query: "SELECT * FROM c").items.count == 1
                })
            #expect(reader.sync.status.text == "connected")
            // The refusal is over with the rights for which it was one.
            #expect(await eventually { reader.sync.status.problems.isEmpty })
            await reader.close()
            await writer.close()
        }
    }

    @Test("a refusal goes with the last subscription of its query")
    func cancelledRefusal() async throws {
        try await withServer { server, directory in
            let token = try await token(server, directory, .nothing)
            try await leaveSession(server, directory) { $0.accessToken = token }
            let reader = try await Ditto.openAlone(config: config(server, directory))
            reader.auth?.expirationHandler = { _, _ in }
            let twice = try (1...2).map { _ in try reader.sync.registerSubscription(query: "SELECT * FROM c")
            }
            let other = try reader.sync.registerSubscription(query: "SELECT * FROM d")
            try reader.sync.start()
            #expect(await eventually { reader.sync.status.problems.count == 2 })
            twice[0].cancel()
            #expect(reader.sync.status.problems.count == 2)
            twice[1].cancel()
            #expect(Array(reader.sync.status.problems.keys) == ["SELECT * FROM d"])
            other.cancel()
            await reader.close()
        }
    }

    @Test("a commit that may not be written is named, and the next one is synced")
    func refusedCommit() async throws {
        try await withServer { server, directory in
            let rules = AccessRules(queriesByCollection: ["boats": ["true"]])
            let token = try await token(server, directory, Grant(read: .everything, write: rules))
            try await leaveSession(server, directory) { $0.accessToken = token }
            let ditto = try await Ditto.openAlone(config: config(server, directory))
            ditto.auth?.expirationHandler = { _, _ in }
            try await ditto.store.execute(query: "INSERT INTO boats DOCUMENTS ({'_id': 1})")
            try await ditto.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 1})")
            let last = try await ditto.store.execute(query: "INSERT INTO boats DOCUMENTS ({'_id': 2})")
            try ditto.sync.start()
            let commit = try #require(last.commitID)
            #expect(await ditto.sync.waitForAcknowledgement(of: commit, timeout: .seconds(30)))
            let refused = try ditto.sync.refusedCommits()
            #expect(refused.map(\.commitID) == [2])
            #expect(refused.map(\.code) == ["SYNC-0401"])
            #expect(try ditto.sync.refusedCommits(from: 3).isEmpty)
            #expect(try ditto.sync.latestRefusedCommits() == refused)
            let row = try await ditto.store.execute(
                query: """
                    SELECT documents.synced_up_to_local_commit_id AS synced,
                    documents.refused_local_commit_ids AS refused FROM system:data_sync_info
                    """)
            let values = try #require(row.items.first?.value)
            #expect((values["synced"] as? Int).map { $0 >= commit } ?? false)
            #expect(values["refused"] as? [Int] == [2])
            await ditto.close()
        }
    }

    /// A token of the server's, for the store "peer", that lasts for an hour: of a provider that gives this
    /// right, made as an operator makes one.
    private func token(
        _ server: EmbeddedServer, _ directory: URL, _ grant: Grant
    ) async throws -> String {
        let ditto = try await Ditto.openAlone(config: config(server, directory))
        let peerKey = try #require(ditto.auth?.peerKey)
        await ditto.close()
        let found = FileManager.default.enumerator(at: directory, includingPropertiesForKeys: nil)
        let file = try #require(
            found?.compactMap { $0 as? URL }.first { $0.lastPathComponent == "admin.token" })
        let credential = try String(contentsOf: file, encoding: .utf8).trimmingCharacters(
            in: .whitespacesAndNewlines)
        let name = "hand-made-\(UUID().uuidString)"
        let permissions = try JSONText.parse(Array(try JSONEncoder().encode(grant)))
        _ = try await post(
            server, "/admin/auth/databases/\(server.databaseID)/providers", credential,
            [
                "name": .string(name),
                "anonymous": [
                    "sharedToken": "0123456789abcdef", "sessionLength": 3600, "permissions": permissions,
                ],
            ])
        let answer = try await post(
            server, "/_ditto/auth/login", nil,
            [
                "databaseID": .string(server.databaseID), "provider": .string(name),
                "token": "0123456789abcdef", "peerKey": .string(peerKey),
            ])
        return try #require(answer["accessToken"]?.stringValue)
    }

    private func post(
        _ server: EmbeddedServer, _ path: String, _ credential: String?, _ body: Value
    ) async throws -> Value {
        var request = HTTPClientRequest(url: server.url + path)
        request.method = .POST
        if let credential { request.headers.add(name: "Authorization", value: "Bearer \(credential)") }
        request.body = .bytes(Array(JSONText.print(body).utf8))
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
        return try JSONText.parse(Array(buffer: try await response.body.collect(upTo: 1_000_000)))
    }

    @Test("a token that the server does not take is forgotten, and a login asked for")
    func refusedToken() async throws {
        try await withServer { server, directory in
            try await leaveSession(server, directory) { $0.accessToken = "nonsense" }
            let ditto = try await Ditto.openAlone(config: config(server, directory))
            let asked = Collected<TimeInterval>()
            ditto.auth?.expirationHandler = { ditto, secondsRemaining in
                asked.add(secondsRemaining)
                _ = try? await ditto.auth?.login(token: server.token, provider: .development)
            }
            try ditto.sync.start()
            #expect(await eventually { ditto.sync.status.text == "connected" })
            #expect(asked.all == [0])
            await ditto.close()
        }
    }

    @Test("a session that was copied from another store opens nothing here: a login is asked for")
    func copiedSession() async throws {
        try await withServer { server, directory in
            let other = try await Ditto.openAlone(config: config(server, directory, "other"))
            try await other.auth?.login(token: server.token, provider: .development)
            await other.close()
            let files = IdentityFiles(directory: other.absolutePersistenceDirectory.path)
            let copied = try #require(files.session()).accessToken
            try await leaveSession(server, directory) { $0.accessToken = copied }
            let ditto = try await Ditto.openAlone(config: config(server, directory))
            let asked = Collected<TimeInterval>()
            ditto.auth?.expirationHandler = { ditto, secondsRemaining in
                asked.add(secondsRemaining)
                _ = try? await ditto.auth?.login(token: server.token, provider: .development)
            }
            try ditto.sync.start()
            #expect(await eventually { ditto.sync.status.text == "connected" })
            #expect(asked.all == [0])
            await ditto.close()
        }
    }

    @Test("a session of another server or database is not used")
    func foreignSession() async throws {
        try await withServer { server, directory in
            try await leaveSession(server, directory) { $0.databaseID = "other" }
            let ditto = try await Ditto.openAlone(config: config(server, directory))
            #expect(ditto.auth?.status.isAuthenticated == false)
            await ditto.close()
        }
    }

    @Test("a login brings a certificate of the store's own key, which a logout removes")
    func certificate() async throws {
        try await withServer { server, directory in
            let ditto = try await Ditto.openAlone(config: config(server, directory))
            try await ditto.auth?.login(token: server.token, provider: .development)
            let files = IdentityFiles(directory: ditto.absolutePersistenceDirectory.path)
            let kept = try #require(files.certificate())
            #expect(kept.authorities.count == 1)
            let keys = try await HTTPClient.shared.execute(
                HTTPClientRequest(url: server.url + "/_ditto/auth/jwks.json"), timeout: .seconds(30))
            let set = try KeySet(json: Array(buffer: try await keys.body.collect(upTo: 1_000_000)))
            let identity = try PeerCertificate.verify(
                PeerCertificate.der(pem: kept.certificate), authorities: set,
                databaseID: DatabaseID(server.databaseID),
                nowSeconds: Int64(Date().timeIntervalSince1970))
            #expect(identity.peerKey == ditto.auth?.peerKey && identity.grant == .everything)
            ditto.auth?.logout()
            #expect(files.certificate() == nil)
            await ditto.close()
        }
    }

    @Test("keys and sessions are for their owner's eyes only")
    func modes() async throws {
        try await withServer { server, directory in
            let ditto = try await Ditto.openAlone(config: config(server, directory))
            try await ditto.auth?.login(token: server.token, provider: .development)
            let folder = ditto.absolutePersistenceDirectory.appendingPathComponent("ditto_auth").path
            for (path, mode) in [
                (folder, 0o700), (folder + "/peer-key.pem", 0o600), (folder + "/session.json", 0o600),
            ] {
                let attributes = try FileManager.default.attributesOfItem(atPath: path)
                #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == mode)
            }
            await ditto.close()
        }
    }

    @Test("logging out ends sync, forgets the session and keeps the documents; the cleanup may evict them")
    func logout() async throws {
        try await withServer { server, directory in
            let ditto = try await Ditto.openAlone(config: config(server, directory))
            ditto.auth?.expirationHandler = { ditto, _ in
                _ = try? await ditto.auth?.login(token: server.token, provider: .development)
            }
            try ditto.sync.start()
            try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(await ditto.sync.waitForAcknowledgement(of: 1, timeout: .seconds(60)))
            let cleaned = Collected<Bool>()
            ditto.auth?.logout { cleaned.add($0 === ditto) }
            #expect(cleaned.all == [true])
            #expect(!ditto.sync.isActive)
            #expect(ditto.auth?.status.isAuthenticated == false)
            #expect(try await ditto.store.execute(query: "SELECT * FROM c").items.count == 1)
            await ditto.close()
        }
    }

    @Test("a server that is not there is an error at once")
    func unreachable() async throws {
        try await withTemporaryDirectory { directory in
            let ditto = try await Ditto.openAlone(
                config: DittoConfig(
                    databaseID: "x", connect: .server(url: "http://127.0.0.1:1"),
                    persistenceDirectory: directory))
            let before = ContinuousClock.now
            await #expect { try await ditto.auth?.login(token: "t", provider: .development) } throws: {
                $0.localizedDescription.hasPrefix("SDK-0303: ")
            }
            #expect(Depth.isInTime(ContinuousClock.now - before, .seconds(9)))
            await ditto.close()
        }
    }

    @Test("an answer that is no answer of ours is refused")
    func answers() {
        func code(_ status: UInt, _ body: Value?) -> String? {
            do {
                _ = try LoginRequest.answer(status, body)
                return nil
            } catch { return error.code }
        }
        #expect(code(200, ["accessToken": "t", "userID": "u", "expiresIn": 60]) == nil)
        #expect(code(200, ["accessToken": "t"]) == "SDK-0304")
        #expect(code(200, nil) == "SDK-0304")
        #expect(code(502, nil) == "SDK-0302")
        #expect(code(401, ["error": ["code": "AUTH-0404", "message": "no"]]) == "AUTH-0404")
    }

    @Test("a provider that refuses has something for the application too")
    func refusalsInformation() {
        let body: Value = [
            "error": ["code": "AUTH-0404", "message": "no"], "clientInfo": ["why": "no such user"],
        ]
        let error = #expect(throws: SDKError.self) { try LoginRequest.answer(401, body) }
        #expect(error?.clientInfo == #"{"why":"no such user"}"#)
    }

    @Test(
        "a session is renewed when a tenth of its life is left, and at least a minute before its end")
    func renewal() {
        func lead(_ life: Double) -> Double {
            DittoAuthenticator.lead(
                of: StoredSession(
                    databaseID: "x", login: URL(fileURLWithPath: "/"), accessToken: "", userID: "",
                    startedAt: 100,
                    expiresAt: 100 + life))
        }
        #expect(lead(86_400) == 8_640)
        #expect(lead(300) == 60)
        #expect(lead(10) == 5)
    }

    @Test("a damaged peer key is an error that names the file, a damaged session needs a login")
    func damagedFiles() throws {
        try withTemporaryDirectory { directory in
            let files = IdentityFiles(directory: directory.path)
            let key = try files.peerKey()
            #expect(try files.peerKey().publicKeyString == key.publicKeyString)
            let folder = directory.appendingPathComponent("ditto_auth")
            try Data("nonsense".utf8).write(to: folder.appendingPathComponent("session.json"))
            #expect(files.session() == nil)
            try Data("nonsense".utf8).write(to: folder.appendingPathComponent("peer-key.pem"))
            #expect { try files.peerKey() } throws: { ($0 as? SDKError)?.code == "SDK-0401" }
        }
    }
}
