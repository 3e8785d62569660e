import AsyncHTTPClient
import CRDT
import DittoSwift
import Foundation
import ServiceKit

/// Sends admin requests to a server.
struct AdminClient: Sendable {
    /// The end of a request.
    enum Answer: Sendable {
        /// Done, with a body or without one.
        case done(Value?)
        /// Refused, or failed.
        case failure(status: UInt, Mimeo.Answer.Problem)
    }

    let origin: String
    let credential: String

    /// Sends the request of a command.
    /// - Throws: `CLI-0301`.
    func send(_ call: AdminCall) async throws -> Answer {
        let (status, bytes) = try await exchange(
            call.route.method.rawValue, call.path, call.body.map { Array(JSONText.print($0).utf8) })
        let body = try? JSONText.parse(bytes)
        // Health that fails is an answer, and tells why.
        if status < 300 || status == 503 && body?["status"] != nil { return .done(body) }
        return .failure(status: status, RemoteRunner.problem(status, body))
    }

    /// Gets a path as text, for a bundle; nil where the server does not answer with 200 or 503.
    func text(_ path: String) async throws -> String? {
        let (status, bytes) = try await exchange("GET", path, nil)
        return status == 200 || status == 503 ? String(decoding: bytes, as: UTF8.self) : nil
    }

    /// Gets a path's JSON.
    func value(_ path: String) async throws -> Value? {
        try await text(path).flatMap { try? JSONText.parse(Array($0.utf8)) }
    }

    /// Name and role of the credential.
    /// - Throws: `CLI-0301`, `CLI-0302`.
    func whoami() async throws -> Value {
        let (status, bytes) = try await exchange("GET", "/admin/auth/whoami", nil)
        let body = try? JSONText.parse(bytes)
        guard status == 200, let body else {
            let problem = RemoteRunner.problem(status, body)
            throw MimeoError(.notLoggedIn, "\(problem.code): \(problem.message)")
        }
        return body
    }

    private func exchange(_ method: String, _ path: String, _ body: [UInt8]?) async throws -> (UInt, [UInt8])
    {
        var request = HTTPClientRequest(url: origin + path)
        request.method = .RAW(value: method)
        request.headers.add(name: "Authorization", value: "Bearer \(credential)")
        if let body {
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .bytes(body)
        }
        do {
            let response = try await HTTPConnections.execute(request, seconds: Limits.adminTimeoutSeconds)
            let content = try await response.body.collect(upTo: Limits.answerBytes)
            return (response.status.code, Array(content.readableBytesView))
        } catch {
            throw MimeoError(.serverUnreachable, "\(origin) cannot be reached: \(error)")
        }
    }
}
