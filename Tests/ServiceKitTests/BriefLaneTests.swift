import Logging
import NIOCore
import NIOEmbedded
import NIOHTTP1
import Testing

@testable import ServiceKit

/// One connection with the lane behind the gate; what the asynchronous path sees is recorded, and the test
/// answers for it.
private final class Connection {
    private final class Recorder: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        var text = ""

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head): text += "\(head.method) \(head.uri) "
            case .body(let bytes): text += String(buffer: bytes)
            case .end: text += ";"
            }
        }
        func errorCaught(context: ChannelHandlerContext, error: any Error) { text += "error;" }
    }

    private let loop = EmbeddedEventLoop()
    private let channel: EmbeddedChannel
    private let recorder = Recorder()

    /// Answers bodies that begin with "{" with themselves, and admits every token but "bad".
    init(
        cors: CORSPolicy = .none, logsAll: Bool = false,
        _ route: @escaping BriefRoute = { token, _ in
            token == "bad"
                ? nil : { body, _ in String(buffer: body).hasPrefix("{") ? Array(buffer: body) : nil }
        }
    ) throws {
        channel = EmbeddedChannel(loop: loop)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let gate = RequestGate(logger: logger)
        let routes = BriefRoutes(
            routes: ["/brief": route], cors: cors, meter: RequestMeter(), logsAll: logsAll)
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandlers([HTTPResponseEncoder(), HeadWatch(gate: gate)])
        try pipeline.addHandler(ByteToMessageHandler(HTTPRequestDecoder()))
        try pipeline.addHandlers([gate, BriefLane(routes, logger: logger), recorder])
        channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 1), promise: nil)
    }

    deinit {
        loop.advanceTime(by: .minutes(2))
        channel.close(promise: nil)
        loop.run()
    }

    func receive(_ text: String) {
        _ = try? channel.writeInbound(ByteBuffer(string: text))
        channel.read()
    }

    /// Whether the client reads what it is sent.
    var isRead: Bool {
        get { channel.isWritable }
        set { channel.isWritable = newValue }
    }

    func pass(_ time: TimeAmount) { loop.advanceTime(by: time) }

    func stop() { channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent()) }

    /// Answers a request of the asynchronous path.
    func answer() {
        let head = HTTPResponseHead(version: .http1_1, status: .ok, headers: ["Content-Length": "0"])
        channel.write(HTTPServerResponsePart.head(head), promise: nil)
        channel.writeAndFlush(HTTPServerResponsePart.end(nil), promise: nil)
        loop.run()
    }

    /// All that has been sent since the last call.
    var sent: String {
        var text = ""
        while let bytes = try? channel.readOutbound(as: ByteBuffer.self) { text += String(buffer: bytes) }
        return text
    }

    /// The requests that went the asynchronous way since the last call.
    var passed: String {
        defer { recorder.text = "" }
        return recorder.text
    }
}

@Suite("The lane of brief requests")
struct BriefLaneTests {
    private static func post(_ body: String, _ fields: String = "", path: String = "/brief") -> String {
        "POST \(path) HTTP/1.1\r\nHost: x\r\nAuthorization: t\r\nContent-Length: \(body.utf8.count)\r\n"
            + "\(fields)\r\n\(body)"
    }

    @Test("a short request is answered at once, with the fields that every answer has")
    func answered() throws {
        let connection = try Connection()
        connection.receive(Self.post("{}", "X-Request-ID: mine\r\n"))
        let sent = connection.sent
        #expect(sent.hasPrefix("HTTP/1.1 200 OK\r\n") && sent.hasSuffix("\r\n\r\n{}"))
        for field in ["Content-Type: application/json", "Content-Length: 2", "X-Request-ID: mine"] {
            #expect(sent.contains("\(field)\r\n"))
        }
        #expect(sent.contains("Date: ") && sent.contains(" GMT\r\n"))
        #expect(!sent.contains("Vary") && connection.passed.isEmpty)
    }

    @Test("a body may come in pieces, and its request goes on as it came if it has no brief answer")
    func pieces() throws {
        let connection = try Connection()
        let request = Self.post("{\"a\":1}")
        for byte in request.utf8 { connection.receive(String(UnicodeScalar(byte))) }
        #expect(connection.sent.hasSuffix("{\"a\":1}"))
        let other = Self.post("[1,2]")
        connection.receive(String(other.prefix(other.count - 3)))
        #expect(connection.passed.isEmpty)
        connection.receive(String(other.suffix(3)))
        #expect(connection.sent.isEmpty)
        #expect(connection.passed == "POST /brief [1,2];")
        connection.answer()
        #expect(connection.sent.hasPrefix("HTTP/1.1 200"))
        connection.receive(Self.post("{}"))
        #expect(connection.sent.hasSuffix("{}"))
    }

    @Test(
        "a request that asks for more than a plain answer goes the other way",
        arguments: [
            "Accept: application/x-ndjson\r\n", "Accept: application/cbor\r\n",
            "Content-Type: application/cbor\r\n", "Content-Encoding: gzip\r\n", "Expect: 100-continue\r\n",
            "Idempotency-Key: k\r\n", "Origin: https://a.example\r\n", "Connection: close\r\n",
            "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n",
            "X-DITTO-TXN-ID: 3\r\n", "X-Mimeo-Console: cars\r\n", "Authorization: two\r\n",
            "Upgrade: h2c\r\n", "ACCEPT: text/html\r\n",
        ])
    func fields(_ field: String) throws {
        let connection = try Connection()
        connection.receive(Self.post("{}", field))
        #expect(connection.passed == "POST /brief {};")
        #expect(!connection.sent.contains("application/json"))
    }

    @Test("other paths, methods, versions, sizes and credentials go the other way")
    func others() throws {
        let head = "Host: x\r\nAuthorization: t\r\n"
        for (request, passed) in [
            (Self.post("{}", path: "/brief?a=1"), "POST /brief?a=1 {};"),
            (Self.post("{}", path: "/other"), "POST /other {};"),
            ("PUT /brief HTTP/1.1\r\n\(head)Content-Length: 2\r\n\r\n{}", "PUT /brief {};"),
            ("POST /brief HTTP/1.0\r\n\(head)Content-Length: 2\r\n\r\n{}", "POST /brief {};"),
            ("POST /brief HTTP/1.1\r\n\(head)Content-Length: 0\r\n\r\n", "POST /brief ;"),
            (
                "POST /brief HTTP/1.1\r\n\(head)Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
                "POST /brief {};"
            ),
            ("POST /brief HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", "POST /brief {};"),
            (
                "POST /brief HTTP/1.1\r\nHost: x\r\nAuthorization: bad\r\nContent-Length: 2\r\n\r\n{}",
                "POST /brief {};"
            ),
        ] {
            let connection = try Connection()
            connection.receive(request)
            #expect(connection.passed == passed)
        }
        let large = String(repeating: "{", count: Limits.briefBytes + 1)
        let connection = try Connection()
        connection.receive(Self.post(large))
        #expect(connection.passed == "POST /brief \(large);")
    }

    @Test("a refusal does not wait for a body: its head goes on at once")
    func earlyRefusal() throws {
        let connection = try Connection()
        connection.receive(
            "POST /brief HTTP/1.1\r\nHost: x\r\nAuthorization: bad\r\nContent-Length: 9\r\n\r\n{")
        #expect(connection.passed == "POST /brief {")
    }

    @Test("one answer a read: the further requests of it go the other way, in their order")
    func pipelining() throws {
        let connection = try Connection()
        connection.receive(Self.post("{1}") + Self.post("{2}") + Self.post("{3}"))
        #expect(connection.sent.hasSuffix("{1}"))
        #expect(connection.passed == "POST /brief {2};POST /brief {3};")
        connection.answer()
        // The third request has no answer yet, so a fourth must wait for it.
        connection.receive(Self.post("{4}"))
        #expect(connection.passed == "POST /brief {4};")
        connection.answer()
        connection.answer()
        _ = connection.sent
        connection.receive(Self.post("{5}"))
        #expect(connection.sent.hasSuffix("{5}"))
    }

    @Test("a request behind one that is being answered goes the other way")
    func outstanding() throws {
        let connection = try Connection()
        connection.receive("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.receive(Self.post("{}"))
        #expect(connection.passed == "GET /slow ;POST /brief {};")
        #expect(connection.sent.isEmpty)
    }

    @Test("a client that does not read its answers gets no more of them here, until it reads")
    func unread() throws {
        let connection = try Connection()
        connection.receive(Self.post("{1}"))
        connection.isRead = false
        connection.receive(Self.post("{2}"))
        #expect(connection.sent.hasSuffix("{1}"))
        #expect(connection.passed == "POST /brief {2};")
        connection.isRead = true
        connection.answer()
        connection.receive(Self.post("{3}"))
        #expect(connection.sent.hasSuffix("{3}"))
    }

    @Test("a longer answer tells caches what it depends on, and a client that unpacks gets none here")
    func lengths() throws {
        let long = "{" + String(repeating: " ", count: Limits.packedAnswerBytes)
        let connection = try Connection()
        connection.receive(Self.post(long))
        #expect(connection.sent.contains("Vary: Accept-Encoding\r\n"))
        let asked = Box(0)
        let other = try Connection { _, _ in
            { _, most in
                asked.change { $0 = most }
                return nil
            }
        }
        other.receive(Self.post("{}", "Accept-Encoding: gzip, br\r\n"))
        #expect(asked.value == Limits.packedAnswerBytes - 1)
    }

    @Test("a request whose body breaks off, or during which the host stops, goes on with what there is")
    func broken() throws {
        let head = "POST /brief HTTP/1.1\r\nHost: x\r\nAuthorization: t\r\nContent-Length: 9\r\n\r\n{"
        let silent = try Connection()
        silent.receive(head)
        #expect(silent.passed.isEmpty)
        silent.pass(.minutes(5))
        #expect(silent.passed.hasPrefix("POST /brief {error;"))
        let stopping = try Connection()
        stopping.receive(head)
        stopping.stop()
        #expect(stopping.passed == "POST /brief {")
        stopping.receive("12345678")
        #expect(stopping.passed == "12345678;")
    }

    @Test("now and then a request of a busy connection is seen by the timer of idle ones")
    func renewal() throws {
        let connection = try Connection()
        connection.receive(Self.post("{1}"))
        #expect(connection.passed.isEmpty)
        connection.pass(TimeAmount(Limits.briefRenewal))
        connection.receive(Self.post("{2}"))
        #expect(connection.passed == "POST /brief {2};")
        connection.answer()
        connection.receive(Self.post("{3}"))
        #expect(connection.passed.isEmpty)
    }

    @Test("where every request has its line, or answers depend on their origin, none is answered here")
    func lines() throws {
        let logging = try Connection(logsAll: true)
        logging.receive(Self.post("{}"))
        #expect(logging.passed == "POST /brief {};")
        let choosy = try Connection(cors: try CORSPolicy(origins: ["https://a.example"]))
        choosy.receive(Self.post("{}"))
        #expect(choosy.passed == "POST /brief {};")
        let open = try Connection(cors: try CORSPolicy(origins: ["*"]))
        open.receive(Self.post("{}"))
        #expect(open.passed.isEmpty)
    }

    @Test(
        "a date is written as RFC 9110 says",
        arguments: [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] as [(Int64, String)])
    func dates(_ seconds: Int64, _ text: String) {
        #expect(HTTPDate.text(of: seconds) == text)
    }

    @Test("ids of requests are 32 hexadecimal digits, and no two are alike")
    func ids() {
        let ids = (0..<1_000).map { _ in RequestID.made() }
        #expect(Set(ids).count == 1_000)
        #expect(ids.allSatisfy { $0.utf8.count == 32 && $0.allSatisfy { "0123456789abcdef".contains($0) } })
    }
}
