import HTTPTypes

extension Surface {
    /// The route of sessions.
    static let sync: [RouteDescription] = [
        RouteDescription(
            .get, "/_ditto/sync", "sync", .user, "Opens a session: a WebSocket of peers.",
            details: "The first request of a connection, with an upgrade. Subprotocol mimeo.sync.1.",
            answers: [.init(101, "The session begins.")],
            failures: [.init(404, "REPL-0101"), .init(426, "SRV-0426"), .init(503, "REPL-0102")])
    ]

    private static let base = "/admin/replicator/databases/:database"
    private static let number = Schema.whole(from: 0)
    private static let unknown = RouteDescription.Failure(404, "REPL-0101")
    private static let malformed = RouteDescription.Failure(400, "REPL-0202")
    private static let limit = RouteDescription.Parameter.query("limit", .whole(from: 1), "Most rows.")
    private static let instance = Schema.Member.always("instance", .text, "The process that answers.")
    private static let noBody = RouteDescription.Body.json(.members([]), isRequired: false)

    /// `/admin/replicator/…`.
    static let adminOfReplicator: [RouteDescription] = [
        RouteDescription(
            .get, "/admin/replicator/databases", "listReplicatedDatabases", .admin(.read),
            "Lists the databases with their heads, snapshots and sessions.",
            parameters: [.query("after", .text, "Begin after this id."), limit],
            answers: [
                .init(
                    200, "In the order of their ids.",
                    .json(
                        .members([
                            .always("databases", .list(.object)), .always("draining", .flag), instance,
                        ])))
            ], failures: [malformed]),
        drain(.post, "drain", "Sends sessions away, and takes no new ones."),
        drain(.delete, "undrain", "Takes sessions again."),
        RouteDescription(
            .get, "\(base)/sessions", "listSessions", .admin(.read), "Lists the sessions of this instance.",
            parameters: [.query("after", number, "Begin after this number."), limit],
            answers: [
                .init(
                    200, "In the order of their numbers.",
                    .json(.members([.always("sessions", .list(.object)), instance])))
            ], failures: [malformed, unknown]),
        RouteDescription(
            .get, "\(base)/sessions/:session", "showSession", .admin(.operate),
            "Shows a session with its subscriptions and its rights.",
            answers: [
                .init(
                    200, "The session, as in the list, and more.",
                    .json(
                        .members([
                            .always(
                                "subscriptions",
                                .list(
                                    .members([
                                        .always("statement", .text), .always("args", .object),
                                        .always("collection", .text),
                                    ])), "Those that it follows here; each once."),
                            .always("permissions", .anything),
                            .always("expiresAt", .whole(from: 0), "Seconds since 1970."),
                            .always("issuedAt", .whole(from: 0), "Seconds since 1970."),
                            .always("tokenID", .orNull(.text)), instance,
                        ])))
            ], failures: [.init(404, "REPL-0101", "REPL-0201")]),
        RouteDescription(
            .delete, "\(base)/sessions/:session", "disconnect", .admin(.operate), "Ends a session.",
            answers: [noContent], failures: [.init(404, "REPL-0101", "REPL-0201")]),
        RouteDescription(
            .get, "\(base)/presence", "showPresence", .admin(.read),
            "Shows the peers that sessions of this instance have, and those that they are linked with.",
            answers: [
                .init(
                    200, "In the order of their keys.",
                    .json(.members([.always("peers", .list(.object)), instance])))
            ], failures: [unknown]),
        RouteDescription(
            .get, "\(base)/log", "readLog", .admin(.read), "Lists operations of the log, without contents.",
            parameters: [.query("after", number, "Begin after this offset."), limit],
            answers: [
                .init(
                    200, "In the log's order.",
                    .json(.members([.always("operations", .list(.object)), instance])))
            ], failures: [malformed, unknown, .init(410, "REPL-0203")]),
        RouteDescription(
            .post, "\(base)/snapshots", "writeSnapshot", .admin(.operate), "Writes a snapshot of the log.",
            body: noBody,
            answers: [
                .init(
                    201, "Written.",
                    .json(.members([.always("offset", number), .always("bytes", number), instance])))
            ], failures: [unknown, .init(409, "REPL-0204", "REPL-0205")]),
        RouteDescription(
            .post, "\(base)/truncations", "truncate", .admin(.operate),
            "Removes operations that the snapshot stands for.",
            parameters: [.query("keep", number, "Operations before the snapshot that stay.")],
            body: noBody,
            answers: [
                .init(201, "Removed.", .json(.members([.always("truncated", number), instance]))),
                .init(
                    200, "Nothing was old.", .json(.members([.always("truncated", number), instance]))),
            ], failures: [malformed, unknown, .init(409, "REPL-0204", "REPL-0205")]),
        RouteDescription(
            .get, "\(base)/erasures", "listErasures", .admin(.read),
            "Lists the erasures of documents, the latest first.",
            answers: [
                .init(
                    200, "The erasures.",
                    .json(.members([.always("erasures", .list(.members(erasure))), instance])))
            ], failures: [unknown, .init(409, "REPL-0208")]),
        RouteDescription(
            .post, "\(base)/erasures", "eraseDocuments", .admin(.own),
            "Erases documents for good, here and at every peer.",
            details: "Names them by ids or by a condition. The work goes on after the answer.",
            body: .json(
                .members([
                    .always("collection", .text), .maybe("ids", .list(.anything)),
                    .maybe("where", .text, "A condition in DQL."), .maybe("args", .object),
                ])),
            answers: [.init(202, "The erasure has begun.", .json(.members(erasure + [instance])))],
            failures: [
                .init(400, "REPL-0206"), unknown, .init(409, "REPL-0205", "REPL-0208"),
                .init(413, "REPL-0207"),
            ]),
    ]

    private static let erasure: [Schema.Member] = [
        .always("id", .text), .always("documents", number), .always("requestedAt", number),
        .always("erasedFromLogAt", .orNull(number), "Null while the log still has contents."),
        .always("receipts", receipts),
    ]

    /// The holders that have erased what they kept: where, and when in seconds since 1970.
    static let receipts = Schema.list(
        .members([
            .always("holder", .text), .always("place", .text), .always("erasedAt", .whole(from: 0)),
        ]))

    private static func drain(
        _ method: HTTPRequest.Method, _ name: String, _ summary: String
    ) -> RouteDescription {
        RouteDescription(
            method, "/admin/replicator/drain", name, .admin(.operate), summary,
            body: method == .post ? noBody : nil,
            answers: [
                .init(
                    200, "The state.",
                    .json(.members([.always("draining", .flag), .always("sessions", number), instance])))
            ])
    }
}
