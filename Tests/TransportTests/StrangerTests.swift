import Exchange
import Identity
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import Transport

/// Addresses at which something else listens than the dialer means: the reason names it.
@Suite("Links with who is no peer", .timeLimit(.minutes(2)))
struct StrangerTests {
    private static let key = PeerKey()

    private func peer(_ name: String, isSecure: Bool) -> EchoPeer {
        EchoPeer(name, isSecure ? .shared(Self.key) : .none)
    }

    /// The reason that a peer gets which dials an address once.
    private func reason(of address: MeshAddress, isSecure: Bool) async throws -> String {
        let dialer = peer("dialer", isSecure: isSecure)
        _ = try await dialer.start(dial: [address], retry: .seconds(60))
        try await until { dialer.mesh.seen.dials.values.contains { $0 != nil } }
        let reason = dialer.mesh.seen.dials.values.compactMap { $0 }.first ?? ""
        await dialer.mesh.stop()
        return reason
    }

    @Test("a peer that never logged in is told that it lacks a certificate, for a link is no request")
    func withoutCertificate() throws {
        let security = LinkSecurity(databaseID: "boats", nowSeconds: { 0 }) {
            MeshCredentials(key: Self.key, certificate: nil, authority: .database(KeySet()))
        }
        #expect {
            _ = try security.tls()
        } throws: { error in
            "\(error)".hasPrefix("AUTH-0109: this peer has no certificate")
        }
    }

    @Test("a port that takes WebSockets, named as one of TCP", arguments: [true, false], [true, false])
    func webSocketListener(isSecure: Bool, listenerIsSecure: Bool) async throws {
        let there = peer("there", isSecure: listenerIsSecure)
        let port = try await there.start(listen: .webSocket)
        let reason = try await reason(of: tcp(port), isSecure: isSecure)
        #expect(reason.hasPrefix("SYNC-0201: the other side speaks HTTP"), "\(reason)")
        #expect(reason.contains("--connect-ws"))
        await there.mesh.stop()
    }

    @Test("a port that takes TCP, named as one of WebSockets", arguments: [true, false], [true, false])
    func tcpListener(isSecure: Bool, listenerIsSecure: Bool) async throws {
        let there = peer("there", isSecure: listenerIsSecure)
        let port = try await there.start(listen: .tcp)
        let reason = try await reason(of: webSocket(port), isSecure: isSecure)
        #expect(reason.contains("WS-0104: the server refused: the port takes links over TCP"), "\(reason)")
        await there.mesh.stop()
    }

    @Test("a web server, and a program that speaks neither", arguments: [true, false])
    func others(isSecure: Bool) async throws {
        let cases = [
            (answer: "HTTP/1.1 400 Bad Request\r\n\r\n", code: "SYNC-0201: the other side speaks HTTP"),
            (
                answer: "SSH-2.0-OpenSSH_9.2\r\n",
                code: "SYNC-0201: the other side does not speak the protocol of links"
            ),
        ]
        for (answer, code) in cases {
            let server = try await Self.serve(answer)
            let port = try #require(server.localAddress?.port)
            let reason = try await reason(of: tcp(port), isSecure: isSecure)
            #expect(reason.hasPrefix(code), "\(reason)")
            try await server.close()
        }
    }

    @Test("a program that is no web server, named as one of WebSockets")
    func noWebServer() async throws {
        let cases = [
            (answer: "", text: "it closed the connection without an answer to the upgrade"),
            (answer: "SSH-2.0-OpenSSH_9.2\r\n", text: "its answer is no HTTP"),
        ]
        for (answer, text) in cases {
            let server = try await Self.serve(answer)
            let port = try #require(server.localAddress?.port)
            let reason = try await reason(of: webSocket(port), isSecure: false)
            #expect(reason.contains("WS-0102: cannot connect to 127.0.0.1:\(port): \(text)"), "\(reason)")
            try await server.close()
        }
    }

    /// A server that answers the first bytes of each connection with this, and closes.
    private static func serve(_ answer: String) async throws -> any Channel {
        try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Answering(answer))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
    }
}

/// Answers the first bytes, and closes.
private final class Answering: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: String
    private var hasAnswered = false

    init(_ answer: String) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !hasAnswered else { return }
        hasAnswered = true
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer))).whenComplete { _ in
            channel.close(promise: nil)
        }
    }
}
