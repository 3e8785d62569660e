import DittoSwift
import Mimeo
import TestSupport
import Testing
import WebSocket

@Suite("https to a server that speaks plain http", .timeLimit(.minutes(2)))
struct PlainServerTests {
    @Test("a login, sync and a certificate say that the server speaks plain http")
    func told() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let secure = server.url.replacing("http://", with: "https://")
                let ditto = try await Ditto.openAlone(
                    config: DittoConfig(
                        databaseID: server.databaseID, connect: .server(url: secure),
                        persistenceDirectory: directory.appendingPathComponent("a")))
                let error = await #expect(throws: DittoSwiftError.self) {
                    try await ditto.auth?.login(token: server.token, provider: .development)
                }
                let message = error?.errorDescription ?? ""
                #expect(message.hasPrefix("SDK-0307: 127.0.0.1:"))
                #expect(message.contains("it speaks plain http. Write http:// in the server URL"))
                await ditto.close()
                let address = try WebSocketAddress(try #require(URL(string: secure + "/_ditto/sync")))
                let refused = await #expect(throws: WebSocketError.self) {
                    try await WebSocketClient(address: address).run { _ in }
                }
                #expect(refused?.code == .plainServer)
                #expect(refused?.message.contains("it speaks plain http") ?? false)
            }
        }
    }
}
