import CRDT
import Foundation
import HTTPTypes
import Hummingbird
import Testing

@testable import ServiceKit

@Suite("Surface: the table of routes")
struct SurfaceTests {
    private func parsed() throws -> Value { try JSONText.parse(OpenAPI.json) }

    /// Every value of a member, wherever it stands.
    private func all(_ name: String, in value: Value) -> [Value] {
        switch value {
        case .object(let object):
            object.entries.flatMap { ($0.key == name ? [$0.value] : []) + all(name, in: $0.value) }
        case .array(let values): values.flatMap { all(name, in: $0) }
        default: []
        }
    }

    @Test("every name and every pair of method and path stands once")
    func unique() {
        let names = Surface.routes.map(\.name)
        #expect(Set(names).count == names.count)
        #expect(names.allSatisfy { $0.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) } })
        let routes = Surface.routes.map { "\($0.method) \($0.path)" }
        #expect(Set(routes).count == routes.count)
        #expect(Surface.routes.allSatisfy { $0.summary.hasSuffix(".") && !$0.answers.isEmpty })
    }

    @Test("the document has every route, and each reference in it leads to a shape")
    func references() throws {
        let document = try parsed()
        #expect(document["openapi"] == "3.1.0")
        for route in Surface.routes {
            let operation = document["paths"]?[route.template]?[route.method.rawValue.lowercased()]
            #expect(operation?["operationId"] == .string(route.name))
            let named = operation?["parameters"]?.arrayValue ?? []
            for name in route.pathParameters {
                #expect(named.contains { $0["name"] == .string(name) && $0["in"] == "path" }, "\(route.path)")
            }
        }
        let shapes = Set((document["components"]?["schemas"]?.objectValue?.entries ?? []).map(\.key))
        for reference in all("$ref", in: document) {
            let name = reference.stringValue?.split(separator: "/").last.map(String.init) ?? ""
            #expect(shapes.contains(name), "\(reference)")
        }
    }

    @Test("the page for people names every route, escapes its texts, and loads nothing")
    func page() {
        let page = String(decoding: ReferencePage.html, as: UTF8.self)
        for route in Surface.routes {
            #expect(page.contains("<h3 id=\"\(route.name)\">"), "\(route.name)")
        }
        #expect(!page.contains("src="))
        #expect(!page.contains("<script"))
        #expect(!page.contains("http://") && !page.contains("https://"))
        #expect(ReferencePage.policy.contains("default-src 'none'"))
    }

    @Test("document and page are served by every process, with HEAD, and to nobody's credential")
    func served() async throws {
        try await serving({ _ in }) { address in
            for path in ["/openapi.json", "/api/v5/openapi.json", "/api/v5/swagger.json"] {
                let answer = try await ask(address, path)
                #expect(answer.status == 200)
                #expect(try JSONText.parse(answer.body) == (try parsed()))
            }
            let page = try await ask(address, "/api/v5/docs")
            #expect(page.headers["content-type"] == "text/html; charset=utf-8")
            #expect(page.headers["content-security-policy"] == ReferencePage.policy)
            #expect(try await ask(address, "/api/v5/docs", method: "HEAD").body == "")
            #expect(try await ask(address, "/openapi.json?a=1").code == "SRV-0400")
        }
    }

    @Test("a route takes the query parameters that its description has, and no others")
    func parameters() async throws {
        let path = "/admin/replicator/databases"
        try await serving({ mount in
            mount.on(.get, path) { _, _ in .json(Array("{}".utf8)) }
        }) { address in
            #expect(try await ask(address, "\(path)?after=a&limit=1").status == 200)
            let refused = try await ask(address, "\(path)?limits=1")
            #expect(refused.status == 400)
            #expect(refused.body.contains("did you mean"))
        }
    }
}
