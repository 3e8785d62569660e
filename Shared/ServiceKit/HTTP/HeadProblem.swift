import HTTPTypes
import NIOCore
import NIOHTTP1

/// Errors of a request that only its bytes show: no route sees these requests.
enum HeadProblem {
    /// The decoder takes these heads, and no route should see them.
    static func of(_ head: HTTPRequestHead) -> ServiceError? {
        let hosts = head.headers["host"].count
        guard hosts == 1 || hosts == 0 && head.isOld else {
            return ServiceError(.badRequest, "a request has exactly one Host")
        }
        let codings = head.headers[canonicalForm: "transfer-encoding"]
        guard codings.isEmpty || codings.map({ $0.lowercased() }) == ["chunked"] else {
            return ServiceError(.badRequest, "the only Transfer-Encoding that is understood is chunked")
        }
        guard codings.isEmpty || !head.headers.contains(name: "content-length") else {
            return ServiceError(.badRequest, "a body has Transfer-Encoding or Content-Length, not both")
        }
        let target = head.uri
        guard
            target.hasPrefix("/") || target == "*" && head.method == .OPTIONS
                || target.hasPrefix("http://") || target.hasPrefix("https://")
        else {
            return ServiceError(.badRequest, "the target of a request begins with '/'")
        }
        return nil
    }

    static func of(_ error: HTTPParserError, hasLine: Bool, isInBody: Bool) -> ServiceError {
        switch error {
        case .headerOverflow where !hasLine:
            ServiceError(
                .lineTooLong, "the first line of a request has at most \(Limits.headLineBytes) bytes")
        case .headerOverflow:
            ServiceError(
                .headTooLarge,
                "the head of a request has at most \(Limits.headBytes) bytes, \(Limits.headLineBytes) a line "
                    + "and \(Limits.headFields) fields")
        case .invalidEOFState, .closedConnection:
            ServiceError(
                .badRequest,
                isInBody
                    ? "the body ended before the length that was announced" : "the request ended in its head")
        case .invalidVersion: ServiceError(.badRequest, "the request is not HTTP/1.1 or HTTP/1.0")
        case .invalidContentLength, .unexpectedContentLength:
            ServiceError(
                .badRequest, "Content-Length is no number, stands twice or beside Transfer-Encoding")
        case .invalidChunkSize: ServiceError(.badRequest, "the chunks of the body are malformed")
        default:
            ServiceError(
                .badRequest, isInBody ? "the body is malformed" : "the request is not valid HTTP/1.1")
        }
    }
}
