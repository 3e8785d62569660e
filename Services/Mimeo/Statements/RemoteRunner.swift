import AsyncHTTPClient
import CRDT
import DittoSwift
import Foundation
import Synchronization

/// Runs statements on a server over HTTP. A login that has expired is repeated.
///
/// `bearer` holds the access token of the latest login.
final class RemoteRunner: StatementRunner {
    private let origin: String
    private let bearer: Mutex<String>
    /// The body of a login; nil with an API key.
    private let credentials: Value?

    /// Uses an API key.
    init(origin: String, apiKey: String) throws {
        self.origin = try Self.checked(origin)
        bearer = Mutex(apiKey)
        credentials = nil
    }

    /// Logs in.
    /// - Throws: `CLI-0301`, `CLI-0302`.
    init(origin: String, databaseID: String, provider: String, token: String) async throws {
        self.origin = try Self.checked(origin)
        let body: Value = [
            "databaseID": .string(databaseID), "provider": .string(provider), "token": .string(token),
        ]
        credentials = body
        bearer = Mutex(try await Self.logIn(self.origin, body))
    }

    /// The access token of a login.
    private static func logIn(_ origin: String, _ credentials: Value) async throws -> String {
        let (status, answer) = try await post("\(origin)/_ditto/auth/login", credentials, bearer: nil)
        guard status == 200, let accessToken = answer?["accessToken"]?.stringValue else {
            throw refusal(.notLoggedIn, status, answer)
        }
        return accessToken
    }

    func run(_ statement: String, arguments: ObjectValue) async throws -> Answer {
        let body: Value = ["statement": .string(statement), "args": .object(arguments)]
        let url = "\(origin)/api/v5/store/execute"
        var (status, answer) = try await Self.post(url, body, bearer: bearer.withLock { $0 })
        if status == 401, let credentials {
            // A refused statement was not executed, so it can be sent again.
            let renewed = try await Self.logIn(origin, credentials)
            bearer.withLock { $0 = renewed }
            (status, answer) = try await Self.post(url, body, bearer: renewed)
        }
        switch status {
        case 200:
            guard let answer else {
                throw MimeoError(
                    .serverUnreachable, "the server's answer is not JSON; check --url: \(origin)")
            }
            return .result(Self.result(answer))
        case 401, 403: throw Self.refusal(.notLoggedIn, status, answer)
        case 500...: throw Self.refusal(.serverUnreachable, status, answer)
        default: return .failure(Self.problem(status, answer))
        }
    }

    func close() async {}

    /// A request whose answer is a stream.
    struct StreamRequest: Sendable {
        var method = "GET"
        var path: String
        var body: Value?
        /// The id of the last event that the client has.
        var lastEventID: String?
    }

    /// Opens a stream of JSON lines. A login that has expired is repeated.
    /// - Throws: `CLI-0301`, `CLI-0302`, `Refusal`.
    func open(_ wanted: StreamRequest) async throws -> HTTPClientResponse {
        var response = try await send(wanted)
        if response.status.code == 401, let credentials {
            let renewed = try await Self.logIn(origin, credentials)
            bearer.withLock { $0 = renewed }
            response = try await send(wanted)
        }
        guard response.status.code != 200 else { return response }
        let status = response.status.code
        let text = (try? await response.body.collect(upTo: Limits.fileChunkBytes)).map {
            Array($0.readableBytesView)
        }
        let answer = text.flatMap { try? JSONText.parse($0) }
        switch status {
        case 401: throw Self.refusal(.notLoggedIn, status, answer)
        case 429, 500...: throw Self.refusal(.serverUnreachable, status, answer)
        default:
            let problem = Self.problem(status, answer)
            throw Refusal(
                error: answer?["error"]
                    ?? ["code": .string(problem.code), "message": .string(problem.message)])
        }
    }

    private func send(_ wanted: StreamRequest) async throws -> HTTPClientResponse {
        var request = HTTPClientRequest(url: origin + wanted.path)
        request.method = .RAW(value: wanted.method)
        request.headers.add(name: "Authorization", value: "Bearer \(bearer.withLock { $0 })")
        request.headers.add(name: "Accept", value: "application/x-ndjson")
        if let id = wanted.lastEventID { request.headers.add(name: "Last-Event-ID", value: id) }
        if let body = wanted.body {
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .bytes(Array(JSONText.print(body).utf8))
        }
        do {
            return try await HTTPConnections.execute(request, seconds: Limits.streamSeconds)
        } catch {
            throw MimeoError(.serverUnreachable, "\(origin) cannot be reached: \(error)")
        }
    }

    static func result(_ body: Value) -> Answer.Result {
        let warnings = (body["warnings"]?.arrayValue ?? []).map { warning -> Value in
            guard var members = warning.objectValue, let text = members["description"] else { return warning }
            members["description"] = nil
            members["message"] = text
            return .object(members)
        }
        return Answer.Result(
            items: body["items"]?.arrayValue ?? [],
            mutatedDocumentIDs: body["mutatedDocumentIds"]?.arrayValue ?? [],
            commitID: UInt64(clamping: body["transactionId"]?.intValue ?? 0), warnings: warnings)
    }

    static func problem(_ status: UInt, _ body: Value?) -> Answer.Problem {
        let error = body?["error"]
        let message =
            error?["description"]?.stringValue ?? error?["message"]?.stringValue
            ?? "the server answered with status \(status)"
        return Answer.Problem(
            code: error?["code"]?.stringValue ?? "HTTP-\(status)",
            message: Failure.text(message, suggestion: error?["suggestion"]?.stringValue),
            line: error?["line"]?.intValue.map { Int($0) }, column: error?["column"]?.intValue.map { Int($0) }
        )
    }

    private static func refusal(_ code: MimeoErrorCode, _ status: UInt, _ body: Value?) -> MimeoError {
        let problem = problem(status, body)
        return MimeoError(code, "\(problem.code): \(problem.message)")
    }

    /// The origin without a slash at its end.
    /// - Throws: `CLI-0101`.
    static func checked(_ origin: String) throws(MimeoError) -> String {
        guard let url = URLComponents(string: origin), url.scheme == "http" || url.scheme == "https",
            url.host?.isEmpty == false
        else { throw MimeoError(.usage, "--url must be http://HOST[:PORT] or https://HOST[:PORT]") }
        return origin.hasSuffix("/") ? String(origin.dropLast()) : origin
    }

    private static func post(_ url: String, _ body: Value, bearer: String?) async throws -> (UInt, Value?) {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        if let bearer { request.headers.add(name: "Authorization", value: "Bearer \(bearer)") }
        request.body = .bytes(Array(JSONText.print(body).utf8))
        do {
            let response = try await HTTPConnections.execute(
                request, seconds: Limits.requestTimeoutSeconds)
            let text = try await response.body.collect(upTo: Limits.answerBytes)
            return (response.status.code, try? JSONText.parse(Array(text.readableBytesView)))
        } catch {
            throw MimeoError(.serverUnreachable, "\(url) cannot be reached: \(error)")
        }
    }
}
