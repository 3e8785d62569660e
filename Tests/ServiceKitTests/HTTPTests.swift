import Hummingbird
import NIOCore
import ServiceKit
import Testing

@Suite("HTTP")
struct HTTPTests {
    @Sendable private static func routes(_ mount: inout ServiceMount) {
        mount.on(.post, "/echo") { request, _ in
            Response(
                status: .ok, body: ResponseBody(byteBuffer: try await request.wholeBody(limitBytes: 100)))
        }
        mount.on(.get, "/items/:id", query: ["limit"]) { _, context in
            .json(Array(try context.parameters.require("id").utf8))
        }
        mount.on(.head, "/items/:id") { _, _ in .json(Array("four".utf8)) }
        mount.on(.get, "/text") { _, _ in .json((0..<1_250).flatMap { Array("\($0 % 9000 + 1000)".utf8) }) }
        mount.on(.get, "/defect") { _, _ in throw CancellationError() }
        mount.on(.get, "/foreign") { _, _ in throw HTTPError(.conflict, message: "no") }
    }

    @Test("a route answers, with its parameters and its body")
    func routes() async throws {
        try await serving(Self.routes) { address async throws in
            #expect(
                try await ask(address, "/echo", method: "POST", body: Array("hello".utf8)).body == "hello")
            #expect(try await ask(address, "/items/7?limit=1").body == "7")
        }
    }

    @Test("an unknown path is a 404 and another method a 405, both with the error body")
    func unknown() async throws {
        try await serving(Self.routes) { address async throws in
            let missing = try await ask(address, "/nothing")
            #expect(missing.status == 404)
            #expect(missing.code == "SRV-0404")
            let method = try await ask(address, "/items/7", method: "DELETE")
            #expect(method.status == 405)
            #expect(method.code == "SRV-0405")
            #expect(method.headers["allow"] == "GET, HEAD, OPTIONS")
        }
    }

    @Test("a body over the route's limit is a 413, announced or not")
    func bodyTooLarge() async throws {
        try await serving(Self.routes) { address async throws in
            let long = [UInt8](repeating: 65, count: 101)
            let answer = try await ask(address, "/echo", method: "POST", body: long)
            #expect(answer.status == 413)
            #expect(answer.code == "SRV-0413")
            let headers = "Host: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
            let request = "POST /echo HTTP/1.1\r\n\(headers)\r\nC8\r\n"
            let chunk = String(repeating: "A", count: 200)
            let raw = try await RawConnection.exchange(address, "\(request)\(chunk)\r\n0\r\n\r\n")
            #expect(raw.hasPrefix("HTTP/1.1 413"))
        }
    }

    @Test("a defect is a 500 that says nothing about its cause; a framework's error keeps our shape")
    func failures() async throws {
        try await serving(Self.routes) { address async throws in
            let defect = try await ask(address, "/defect")
            #expect(defect.status == 500)
            #expect(defect.code == "SRV-0500")
            #expect(!defect.body.contains("Cancellation"))
            #expect(try await ask(address, "/foreign").code == "SRV-0400")
        }
    }

    @Test("HEAD has the headers and no body")
    func head() async throws {
        try await serving(Self.routes) { address async throws in
            let answer = try await ask(address, "/items/7", method: "HEAD")
            #expect(answer.headers["content-length"] == "4")
            #expect(answer.body == "")
        }
    }

    @Test("HEAD is there wherever GET is, and OPTIONS names a path's methods to whoever asks")
    func derivedMethods() async throws {
        try await serving(Self.routes) { address async throws in
            let head = try await ask(address, "/text", method: "HEAD")
            #expect(head.status == 200)
            #expect(head.headers["content-length"] == "5000")
            let options = try await ask(address, "/text", method: "OPTIONS")
            #expect(options.status == 204)
            #expect(options.headers["allow"] == "GET, HEAD, OPTIONS")
            #expect(try await ask(address, "/nothing", method: "OPTIONS").status == 404)
            let unheard = try await ask(address, "/echo", method: "PROPFIND")
            #expect(unheard.status == 405)
            #expect(unheard.headers["allow"] == "OPTIONS, POST")
        }
    }

    @Test("a path has one meaning in every spelling, and its parameters are decoded once")
    func paths() async throws {
        try await serving(Self.routes) { address async throws in
            #expect(try await ask(address, "/items/7/").body == "7")
            #expect(try await ask(address, "/%69tems/a%20b%2Fc%2541").body == "a b/c%41")
            for path in ["/items/%4", "/items/%zz", "/items/%ff"] {
                // An HTTP client would mend these.
                let request = "GET \(path) HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                let answer = try await RawConnection.exchange(address, request)
                #expect(answer.hasPrefix("HTTP/1.1 400"))
                #expect(answer.contains("SRV-0400"))
            }
        }
    }

    @Test("a query parameter that the route does not know is refused by name")
    func unknownParameter() async throws {
        try await serving(Self.routes) { address async throws in
            let answer = try await ask(address, "/items/7?limit=1&asOf=3")
            #expect(answer.status == 400)
            #expect(answer.body.contains(#"\"asOf\" is not a query parameter of this path"#))
            // Monitors add parameters of their own there.
            for path in ["/health", "/metrics", "/admin/test/health"] {
                #expect(try await ask(address, path).status == 200)
                #expect(try await ask(address, path + "?probe=1").status == 200)
            }
        }
    }

    @Test("an id of the client's comes back if it is sane, else one of ours, also with an error")
    func requestID() async throws {
        try await serving(Self.routes) { address async throws in
            let mine = try await ask(address, "/text", headers: ["X-Request-ID": "abc-1"])
            #expect(mine.headers["x-request-id"] == "abc-1")
            let bad = String(repeating: "a", count: 129)
            let made = try await ask(address, "/nothing", headers: ["X-Request-ID": bad])
            #expect(made.headers["x-request-id"]?.count == 32)
        }
    }

    @Test("a gzip body is unpacked up to the route's limit; another encoding is a 415")
    func packedBodies() async throws {
        try await serving(Self.routes) { address async throws in
            func send(_ body: [UInt8], _ encoding: String) async throws -> Answer {
                try await ask(
                    address, "/echo", method: "POST", headers: ["Content-Encoding": encoding], body: body)
            }
            #expect(try await send(GzipTests.packed("hello"), "gzip").body == "hello")
            #expect(try await send(GzipTests.packed("hello"), "identity, GZIP").body == "hello")
            let bomb = GzipTests.packed(String(repeating: "0", count: 3_000))
            #expect(bomb.count < 100)
            #expect(try await send(bomb, "gzip").code == "SRV-0413")
            let empty = Array(repeating: GzipTests.packed(""), count: 10).flatMap { $0 }
            #expect(try await send(empty, "gzip").code == "SRV-0413")
            #expect(try await send(Array("hello".utf8), "gzip").code == "SRV-0400")
            #expect(try await send(Array("hello".utf8), "br").code == "SRV-0415")
            #expect(try await send(GzipTests.packed("hello"), "gzip, gzip").code == "SRV-0415")
        }
    }

    @Test("an answer is packed for whoever takes gzip, and caches hear of it")
    func packedAnswers() async throws {
        try await serving(Self.routes) { address async throws in
            let plain = try await ask(address, "/text", headers: ["Accept-Encoding": "identity"])
            #expect(plain.headers["content-encoding"] == nil)
            #expect(plain.headers["vary"] == "Accept-Encoding")
            let packed = try await ask(address, "/text", headers: ["Accept-Encoding": "br, gzip"])
            #expect(packed.headers["content-encoding"] == "gzip")
            #expect(try await ask(address, "/items/7", headers: ["Accept-Encoding": "gzip"]).body == "7")
        }
    }

    @Test("a page of an origin that is named may ask, and others hear nothing")
    func origins() async throws {
        let policy = try CORSPolicy(origins: ["https://app.example.org"])
        try await serving([TestPart(mounting: Self.routes)], cors: policy) { address async throws in
            func ask(_ origin: String, _ path: String, _ method: String = "GET") async throws -> Answer {
                try await ServiceKitTests.ask(
                    address, path, method: method,
                    headers: [
                        "Origin": origin, "Access-Control-Request-Method": "POST",
                        "Access-Control-Request-Headers": "x-own",
                    ])
            }
            let preflight = try await ask("https://app.example.org", "/echo", "OPTIONS")
            #expect(preflight.status == 204)
            #expect(preflight.headers["access-control-allow-origin"] == "https://app.example.org")
            #expect(preflight.headers["access-control-allow-methods"] == "OPTIONS, POST")
            #expect(preflight.headers["access-control-allow-headers"] == "x-own")
            let error = try await ask("https://app.example.org", "/nothing")
            #expect(error.status == 404)
            #expect(error.headers["access-control-allow-origin"] == "https://app.example.org")
            let other = try await ask("https://other.example.org", "/nothing")
            #expect(other.headers["access-control-allow-origin"] == nil)
            #expect(other.headers["vary"] == "Origin")
        }
    }

    @Test("a request that asks for a protocol nobody speaks is answered as an ordinary one")
    func foreignUpgrade() async throws {
        try await serving(Self.routes) { address async throws in
            let headers = "Host: x\r\nConnection: close\r\nUpgrade: h2c\r\nContent-Length: 5\r\n"
            let raw = try await RawConnection.exchange(address, "POST /echo HTTP/1.1\r\n\(headers)\r\nhello")
            #expect(raw.hasPrefix("HTTP/1.1 200"))
            #expect(raw.hasSuffix("hello"))
        }
    }

    @Test("bytes that are no HTTP get a 400 and end the connection, and nothing else")
    func garbage() async throws {
        try await serving(Self.routes) { address async throws in
            let raw = try await RawConnection.exchange(address, "\u{1}\u{2} nonsense\r\n\r\n")
            #expect(raw.hasPrefix("HTTP/1.1 400"))
            #expect(raw.contains("SRV-0400"))
            #expect(try await ask(address, "/items/7").status == 200)
        }
    }

    @Test("health names every part and turns to 503 when one fails")
    func health() async throws {
        let well = TestPart(name: "well")
        let ill = TestPart(name: "ill", check: .failing("the disk is full"))
        try await serving([well, ill]) { address async throws in
            let all = try await ask(address, "/health")
            #expect(all.status == 503)
            #expect(all.body.contains(#""ill":{"detail":"the disk is full","status":"failing"}"#))
            #expect(try await ask(address, "/admin/well/health").status == 200)
            #expect(try await ask(address, "/admin/ill/health").status == 503)
        }
    }

    @Test("metrics count requests by route and not by path")
    func metrics() async throws {
        try await serving(Self.routes) { address async throws in
            _ = try await ask(address, "/items/first")
            _ = try await ask(address, "/items/second")
            let text = try await ask(address, "/metrics")
            #expect(text.headers["content-type"]?.hasPrefix("text/plain; version=0.0.4") == true)
            #expect(
                text.body.contains(#"http_requests_total{method="GET",route="/items/{id}",status="200"}"#))
            #expect(!text.body.contains("items/first"))
        }
    }
}
