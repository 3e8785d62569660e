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
        mount.on(.get, "/items/:id") { _, context in .json(Array(try context.parameters.require("id").utf8)) }
        mount.on(.head, "/items/:id") { _, _ in .json(Array("four".utf8)) }
        mount.on(.get, "/defect") { _, _ in throw CancellationError() }
        mount.on(.get, "/foreign") { _, _ in throw HTTPError(.conflict, message: "no") }
    }

    @Test("a route answers, with its parameters and its body")
    func routes() async throws {
        try await serving(Self.routes) { address async throws in
            #expect(
                try await ask(address, "/echo", method: "POST", body: Array("hello".utf8)).body == "hello")
            #expect(try await ask(address, "/items/7?x=1").body == "7")
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
            #expect(method.headers["allow"] == "GET, HEAD")
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
            #expect(!text.body.contains("first"))
        }
    }
}
