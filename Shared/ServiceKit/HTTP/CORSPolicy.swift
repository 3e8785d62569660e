import HTTPTypes
import Hummingbird

/// The web pages that may call the services (the Fetch standard's CORS protocol): pages of the origins that
/// `--cors-origin` names, by default none.
///
/// Credentials of ours are header fields that a page sets itself, never cookies, so no answer allows
/// credentials that a browser would add, and `*` gives a page no right that its user's token does not have.
public struct CORSPolicy: Sendable, Equatable {
    /// Nobody.
    public static let none = CORSPolicy()

    /// The origins, as browsers write them; `*` for all.
    public private(set) var origins: Set<String> = []

    private init() {}

    /// The pages of these origins.
    /// - Throws: `SRV-0107`.
    public init(origins: [String]) throws(ServiceError) {
        for origin in origins {
            guard origin == "*" || Self.isOrigin(origin) else {
                throw ServiceError(
                    .corsOriginInvalid,
                    "--cors-origin: '\(origin)' is neither '*' nor an origin like https://app.example.org")
            }
            self.origins.insert(origin.lowercased())
        }
    }

    private static func isOrigin(_ text: String) -> Bool {
        let scheme = ["http://", "https://"].first { text.lowercased().hasPrefix($0) }
        guard let scheme else { return false }
        let host = text.dropFirst(scheme.count)
        return !host.isEmpty && host.allSatisfy { $0.isASCII && !"/?#@, \\*".contains($0) }
    }

    /// Fields of ours that a page may read beside the few that it always may.
    private static let exposed = [
        "Accept-Ranges", "Allow", "Content-Encoding", "Content-Range", "ETag", "Retry-After",
        "WWW-Authenticate", "X-DITTO-TXN-ID", IdempotencyKey.repeatedField, RequestID.name,
        // Fields of resumable uploads.
        "Location", "Mimeo-Attachment-Id", "Tus-Checksum-Algorithm", "Tus-Extension", "Tus-Max-Size",
        "Tus-Resumable", "Tus-Version", "Upload-Defer-Length", "Upload-Expires", "Upload-Length",
        "Upload-Metadata", "Upload-Offset",
    ].joined(separator: ", ")

    /// Adds what a browser needs to an answer, whether it is an error or not. To a preflight it also says
    /// what the path accepts, which `Allow` tells.
    func apply(to response: inout Response, for request: Request) {
        guard !origins.isEmpty else { return }
        let isOpen = origins.contains("*")
        // The answer depends on who asks, and caches must know, also where it is no.
        if !isOpen { response.headers.add(.vary, "Origin") }
        guard let origin = request.headers[.origin], isOpen || origins.contains(origin.lowercased()) else {
            return
        }
        response.headers[.accessControlAllowOrigin] = isOpen ? "*" : origin
        guard request.method == .options, request.headers[.accessControlRequestMethod] != nil else {
            response.headers[.accessControlExposeHeaders] = Self.exposed
            return
        }
        response.headers[.accessControlAllowMethods] = response.headers[.allow]
        response.headers[.accessControlMaxAge] = "\(Limits.preflightSeconds)"
        if let fields = request.headers[.accessControlRequestHeaders],
            fields.utf8.count <= Limits.preflightFieldsCharacters
        {
            response.headers[.accessControlAllowHeaders] = fields
            response.headers.add(.vary, "Access-Control-Request-Headers")
        }
    }
}
