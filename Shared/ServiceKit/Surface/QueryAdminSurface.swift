import HTTPTypes

extension Surface {
    private static let base = "/admin/query-service/databases/:database"
    private static let number = Schema.whole(from: 0)
    private static let place = Schema.orNull(number)
    private static let failures = [
        unknownDatabase, RouteDescription.Failure(400, "QUERY-0401"),
        RouteDescription.Failure(409, "QUERY-0402"), RouteDescription.Failure(429, "SRV-0429"), unavailable,
    ]

    private static let projection = Schema.members([
        .always("database", .text),
        .always("storage", .orNull(.choice(["folder", "postgres"])), "Null while it is not open."),
        .always("isOpen", .flag, "False until the first statement, and while a folder is rebuilt."),
        .always("head", number, "The log's last offset."),
        .always("offset", place, "The last offset that is folded."), .always("lag", place),
        .always("generation", number, "Counts the builds: of the server, or of this process for a folder."),
        .always("worker", .orNull(.choice(["leads", "follows"])), "Whether this process folds."),
        .always("failure", .orNull(.text), "Why it does not follow the log."),
        .always(
            "rebuild",
            .orNull(
                .members([
                    .always("offset", number), .always("through", number),
                    .always("share", .number, "0 to 1."),
                ])), "Null while none runs."),
    ])

    /// `/admin/query-service/…` but for running statements.
    static let adminOfProjections: [RouteDescription] = [
        RouteDescription(
            .get, "/admin/query-service/databases", "listProjections", .admin(.read),
            "Lists the databases with the state of their projections in this process.",
            parameters: [
                .query("after", .text, "Begin after this id."),
                .query("limit", .whole(from: 1), "Most rows; 1,000 unless said."),
            ],
            answers: [
                .init(
                    200, "In the order of their ids.",
                    .json(
                        .members([
                            .always(
                                "databases",
                                .list(
                                    .members([
                                        .always("id", .text), .always("head", number),
                                        .always("isOpen", .flag), .always("offset", place),
                                        .always("lag", place), .always("failure", .orNull(.text)),
                                    ]))), .always("more", .flag),
                        ])))
            ], failures: [unavailable]),
        RouteDescription(
            .get, "\(base)/projection", "showProjection", .admin(.read),
            "Shows how far a database's projection is, and the progress of a rebuild.",
            answers: [.init(200, "The state.", .json(projection))], failures: [unknownDatabase, unavailable]),
        RouteDescription(
            .post, "\(base)/rebuilds", "rebuildProjection", .admin(.operate),
            "Builds a database's projection again from its log.",
            details: """
                In PostgreSQL it is built beside the present one, which serves until then. In a folder it is \
                built in its place: statements wait meanwhile. While one is built, nothing begins.
                """, body: .json(.members([]), isRequired: false),
            answers: [.init(202, "It begins, or runs.", .json(projection))],
            failures: [unknownDatabase, unavailable]),
        RouteDescription(
            .get, "\(base)/collections", "listCollections", .admin(.read),
            "Lists the collections with their sizes.",
            details: "The sizes are counted again after ten seconds.",
            answers: [
                .init(
                    200, "In the order of their names.",
                    .json(
                        .members([
                            .always(
                                "collections",
                                .list(
                                    .members([
                                        .always("name", .text), .always("documents", number),
                                        .always("bytes", number, "Of ids and encoded documents."),
                                        .always("indexes", number, "Beside the one over the ids."),
                                        .always("isInternal", .flag, "True for the server's own."),
                                    ]))), .always("transactionId", number),
                        ])))
            ], failures: failures),
        shape,
        peers,
        explainSubscription,
        RouteDescription(
            .get, "\(base)/indexes", "listIndexes", .admin(.read), "Lists the indexes of the collections.",
            parameters: [.query("collection", .text, "Only this collection.")],
            answers: [
                .init(
                    200, "By collection and name.",
                    .json(.members([.always("indexes", .list(.members(index)))])))
            ], failures: failures),
        RouteDescription(
            .get, "\(base)/slow", "listSlowStatements", .admin(.read),
            "Lists the latest slow statements of this process, without values.",
            details: "A statement is slow from half a second. The last 1,000 are kept.",
            parameters: [.query("limit", .whole(from: 1), "Most rows; 100 unless said.")],
            answers: [
                .init(
                    200, "The newest first.",
                    .json(.members([.always("statements", .list(.members(slowStatement)))])))
            ], failures: [unknownDatabase]),
    ]

    private static let explainSubscription = RouteDescription(
        .post, "\(base)/explain-subscription", "explainSubscription", .admin(.operate),
        "Tells whether a document belongs to a subscription, and if not, why.",
        details: "Rights are not part of it: explain-access tells them.",
        body: .json(
            .members([
                .always("subscription", .text, "A SELECT, as a device registers it."),
                .maybe("args", .orNull(.object), "By name."),
                .maybe(
                    "scope",
                    .orNull(.choice(["AllPeers", "BigPeerOnly", "SmallPeersOnly", "LocalPeerOnly"])),
                    "The device's sync scope for the collection; AllPeers unless said."),
                .always("collection", .text), .always("id", .anything),
            ])),
        answers: [
            .init(
                200, "The checks, and the first that fails.",
                .json(
                    .members([
                        .always("belongs", .flag), .always("reason", .text),
                        .always(
                            "checks",
                            .list(
                                .members([
                                    .always(
                                        "check",
                                        .choice(["collection", "scope", "document", "condition", "window"])),
                                    .always("passes", .flag), .always("reason", .text),
                                ]))),
                    ])))
        ],
        failures: [
            .init(400, "QUERY-0101", "QUERY-0401"), unknownDatabase, .init(409, "QUERY-0402"),
            .init(429, "SRV-0429"), unavailable,
        ])

    private static let webhook: [Schema.Member] = [
        .always("id", .text), .always("url", .text, "Its server; the rest may be a secret."),
        .always("collections", .orNull(.list(.text))), .always("where", .orNull(.text)),
        .always("values", .choice(["new", "both", "none", "changes"])), .always("createdAt", number),
        .always("offset", number, "The last operation that it has taken."), .always("lag", number),
        .always(
            "state", .choice(["delivers", "fails", "elsewhere"]), "elsewhere: another process delivers."),
        .always("deliveredAt", place), .always("failure", .orNull(.text)),
        .always("failures", number, "Calls that failed since one was taken."),
        .always("nextAttemptAt", place),
    ]

    /// Webhooks that get changes.
    static let webhooks: [RouteDescription] = [
        RouteDescription(
            .get, "\(base)/webhooks", "listWebhooks", .admin(.read),
            "Lists the webhooks for changes, without their secrets.",
            answers: [
                .init(
                    200, "The oldest first.",
                    .json(.members([.always("webhooks", .list(.members(webhook)))])))
            ], failures: [unknownDatabase, unavailable]),
        RouteDescription(
            .post, "\(base)/webhooks", "createWebhook", .admin(.own),
            "Makes a webhook that gets the changes of a database.",
            details: """
                Calls have up to 100 changes or 256 KiB, in the lines of the changes feed, and are signed as \
                those for logins are. A call without an answer of 2xx comes again, later and later up to \
                five minutes. Each change comes at least once, in the log's order.
                """,
            body: .json(
                .members([
                    .always("url", .text, "http or https."), .maybe("collections", .orNull(.list(.text))),
                    .maybe("where", .orNull(.text), "A condition in DQL."),
                    .maybe("values", .orNull(.choice(["new", "both", "none", "changes"]))),
                    .maybe("since", .orNull(.either([number, .choice(["now"])]))),
                    .maybe("secret", .orNull(.text), "Base64; without it a new one is made."),
                ])),
            answers: [
                .init(
                    201, "Made. The secret is shown here and never again.",
                    .json(.members(webhook + [.always("secret", .text)])))
            ],
            failures: [
                .init(400, "QUERY-0101", "QUERY-0501"), unknownDatabase,
                .init(409, "QUERY-0602", "QUERY-0603"), .init(410, "QUERY-0503"), unavailable,
            ]),
        RouteDescription(
            .delete, "\(base)/webhooks/:webhook", "deleteWebhook", .admin(.own), "Deletes a webhook.",
            answers: [noContent], failures: [.init(404, "QUERY-0201", "QUERY-0601"), unavailable]),
    ]

    private static let shape = RouteDescription(
        .get, "\(base)/collections/:collection/shape", "showShape", .admin(.operate),
        "Shows which keys the documents of a collection have, from a sample.",
        parameters: [.query("sample", .whole(from: 1), "Documents; 1,000 unless said, 10,000 at most.")],
        answers: [
            .init(
                200, "The most frequent keys first.",
                .json(
                    .members([
                        .always("collection", .text), .always("sampled", number, "Documents."),
                        .always("transactionId", number),
                        .always(
                            "keys",
                            .list(
                                .members([
                                    .always("path", .list(.text)), .always("count", number, "Documents."),
                                    .always("kinds", .object, "How many values there are of each kind."),
                                    .always("example", .anything, "Cut if it is long."),
                                ]))),
                        .always("more", .flag, "True if there are more keys than are listed."),
                    ])))
        ], failures: failures)

    private static let peers = RouteDescription(
        .get, "\(base)/peers", "listPeers", .admin(.read),
        "Lists what small peers have told of themselves, those too that are away.",
        details: """
            A peer reports while it is connected, by default every five minutes, into the collection \
            __small_peer_info. The metadata of its application is left out.
            """,
        parameters: [
            .query("after", .text, "Begin after this key."),
            .query("limit", .whole(from: 1), "Most rows; 1,000 unless said."),
        ],
        answers: [
            .init(
                200, "In the order of their keys.",
                .json(
                    .members([
                        .always(
                            "peers",
                            .list(
                                .members([
                                    .always("peer", .text, "Its key."), .always("deviceName", .anything),
                                    .always("os", .anything), .always("sdk", .anything, "Its version."),
                                    .always("reportedAt", .orNull(.text), "By its own clock."),
                                    .always("subscriptions", .anything, "The first of them."),
                                    .always("collections", .anything, "Documents in each of the first."),
                                ]))), .always("more", .flag),
                    ])))
        ], failures: failures)

    private static let index: [Schema.Member] = [
        .always("_id", .text), .always("collection", .text), .always("name", .text),
        .always(
            "fields",
            .list(.members([.always("key", .list(.text)), .always("direction", .choice(["asc", "desc"]))])),
            "Empty for one that an operator made with SQL."),
        .always("state", .choice(["ready", "building"])),
        .always("kind", .choice(["primary", "declared", "sql"])),
        .maybe("bytes", number, "In PostgreSQL."), .maybe("definition", .text, "In PostgreSQL."),
    ]

    private static let slowStatement: [Schema.Member] = [
        .always("time", .text, "When it ended."),
        .always("statement", .text, "With ? for each literal."), .always("credential", .text),
        .always("milliseconds", number, "Since it was accepted."), .always("computedMilliseconds", number),
        .always("documents", number, "Visited."), .always("rows", number, "In the answer."),
        .always("code", .orNull(.text), "Of the error that ended it."),
    ]
}
