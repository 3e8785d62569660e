import AsyncHTTPClient
import CRDT
import DittoSwift
import Foundation

/// Runs statements on a server over HTTP.
struct RemoteRunner: StatementRunner {
    private let origin: String
    private let bearer: String

    /// Uses an API key.
    init(origin: String, apiKey: String) throws {
        self.origin = try Self.checked(origin)
        bearer = apiKey
    }

    /// Logs in.
    /// - Throws: `CLI-0301`, `CLI-0302`.
    init(origin: String, databaseID: String, provider: String, token: String) async throws {
        self.origin = try Self.checked(origin)
        let body: Value = [
            "databaseID": .string(databaseID), "provider": .string(provider), "token": .string(token),
        ]
        let (status, answer) = try await Self.post("\(self.origin)/_ditto/auth/login", body, bearer: nil)
        guard status == 200, let accessToken = answer?["accessToken"]?.stringValue else {
            throw Self.refusal(.notLoggedIn, status, answer)
        }
        bearer = accessToken
    }

    func run(_ statement: String, arguments: ObjectValue) async throws -> Answer {
        let body: Value = ["statement": .string(statement), "args": .object(arguments)]
        let (status, answer) = try await Self.post("\(origin)/api/v5/store/execute", body, bearer: bearer)
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
            error?["message"]?.stringValue ?? error?["description"]?.stringValue
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

    private static func checked(_ origin: String) throws -> String {
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
