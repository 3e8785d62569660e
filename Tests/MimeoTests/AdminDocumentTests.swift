import Foundation
import Logging
import Mimeo
import ServiceKit
import TestSupport
import Testing

@Suite("The documented admin routes")
struct AdminDocumentTests {
    private static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// A request as a README has it: `GET`, and a path whose beginning may be an ellipsis.
    private struct Documented: Hashable {
        var method: String
        var path: String

        func isOf(_ route: String) -> Bool {
            let parts = route.split(separator: " ").map(String.init)
            guard parts[0] == method else { return false }
            let known = AdminDocumentTests.plain(parts[1])
            guard !path.hasPrefix("…") else { return known.hasSuffix(path.dropFirst()) }
            // `/admin/<service>/settings` stands for that of each service.
            let (wanted, found) = (path.split(separator: "/"), known.split(separator: "/"))
            return wanted.count == found.count && zip(wanted, found).allSatisfy { $0 == "*" || $0 == $1 }
        }
    }

    /// A path with `*` for each parameter, which is upper case or begins with a colon.
    private static func plain(_ path: String) -> String {
        path.split(separator: "/", omittingEmptySubsequences: false).map { part in
            let isParameter =
                part.hasPrefix(":") || part.hasPrefix("<")
                || !part.isEmpty && part.allSatisfy { $0.isUppercase || $0 == "-" }
            return isParameter ? "*" : String(part)
        }.joined(separator: "/")
    }

    /// The requests of a table's rows: code with methods, of which the last has a path that is for all.
    private static func documented(_ text: String) -> Set<Documented> {
        let methods: Set<String> = ["GET", "POST", "PATCH", "PUT", "DELETE"]
        var found: Set<Documented> = []
        for row in text.split(separator: "\n") where row.hasPrefix("| `") {
            let cell = row.dropFirst(2).prefix { $0 != "|" }
            var waiting: [String] = []
            for (index, code) in cell.split(separator: "`", omittingEmptySubsequences: false).enumerated()
            where index % 2 == 1 {
                let words = code.split(separator: " ").map(String.init)
                waiting += words.filter { methods.contains($0) }
                guard let path = words.first(where: { $0.hasPrefix("/admin/") || $0.hasPrefix("…") }) else {
                    continue
                }
                let end = path.firstIndex { $0 == "?" } ?? path.endIndex
                for method in waiting {
                    found.insert(Documented(method: method, path: plain(String(path[..<end]))))
                }
                waiting = []
            }
        }
        return found
    }

    @Test("each exists, and each admin route is documented by its service")
    func complete() async throws {
        try await withTemporaryDirectory { folder in
            let options = try ServiceOptions.parse(["--data", folder.path])
            let services = try AllServices(
                try ServiceConfiguration(options, port: AllServices.defaultPort),
                logger: Logger(label: "test"))
            // The health of each service is documented once for all, by ServiceKit.
            let all = try ServiceMount.routes(of: services.parts)
            let routes = all.filter { $0.contains(" /admin/") && !$0.hasSuffix("/health") }
            await services.close()
            var documented: Set<Documented> = []
            for service in ["AuthGateway", "Replicator", "QueryService", "AttachmentStore", "Console"] {
                let page = Self.root.appendingPathComponent("Services/\(service)/README.md")
                documented.formUnion(Self.documented(try String(contentsOf: page, encoding: .utf8)))
            }
            for name in ["admin", "people"] {
                let page = Self.root.appendingPathComponent("Docs/\(name).md")
                documented.formUnion(Self.documented(try String(contentsOf: page, encoding: .utf8)))
            }
            let admin = documented.filter { $0.path.hasPrefix("/admin/") || $0.path.hasPrefix("…") }
            #expect(admin.count > 20)
            for request in admin {
                #expect(
                    all.contains { request.isOf($0) }, "\(request.method) \(request.path) is not served")
            }
            for route in routes {
                #expect(admin.contains { $0.isOf(route) }, "\(route) is not documented")
            }
        }
    }
}
