import Logging
import NIOCore
import NIOEmbedded
import NIOHTTP1
import Testing

@testable import ServiceKit

/// One connection behind the gate, with a clock of its own; what the routes see is recorded, and the test
/// answers for them.
private final class Connection {
    private final class Recorder: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        var parts: [HTTPServerRequestPart] = []
        var errors: [any Error] = []

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { parts.append(unwrapInboundIn(data)) }
        func errorCaught(context: ChannelHandlerContext, error: any Error) { errors.append(error) }
    }

    /// An embedded channel takes the end of its output for the end of both directions.
    private final class HalfClose: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer
        var isOutputClosed = false

        func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
            guard mode == .output else { return context.close(mode: mode, promise: promise) }
            isOutputClosed = true
            promise?.succeed()
        }
    }

    private let loop = EmbeddedEventLoop()
    private let socket = HalfClose()
    private let channel: EmbeddedChannel
    private let recorder = Recorder()

    init() throws {
        channel = EmbeddedChannel(loop: loop)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let gate = RequestGate(logger: logger)
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandlers([socket, HTTPResponseEncoder(), HeadWatch(gate: gate)])
        try pipeline.addHandler(ByteToMessageHandler(HTTPRequestDecoder()))
        try pipeline.addHandlers([gate, recorder])
        channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 1), promise: nil)
    }

    deinit {
        // The gate closes when its time has come, and not before.
        loop.advanceTime(by: .minutes(2))
        channel.close(promise: nil)
        loop.run()
    }

    func receive(_ text: String) {
        _ = try? channel.writeInbound(ByteBuffer(string: text))
        // As a socket does by itself: it wants the next bytes.
        channel.read()
    }

    func halfClose() { channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed) }

    func pass(_ time: TimeAmount) { loop.advanceTime(by: time) }

    func wantBody() { channel.pipeline.triggerUserOutboundEvent(RequestGate.BodyWanted(), promise: nil) }

    func answer(_ body: String, length: Bool = true) {
        var head = HTTPResponseHead(version: .http1_1, status: .ok)
        if length { head.headers.add(name: "Content-Length", value: "\(body.utf8.count)") }
        channel.write(HTTPServerResponsePart.head(head), promise: nil)
        channel.write(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(string: body))), promise: nil)
        channel.writeAndFlush(HTTPServerResponsePart.end(nil), promise: nil)
        loop.run()
    }

    /// All that has been sent since the last call.
    var sent: String {
        var text = ""
        while let bytes = try? channel.readOutbound(as: ByteBuffer.self) { text += String(buffer: bytes) }
        return text
    }

    var isOpen: Bool { channel.isActive }
    var isOutputClosed: Bool { socket.isOutputClosed }
    var heads: [HTTPRequestHead] {
        recorder.parts.compactMap { if case .head(let head) = $0 { head } else { nil } }
    }
    var ends: Int { recorder.parts.count { if case .end = $0 { true } else { false } } }
    var errors: [ServiceErrorCode] { recorder.errors.compactMap { ($0 as? ServiceError)?.code } }
}

@Suite("The gate of a connection")
struct RequestGateTests {
    private let get = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
    private let post = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"

    @Test("a request in one piece is answered with its id, and the connection stays")
    func plain() throws {
        let connection = try Connection()
        connection.receive("GET /a HTTP/1.1\r\nHost: x\r\nX-Request-ID: mine\r\n\r\n")
        #expect(connection.heads.first?.headers["x-request-id"] == ["mine"])
        connection.answer("yes")
        let sent = connection.sent
        #expect(sent.contains("X-Request-ID: mine\r\n"))
        #expect(!sent.lowercased().contains("connection:"))
        connection.pass(.hours(1))
        #expect(connection.isOpen)
        #expect(connection.sent.isEmpty)
    }

    @Test("HTTP/1.0 is closed after its answer, and gets no chunks")
    func old() throws {
        let connection = try Connection()
        connection.receive("GET /a HTTP/1.0\r\n\r\n")
        connection.answer("text of unknown length", length: false)
        let sent = connection.sent
        #expect(sent.hasPrefix("HTTP/1.0 200"))
        #expect(sent.hasSuffix("\r\n\r\ntext of unknown length"))
        #expect(!connection.isOpen)
    }

    @Test("HTTP/1.0 with keep-alive stays open after an answer of known length only")
    func oldKeepAlive() throws {
        let connection = try Connection()
        connection.receive("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        connection.answer("known")
        #expect(connection.sent.lowercased().contains("connection: keep-alive"))
        #expect(connection.isOpen)
        connection.receive("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        connection.answer("unknown", length: false)
        #expect(!connection.isOpen)
    }

    @Test("after an answer before the body's end, the rest is dropped, and then the connection closes")
    func drops() throws {
        let connection = try Connection()
        connection.receive(post + "\r\n1234")
        connection.answer("no")
        #expect(connection.sent.lowercased().contains("connection: close"))
        #expect(connection.isOutputClosed)
        #expect(connection.isOpen)
        connection.pass(.seconds(1))
        connection.receive("567")
        #expect(connection.isOpen)
        connection.receive("890")
        #expect(!connection.isOpen)
        #expect(connection.ends == 0)
    }

    @Test("the rest of an answered body may be silent for two seconds, and take ten in all")
    func lingers() throws {
        let silent = try Connection()
        silent.receive(post + "\r\n1")
        silent.answer("no")
        silent.pass(.milliseconds(1_900))
        #expect(silent.isOpen)
        silent.pass(.milliseconds(200))
        #expect(!silent.isOpen)

        let dripping = try Connection()
        dripping.receive("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        dripping.answer("no")
        for _ in 0..<9 {
            dripping.pass(.seconds(1))
            dripping.receive("1\r\nx\r\n")
        }
        #expect(dripping.isOpen)
        dripping.pass(.milliseconds(1_100))
        #expect(!dripping.isOpen)
    }

    @Test("100 is sent when the body is wanted, once, and not after the answer has begun")
    func expectation() throws {
        let connection = try Connection()
        connection.receive(post + "Expect: 100-continue\r\n\r\n")
        #expect(connection.sent.isEmpty)
        connection.wantBody()
        connection.wantBody()
        #expect(connection.sent == "HTTP/1.1 100 Continue\r\n\r\n")
        let refused = try Connection()
        refused.receive(post + "Expect: 100-continue\r\n\r\n")
        refused.answer("no")
        refused.wantBody()
        #expect(!refused.sent.contains("100 Continue"))
    }

    @Test("a client that does not wait for leave, or speaks HTTP/1.0, gets no 100")
    func noExpectation() throws {
        let hasty = try Connection()
        hasty.receive(post + "Expect: 100-continue\r\n\r\n12345")
        hasty.wantBody()
        #expect(hasty.sent.isEmpty)
        let old = try Connection()
        old.receive("POST /a HTTP/1.0\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
        old.wantBody()
        #expect(old.sent.isEmpty)
    }

    @Test("a head that takes longer than 30 s is a 408, however it drips")
    func slowHead() throws {
        let connection = try Connection()
        connection.pass(.minutes(1))
        for letter in "GET /aaaaaaaaaaaaaaaaaaaaaaa" {
            connection.receive(String(letter))
            connection.pass(.seconds(1))
        }
        #expect(connection.sent.isEmpty)
        connection.pass(.seconds(3))
        #expect(connection.sent.contains("408"))
        connection.pass(.seconds(3))
        #expect(!connection.isOpen)
    }

    @Test("a body that is silent for 30 s, or slower than 1 kB/s, is an error of the body")
    func slowBody() throws {
        let silent = try Connection()
        silent.receive(post + "\r\n123")
        silent.pass(.seconds(31))
        #expect(silent.errors == [.requestTimeout])
        let dripping = try Connection()
        dripping.receive("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        for _ in 0..<4 {
            dripping.receive("some bytes")
            dripping.pass(.seconds(8))
        }
        #expect(dripping.errors == [.requestTimeout])
        let steady = try Connection()
        steady.receive("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        for _ in 0..<8 {
            steady.receive(String(repeating: "x", count: 8_500))
            steady.pass(.seconds(8))
        }
        #expect(steady.errors.isEmpty)
    }

    @Test("a body that ends early is an error of the body; the answer to it is the last")
    func shortBody() throws {
        let connection = try Connection()
        connection.receive(post + "\r\n123")
        connection.halfClose()
        #expect(connection.errors == [.badRequest])
        connection.answer("no")
        #expect(connection.sent.lowercased().contains("connection: close"))
        #expect(!connection.isOpen)
    }

    @Test(
        "heads that no route should see are a 400",
        arguments: [
            "nonsense\r\n\r\n", "GET /a HTTP/2.0\r\n\r\n", "GET /a HTTP/1.1\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "GET a HTTP/1.1\r\nHost: x\r\n\r\n",
            "CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n",
            "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1e3\r\n\r\n",
        ])
    func malformed(_ text: String) throws {
        let connection = try Connection()
        connection.receive(text)
        let sent = connection.sent
        #expect(sent.hasPrefix("HTTP/1.1 400"))
        #expect(sent.contains("SRV-0400"))
        #expect(connection.heads.isEmpty)
    }

    @Test("a malformed request is answered after the requests before it, and nothing after it is taken")
    func order() throws {
        let connection = try Connection()
        connection.receive(get + get + "nonsense\r\n\r\n" + get)
        #expect(connection.heads.count == 2)
        #expect(connection.sent.isEmpty)
        connection.answer("first")
        #expect(!connection.sent.contains("400"))
        connection.answer("second")
        let sent = connection.sent
        #expect(sent.contains("second"))
        #expect(sent.contains("HTTP/1.1 400"))
    }
}
