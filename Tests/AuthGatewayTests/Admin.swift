import AsyncHTTPClient
import Foundation
import NIOCore
import ServiceKit

/// Speaks to `/admin/auth` of a gateway.
struct Admin: Sendable {
    let address: ListenAddress
    let credential: String?

    /// With the credential that the gateway made.
    init(_ address: ListenAddress, _ fixture: GatewayFixture) throws {
        let text = try String(contentsOfFile: "\(fixture.folder)/admin.token", encoding: .utf8)
        self.init(address, credential: text.trimmingCharacters(in: .whitespacesAndNewlines))
    }

    init(_ address: ListenAddress, credential: String?) {
        self.address = address
        self.credential = credential
    }

    func get(_ path: String) async throws -> Answer { try await send("GET", path) }
    func post(_ path: String, _ body: String) async throws -> Answer { try await send("POST", path, body) }
    func delete(_ path: String) async throws -> Answer { try await send("DELETE", path) }

    func send(_ method: String, _ path: String, _ body: String? = nil) async throws -> Answer {
        var request = HTTPClientRequest(url: "\(address.origin)/admin/auth/\(path)")
        request.method = .RAW(value: method)
        if let credential { request.headers.add(name: "Authorization", value: "Bearer \(credential)") }
        if let body { request.body = .bytes(Array(body.utf8)) }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
        return Answer(
            status: Int(response.status.code),
            body: Array(buffer: try await response.body.collect(upTo: 1_000_000)),
            retryAfter: response.headers.first(name: "Retry-After"))
    }
}

extension Answer {
    /// The items of a list.
    func items(_ name: String) -> [[String: String]] {
        let object = (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any]
        return (object?[name] as? [[String: Any]] ?? []).map { $0.mapValues { "\($0)" } }
    }

    var text: String { String(decoding: body, as: UTF8.self) }
}
