import HTTPTypes

/// All that is known of a route without its handler. Routing takes the query parameters from here that a
/// request may have; the OpenAPI document and the page for people are made from it (decision 0065).
public struct RouteDescription: Sendable {
    /// Whoever may send the request.
    public enum Access: Sendable, Equatable {
        /// No credential is needed.
        case anybody
        /// An access token or API key of the database, with a grant for what the request touches.
        case user
        /// The admin credential, or one with this role or a greater one.
        case admin(AdminRole)
    }

    /// A parameter of the path, the query or the head.
    public struct Parameter: Sendable {
        /// The part of the request that has it, in OpenAPI's words.
        public enum Place: String, Sendable { case path, query, header }
        /// Its name.
        public let name: String
        /// Its place.
        public let place: Place
        /// The shape of its text.
        public let schema: Schema
        /// For a person.
        public let about: String
        /// True if it may stand several times.
        public let repeats: Bool

        /// A parameter of the query.
        public static func query(
            _ name: String, _ schema: Schema, _ about: String, repeats: Bool = false
        ) -> Parameter {
            Parameter(name: name, place: .query, schema: schema, about: about, repeats: repeats)
        }

        /// A field of the head.
        public static func header(_ name: String, _ schema: Schema, _ about: String) -> Parameter {
            Parameter(name: name, place: .header, schema: schema, about: about, repeats: false)
        }
    }

    /// A body in one of several media types.
    public struct Body: Sendable {
        /// Its media types, the preferred one first.
        public let types: [String]
        /// Its shape.
        public let schema: Schema
        /// False if the request may come without it.
        public let isRequired: Bool

        /// JSON of a shape.
        public static func json(_ schema: Schema, isRequired: Bool = true) -> Body {
            Body(types: ["application/json"], schema: schema, isRequired: isRequired)
        }

        /// A body in one of these media types.
        public static func of(_ types: [String], _ schema: Schema, isRequired: Bool = true) -> Body {
            Body(types: types, schema: schema, isRequired: isRequired)
        }
    }

    /// An answer that is no error.
    public struct Answer: Sendable {
        /// Its status.
        public let status: Int
        /// For a person.
        public let about: String
        /// Its body; nil if it has none.
        public let body: Body?

        /// An answer with this status.
        public init(_ status: Int, _ about: String, _ body: Body? = nil) {
            (self.status, self.about, self.body) = (status, about, body)
        }
    }

    /// A status of errors, and the codes that go with it.
    public struct Failure: Sendable {
        /// The status.
        public let status: Int
        /// The codes of `{"error":{"code"}}`.
        public let codes: [String]

        /// Errors with this status.
        public init(_ status: Int, _ codes: String...) { (self.status, self.codes) = (status, codes) }
    }

    /// The method; `GET` stands for `HEAD` too.
    public let method: HTTPRequest.Method
    /// The path, with parameters as `:name`.
    public let path: String
    /// The operation's name in OpenAPI, from which generated clients make the names of functions.
    public let name: String
    /// One line.
    public let summary: String
    /// Further lines; may be empty.
    public var details = ""
    /// Whoever may send it.
    public let access: Access
    /// Its parameters but for those of the path, whose names are in `path`.
    public var parameters: [Parameter] = []
    /// Its body; nil if it takes none.
    public var body: Body?
    /// The answers that are no errors, the usual one first.
    public let answers: [Answer]
    /// Its own errors, beside those that every request can have and those of its credential.
    public var failures: [Failure] = []
    /// The shape of its errors.
    public var errorShape = "Error"

    init(
        _ method: HTTPRequest.Method, _ path: String, _ name: String, _ access: Access, _ summary: String,
        details: String = "", parameters: [Parameter] = [], body: Body? = nil, answers: [Answer],
        failures: [Failure] = [], errorShape: String = "Error"
    ) {
        self.method = method
        self.path = path
        self.name = name
        self.access = access
        self.summary = summary
        self.details = details
        self.parameters = parameters
        self.body = body
        self.answers = answers
        self.failures = failures
        self.errorShape = errorShape
    }

    /// The names of the query parameters that a request may have.
    var query: [String] { parameters.filter { $0.place == .query }.map(\.name) }

    /// The media types of its answers; empty if it may answer without a body or with any type.
    var types: [String] {
        var types: [String] = []
        for answer in answers {
            guard let body = answer.body, !body.types.contains("application/octet-stream") else { return [] }
            types += body.types
        }
        return types.contains("application/json") ? types + ["application/cbor"] : types
    }

    /// The path's parameters, in their order.
    public var pathParameters: [String] {
        path.split(separator: "/").filter { $0.first == ":" }.map { String($0.dropFirst()) }
    }

    /// The path as OpenAPI writes it: `/a/{id}`.
    var template: String {
        path.split(separator: "/", omittingEmptySubsequences: false)
            .map { $0.first == ":" ? "{\($0.dropFirst())}" : String($0) }.joined(separator: "/")
    }

    /// All errors that a request can be answered with, by status: its own, its credential's, and everybody's.
    var allFailures: [(status: Int, codes: [String])] {
        var codes: [Int: [String]] = [:]
        for failure in failures + accessFailures + Self.commonFailures {
            let known = codes[failure.status] ?? []
            codes[failure.status] = known + failure.codes.filter { !known.contains($0) }
        }
        return codes.sorted { $0.key < $1.key }.map { (status: $0.key, codes: $0.value) }
    }

    private var accessFailures: [Failure] {
        switch access {
        case .anybody: AdminReach.concerns(path) ? [Failure(403, "SRV-0402")] : []
        case .user:
            [
                Failure(
                    401, "AUTH-0101", "AUTH-0102", "AUTH-0103", "AUTH-0104", "AUTH-0105", "AUTH-0106",
                    "AUTH-0107", "AUTH-0108", "AUTH-0109", "AUTH-0110", "AUTH-0111", "AUTH-0112"),
                Failure(403, "AUTH-0203"), Failure(503, "SRV-0601", "SRV-0602", "SRV-0603"),
                // Large bodies and answers.
                Failure(400, "SRV-0412"), Failure(429, "SRV-0430", "SRV-0432"), Failure(503, "SRV-0503"),
            ]
        case .admin:
            [Failure(403, "SRV-0402", "SRV-0403"), Failure(503, "SRV-0602", "SRV-0603")]
                + (path.hasPrefix("/admin/auth/")
                    ? [Failure(401, "AUTH-0407"), Failure(429, "AUTH-0410")] : [Failure(401, "SRV-0401")])
        }
    }

    /// Errors of the wire, of a defect, and of nginx in front.
    private static let commonFailures = [
        Failure(400, "SRV-0400"), Failure(405, "SRV-0405"), Failure(406, "SRV-0406"),
        Failure(408, "SRV-0408"),
        Failure(413, "SRV-0413"), Failure(414, "SRV-0414"), Failure(415, "SRV-0415"),
        Failure(431, "SRV-0431"), Failure(500, "SRV-0500"), Failure(502, "SRV-0502"),
        Failure(504, "SRV-0504"),
    ]
}
