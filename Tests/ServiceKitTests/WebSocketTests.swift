import Foundation
import Hummingbird
import Identity
import NIOCore
import NIOPosix
import NIOWebSocket
import ServiceKit
import TestSupport
import Testing

@testable import WebSocket

@Suite("WebSockets, server and client", .timeLimit(.minutes(5)))
struct WebSocketTests {
    /// However busy the machine is, nobody gives up on the other side's goodbye.
    private static let patient: WebSocketConfiguration = {
        var configuration = WebSocketConfiguration()
        configuration.closeTimeout = .seconds(60)
        configuration.connectTimeout = .seconds(60)
        return configuration
    }()

    /// Sends every message back.
    @Sendable private static func echo(_ mount: inout ServiceMount) {
        mount.webSocket("/echo", subprotocols: ["mimeo.1"], authorize: { _ in }) { channel, _, _ in
            try? await WebSocketConnection.run(over: channel, role: .server, configuration: patient) {
                connection async throws in
                for try await message in connection.inbound { try await connection.send(message) }
            }
        }
        mount.webSocket(
            "/guarded", query: ["a"],
            authorize: { request in
                guard request.headers["authorization"] == ["Bearer good"] else {
                    throw IdentityError.missingToken
                }
                return request.query
            }
        ) { channel, query, _ in
            try? await WebSocketConnection.run(over: channel, role: .server, configuration: patient) {
                connection async throws in
                try await connection.send(Array((query ?? "").utf8))
            }
        }
    }

    private static func client(
        _ address: ListenAddress, _ path: String = "/echo", headers: [(name: String, value: String)] = [],
        configuration: WebSocketConfiguration = patient
    ) throws -> WebSocketClient {
        let url = try #require(URL(string: "\(address.origin.replacing("http", with: "ws"))\(path)"))
        return WebSocketClient(
            address: try WebSocketAddress(url), headers: headers, subprotocols: ["mimeo.1"],
            configuration: configuration)
    }

    @Test(
        "messages travel whole and in order, up to the limit", arguments: [0, 1, 125, 126, 65_536, 1_048_576])
    func echo(size: Int) async throws {
        try await serving(Self.echo) { address async throws in
            let message = (0..<size).map { UInt8(truncatingIfNeeded: $0) }
            try await Self.client(address).run { connection async throws in
                try await connection.send(message)
                try await connection.send([7])
                #expect(try await connection.receive() == message)
                #expect(try await connection.receive() == [7])
            }
        }
    }

    @Test("many messages pass while one side writes faster than the other reads")
    func backPressure() async throws {
        let received = Box(0)
        try await serving { mount in
            mount.webSocket("/slow", authorize: { _ in }) { channel, _, _ in
                try? await WebSocketConnection.run(over: channel, role: .server) { connection async throws in
                    for try await message in connection.inbound {
                        received.change { $0 += message.count }
                        if received.value < 150_000 { try await Task.sleep(for: .milliseconds(1)) }
                    }
                }
            }
        } _: { address async throws in
            try await Self.client(address, "/slow").run { connection async throws in
                for _ in 0..<80 { try await connection.send([UInt8](repeating: 1, count: 50_000)) }
            }
        }
        #expect(received.value == 4_000_000)
    }

    /// Messages of 1 MiB each: more than the sockets and both sides hold.
    private static let messages = Depth.pick(fast: 30, deep: 200)

    /// Sends them, counting what has left as far as `send` tells.
    @Sendable private static func sendMuch(_ connection: WebSocketConnection, _ sent: Box<Int>) async throws {
        let message = [UInt8](repeating: 1, count: 1 << 20)
        for _ in 0..<messages {
            try await connection.send(message)
            sent.change { $0 += 1 }
        }
    }

    /// Takes nothing until the sender has got no further for a while: how far that was, and what came in all.
    @Sendable private static func takeLate(
        _ connection: WebSocketConnection, _ sent: Box<Int>
    ) async throws -> (before: Int, all: Int) {
        var before = -1
        while before != sent.value || before == 0 {
            before = sent.value
            try await Task.sleep(for: .milliseconds(300))
        }
        var all = 0
        while all < messages, try await connection.receive() != nil { all += 1 }
        return (before, all)
    }

    @Test(
        "who sends to a side that takes nothing is held back, and goes on when it does",
        arguments: [false, true])
    func heldBack(fromServer: Bool) async throws {
        let sent = Box(0)
        let taken = Box((before: 0, all: 0))
        @Sendable func run(_ connection: WebSocketConnection, sends: Bool) async throws {
            if sends {
                try await Self.sendMuch(connection, sent)
                _ = try await connection.receive()
            } else {
                let seen = try await Self.takeLate(connection, sent)
                taken.change { $0 = seen }
            }
        }
        try await serving { mount in
            mount.webSocket("/much", authorize: { _ in }) { channel, _, _ in
                let patient = Self.patient
                try? await WebSocketConnection.run(over: channel, role: .server, configuration: patient) {
                    connection async throws in try await run(connection, sends: fromServer)
                }
            }
        } _: { address async throws in
            try await Self.client(address, "/much").run { connection async throws in
                try await run(connection, sends: !fromServer)
            }
        }
        // What the two sockets hold, and some messages on either side.
        #expect(taken.value.before < 24)
        #expect(taken.value.all == Self.messages)
    }

    @Test("a route decides before the upgrade, and the refusal reaches the client with status and code")
    func refused() async throws {
        try await serving(Self.echo) { address async throws in
            let error = await #expect(throws: WebSocketError.self) {
                try await Self.client(address, "/guarded").run { _ in }
            }
            #expect(error?.code == .upgradeRefused)
            #expect(error?.status == 401)
            #expect(error?.serverCode == "AUTH-0109")
            let missing = await #expect(throws: WebSocketError.self) {
                try await Self.client(address, "/nowhere").run { _ in }
            }
            #expect(missing?.status == 404)
            let unknown = await #expect(throws: WebSocketError.self) {
                try await Self.client(address, "/guarded?asOf=3").run { _ in }
            }
            #expect(unknown?.status == 400 && unknown?.serverCode == "SRV-0400")
            try await Self.client(address, "/guarded?a=b", headers: [("Authorization", "Bearer good")]).run {
                connection async throws in
                #expect(try await connection.receive() == Array("a=b".utf8))
                #expect(try await connection.receive() == nil)
                #expect(connection.receivedClose == .normal)
            }
        }
    }

    @Test("an ordinary request to a WebSocket path is told to upgrade, a malformed upgrade is a 400")
    func upgradeRequired() async throws {
        try await serving(Self.echo) { address async throws in
            let plain = try await ask(address, "/echo")
            #expect(plain.status == 426)
            #expect(plain.code == "SRV-0426")
            let raw = try await RawConnection.exchange(
                address, "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            #expect(raw.hasPrefix("HTTP/1.1 400"))
            #expect(raw.contains("SRV-0400"))
        }
    }

    /// An upgrade as RFC 6455 section 4.1 asks for it, but for what is changed.
    private static func upgrade(
        _ path: String = "/echo", version: String = "HTTP/1.1", host: String = "Host: x\r\n"
    ) -> String {
        "GET \(path) \(version)\r\n\(host)Connection: Upgrade\r\nUpgrade: websocket\r\n"
            + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    }

    @Test("an upgrade needs HTTP/1.1 and one host")
    func handshakeFields() async throws {
        try await serving(Self.echo) { address async throws in
            for bad in [
                Self.upgrade(host: ""), Self.upgrade(host: "Host: x\r\nHost: y\r\n"),
                Self.upgrade(version: "HTTP/1.0"),
            ] {
                let raw = try await RawConnection.exchange(address, bad)
                #expect(raw.prefix(12).hasSuffix(" 400"), "\(raw.prefix(40))")
            }
        }
    }

    @Test("who sends without end while its upgrade is decided is sent away")
    func flood() async throws {
        try await serving { mount in
            mount.webSocket(
                "/slow", authorize: { _ in try await Task.sleep(for: .seconds(600)) }
            ) { channel, _, _ in channel.close(promise: nil) }
        } _: { address async throws in
            let flood = Array(Self.upgrade("/slow").utf8) + [UInt8](repeating: 0x82, count: 4 << 20)
            let answer = try await RawConnection.exchange(address, steps: [flood], pause: .zero)
            #expect(String(decoding: answer, as: UTF8.self).contains("400"))
        }
    }

    @Test("one goodbye is said, and nothing behind it, though the server stops as well")
    func oneGoodbye() async throws {
        let isClosed = Box(false)
        let answer = try await serving { mount in
            mount.webSocket("/bye", authorize: { _ in }) { channel, _, _ in
                let connection = try? await WebSocketConnection.open(over: channel, role: .server)
                connection?.close(WebSocketClose(code: 1013, reason: "full"))
                let late = WebSocketFrame(fin: true, opcode: .binary, data: ByteBuffer(bytes: [7]))
                try? await channel.writeAndFlush(late).get()
                isClosed.change { $0 = true }
            }
        } _: { address async throws in
            let answer = Task {
                try await RawConnection.exchange(
                    address, steps: [Array(Self.upgrade("/bye").utf8)], pause: .zero)
            }
            while !isClosed.value { try await Task.sleep(for: .milliseconds(5)) }
            return answer
        }
        let all = try await answer.value
        let end = Array("\r\n\r\n".utf8)
        let start = try #require(all.indices.first { all[$0...].starts(with: end) })
        let close: [UInt8] = [0x88, 6, 0x03, 0xF5] + Array("full".utf8)
        #expect(Array(all[(start + end.count)...]) == close)
    }

    @Test("a peer that breaks the rules, or closes, is not taken for a link that broke, and it is said why")
    func farewells() async throws {
        try await serving { mount in
            for (path, frame) in [
                ("/text", WebSocketFrame(fin: true, opcode: .text, data: ByteBuffer(string: "no"))),
                (
                    "/full",
                    WebSocketFrame(
                        fin: true, opcode: .connectionClose,
                        data: ByteBuffer(bytes: [0x03, 0xF5] + Array("SYNC-0501".utf8)))
                ),
            ] {
                mount.webSocket(path, authorize: { _ in }) { channel, _, _ in
                    try? await channel.writeAndFlush(frame).get()
                    // Reads on: who does not read never learns that the other side has gone.
                    try? await WebSocketConnection.run(over: channel, role: .server) {
                        connection async throws in
                        while try await connection.receive() != nil {}
                    }
                }
            }
            mount.webSocket("/gone", authorize: { _ in }) { channel, _, _ in channel.close(promise: nil) }
        } _: { address async throws in
            for (path, farewell) in [("/text", "WS-0204"), ("/full", "1013 SYNC-0501"), ("/gone", nil)] {
                try await Self.client(address, path).run { connection async throws in
                    while (try? await connection.receive()) != nil {}
                    #expect(connection.isLost == (farewell == nil))
                    #expect(connection.farewell?.contains(farewell ?? "") == (farewell == nil ? nil : true))
                }
            }
        }
    }

    @Test("what the server says at once counts, also where it comes in one read with the upgrade")
    func saidAtOnce() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        try await serving { mount in
            mount.webSocket(
                "/hello",
                // Until all of it has come the client's loop does not read.
                authorize: { _ in group.any().execute { Thread.sleep(forTimeInterval: 0.3) } }
            ) { channel, _, _ in
                try? await WebSocketConnection.run(over: channel, role: .server) {
                    try await $0.send([1, 2, 3])
                }
            }
        } _: { address async throws in
            let url = try #require(URL(string: "\(address.origin)/hello"))
            let client = WebSocketClient(address: try WebSocketAddress(url), group: group)
            try await client.run { connection async throws in
                #expect(try await connection.receive() == [1, 2, 3])
                #expect(try await connection.receive() == nil)
            }
        }
        try await group.shutdownGracefully()
    }

    @Test("a server that is not there, and one that does not answer, are different errors")
    func noServer() async throws {
        let nowhere = try Self.client(ListenAddress(host: "127.0.0.1", port: 1))
        let refused = await #expect(throws: WebSocketError.self) { try await nowhere.run { _ in } }
        #expect(refused?.code == .connectFailed)
        let isOver = Box(false)
        try await serving { mount in
            mount.webSocket(
                "/late",
                authorize: { _ in while !isOver.value { try await Task.sleep(for: .milliseconds(5)) } }
            ) { _, _, _ in }
        } _: { address async throws in
            var configuration = WebSocketConfiguration()
            configuration.connectTimeout = .milliseconds(200)
            let client = try Self.client(address, "/late", configuration: configuration)
            let late = await #expect(throws: WebSocketError.self) { try await client.run { _ in } }
            #expect(late?.code == .connectTimeout)
            isOver.change { $0 = true }
        }
    }

    @Test("addresses are ws, wss, http or https with a host")
    func addresses() throws {
        for text in ["ftp://x", "ws://", "/path", "ws:x"] {
            let url = try #require(URL(string: text))
            let error = #expect(throws: WebSocketError.self) { try WebSocketAddress(url) }
            #expect(error?.code == .addressInvalid, "\(text)")
        }
        let address = try WebSocketAddress(try #require(URL(string: "https://[::1]/a%20b?c=d")))
        #expect(address.host == "::1")
        #expect(address.port == 443)
        #expect(address.isSecure)
        #expect(address.path == "/a%20b?c=d")
    }

    @Test("a message over the limit is not sent")
    func tooLargeToSend() async throws {
        try await serving(Self.echo) { address async throws in
            try await Self.client(address).run { connection async throws in
                let error = await #expect(throws: WebSocketError.self) {
                    try await connection.send(
                        [UInt8](repeating: 0, count: WebSocketConfiguration.defaultMessageBytes + 1))
                }
                #expect(error?.code == .messageTooLarge)
                try await connection.send([1])
                #expect(try await connection.receive() == [1])
            }
        }
    }

    @Test("after closing nothing can be sent, and the other side hears why")
    func closing() async throws {
        let heard = Box<WebSocketClose?>(nil)
        try await serving { mount in
            mount.webSocket("/hear", authorize: { _ in }) { channel, _, _ in
                try? await WebSocketConnection.run(over: channel, role: .server) { connection async throws in
                    while try await connection.receive() != nil {}
                    let reason = connection.receivedClose
                    heard.change { $0 = reason }
                }
            }
        } _: { address async throws in
            try await Self.client(address, "/hear").run { connection async throws in
                connection.close(WebSocketClose(code: 4001, reason: "bye"))
                let error = await #expect(throws: WebSocketError.self) { try await connection.send([1]) }
                #expect(error?.code == .closed)
                #expect(try await connection.receive() == nil)
            }
        }
        #expect(heard.value == WebSocketClose(code: 4001, reason: "bye"))
    }

    @Test("a server that stops says goodbye to its WebSockets")
    func goingAway() async throws {
        let connected = Box(false)
        let client = try await serving(Self.echo) { address async throws in
            let client = try Self.client(address)
            let task = Task {
                try await client.run { connection async throws in
                    // The server's side is whole only when something has gone there and back.
                    try await connection.send([1])
                    #expect(try await connection.receive() == [1])
                    connected.change { $0 = true }
                    #expect(try await connection.receive() == nil)
                    return connection.receivedClose
                }
            }
            while !connected.value { try await Task.sleep(for: .milliseconds(5)) }
            return task
        }
        #expect(try await client.value?.code == 1001)
    }
}
