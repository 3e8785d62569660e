import AsyncHTTPClient
import CRDT
import Foundation

/// One `POST /_ditto/auth/login`.
struct LoginRequest: Sendable {
    var databaseID: String
    var provider: String
    var token: String
    var peerKey: String

    /// The server's answer.
    struct Answer: Sendable {
        var accessToken: String
        var lifetimeSeconds: Double
        var userID: String
        /// JSON text: the provider's information for the application.
        var clientInfo: String?
    }

    /// Sends it.
    /// - Throws: `SDK-0302` to `SDK-0304`, `SDK-0307`, or the server's own code; `CancellationError` when the
    ///   task is cancelled before the server has answered.
    func send(to url: URL) async throws -> Answer {
        let members: Value = [
            "databaseID": .string(databaseID), "provider": .string(provider), "token": .string(token),
            "peerKey": .string(peerKey),
        ]
        let (status, body) = try await Self.exchange(members, with: url)
        return try Self.answer(status, body)
    }

    /// Posts JSON to the auth-gateway.
    /// - Throws: as `send`.
    static func post(_ members: Value, to url: URL) async throws -> Value {
        let (status, body) = try await exchange(members, with: url)
        guard status == 200, let body else { throw refusal(status, body) }
        return body
    }

    private static func exchange(_ members: Value, with url: URL) async throws -> (UInt, Value?) {
        try Task.checkCancellation()
        var request = HTTPClientRequest(url: url.absoluteString)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.body = .bytes(Array(JSONText.print(members).utf8))
        do {
            let response = try await HTTPConnections.execute(
                request, seconds: Limits.loginTimeoutSeconds)
            let answer = try await response.body.collect(upTo: Limits.loginAnswerBytes)
            return (response.status.code, try? JSONText.parse(Array(answer.readableBytesView)))
        } catch {
            // A cancelled task says nothing about the server.
            if Task.isCancelled { throw CancellationError() }
            if let error = error as? SDKError { throw error }
            throw SDKError(.serverUnreachable, "the server cannot be reached to log in: \(error)")
        }
    }

    static func answer(_ status: UInt, _ body: Value?) throws(SDKError) -> Answer {
        guard status == 200 else { throw refusal(status, body) }
        guard let token = body?["accessToken"]?.stringValue, let userID = body?["userID"]?.stringValue,
            let lifetime = body?["expiresIn"]?.intValue, lifetime > 0
        else {
            throw SDKError(
                .loginAnswerMalformed, "the server's answer to the login is malformed")
        }
        return Answer(
            accessToken: token, lifetimeSeconds: Double(lifetime), userID: userID,
            clientInfo: body?["clientInfo"].map { JSONText.print($0) })
    }

    private static func refusal(_ status: UInt, _ body: Value?) -> SDKError {
        if let code = body?["error"]?["code"]?.stringValue,
            let message = body?["error"]?["message"]?.stringValue
        {
            return SDKError(
                refusedBy: code, message, clientInfo: body?["clientInfo"].map { JSONText.print($0) })
        }
        return SDKError(.loginRefused, "the server answered the login with status \(status)")
    }
}
