import AsyncHTTPClient
import Foundation
import NIOCore
import ServiceKit
import Synchronization

@testable import AuthGateway

/// A served gateway with the database `fleet` and its provider of accounts `staff`, and a clock that a test
/// moves.
struct People: Sendable {
    let admin: Admin
    let gateway: AuthGateway
    let clock: Clock

    /// Seconds since 1970, moved by hand.
    final class Clock: Sendable {
        private let now = Mutex(GatewayFixture.now)
        var seconds: Int64 { now.withLock { $0 } }
        func move(_ seconds: Int64) { now.withLock { $0 += seconds } }
    }

    static let password = "correct horse battery"
    static let reader = #"{"read":{"everything":true}}"#

    /// Serves one for a test.
    static func serving(
        _ fixture: GatewayFixture = GatewayFixture(), accounts: String = "{}",
        choosing choose: (inout AuthGateway.Options) -> Void = { $0.trustsProxy = true },
        _ body: @escaping @Sendable (People) async throws -> Void
    ) async throws {
        let clock = Clock()
        let gateway = try fixture.gateway(now: { clock.seconds }, choosing: choose)
        try await fixture.serving(gateway) { address async throws in
            let people = People(admin: try Admin(address, fixture), gateway: gateway, clock: clock)
            _ = try await people.admin.post("databases", #"{"id":"fleet"}"#)
            _ = try await people.post("providers", #"{"name":"staff","accounts":\#(accounts)}"#)
            try await body(people)
        }
    }

    func get(_ path: String) async throws -> Answer { try await admin.get("databases/fleet/\(path)") }
    func post(_ path: String, _ body: String) async throws -> Answer {
        try await admin.post("databases/fleet/\(path)", body)
    }
    func send(_ method: String, _ path: String, _ body: String? = nil) async throws -> Answer {
        try await admin.send(method, "databases/fleet/\(path)", body)
    }

    /// Makes an account with a password.
    @discardableResult
    func account(_ name: String, more: String = ",\"permissions\":\(reader)") async throws -> Answer {
        try await post(
            "accounts", #"{"provider":"staff","name":"\#(name)","password":"\#(Self.password)"\#(more)}"#)
    }

    /// Logs in.
    func login(
        _ name: String, _ password: String = password, code: String? = nil, peerKey: String? = nil,
        from origin: String? = nil
    ) async throws -> Answer {
        var token = ["name": name, "password": password]
        token["code"] = code
        let text = String(decoding: try JSONEncoder().encode(token), as: UTF8.self)
        return try await login(token: text, peerKey: peerKey, from: origin)
    }

    func login(
        token: String, provider: String = "staff", peerKey: String? = nil, from origin: String? = nil
    ) async throws -> Answer {
        var members = ["databaseID": "fleet", "provider": provider, "token": token]
        members["peerKey"] = peerKey
        let body = String(decoding: try JSONEncoder().encode(members), as: UTF8.self)
        return try await AuthGatewayTests.login(admin.address, body, from: origin)
    }

    /// A call of a route for people, with the token of a session or none.
    func call(
        _ method: String, _ path: String, _ members: [String: String] = [:], as token: String? = nil,
        from origin: String? = nil, raw: String? = nil
    ) async throws -> Answer {
        var request = HTTPClientRequest(url: "\(admin.address.origin)/_ditto/auth/\(path)")
        request.method = .RAW(value: method)
        if let token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
        if let origin { request.headers.add(name: "X-Forwarded-For", value: origin) }
        if method != "GET", method != "DELETE" {
            let body = String(decoding: try JSONEncoder().encode(members), as: UTF8.self)
            request.body = .bytes(Array((raw ?? body).utf8))
        }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        return Answer(
            status: Int(response.status.code),
            body: Array(buffer: try await response.body.collect(upTo: 1_000_000)),
            retryAfter: response.headers.first(name: "Retry-After"))
    }

    /// The token in the link of an answer.
    func token(_ answer: Answer) -> String {
        answer.object["link"].flatMap { $0.split(separator: "/").last.map(String.init) } ?? ""
    }

    /// The code of a second factor's secret now.
    func code(_ secret: String) -> String {
        OneTimeCode.code(OneTimeCode.bytes(ofBase32: secret) ?? [], clock.seconds / OneTimeCode.stepSeconds)
    }
}

extension Answer {
    var accessToken: String { object["accessToken"] ?? "" }
}
