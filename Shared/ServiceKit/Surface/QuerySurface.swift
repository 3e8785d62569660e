import HTTPTypes

extension Surface {
    /// Routes of the query-service for applications.
    static let statements: [RouteDescription] =
        [
            execute("v5", "executeStatement"), execute("v4", "executeStatementStrictly"),
            importing, observe(.post), observe(.get), changes, history, conflicts, conflictsOfDocument,
        ] + requests

    private static let point: Schema = .either([.whole(from: 0), .text])

    private static func observe(_ method: HTTPRequest.Method) -> RouteDescription {
        RouteDescription(
            method, "/api/v5/store/observe", method == .post ? "observe" : "observeByQuery", .user,
            "Streams the rows of a SELECT, and then each change of them.",
            details: """
                First the event result with all rows (in parts above 1 MiB: more is true until the last), \
                then the event change with insertions, deletions, updates and moves as indexes, and the \
                new rows as pairs of index and row. With Last-Event-ID the stream begins with current if \
                nothing was changed that the query reads. A follower that is too slow gets a new result. \
                The event closed says why the stream ends.
                """,
            parameters: (method == .get
                ? [
                    .query("statement", .text, "The SELECT."),
                    .query("args", .text, "Its arguments, as a JSON object."),
                ] : []) + [.header("Last-Event-ID", .whole(from: 0), "The id of the last event.")],
            body: method == .post
                ? .json(
                    .members([
                        .always("statement", .text, "A SELECT."),
                        .maybe("args", .orNull(.object), "By name."),
                    ])) : nil,
            answers: [
                .init(
                    200, "The events.",
                    .of(["text/event-stream", "application/x-ndjson"], .named("ObserveEvent")))
            ],
            failures: [
                .init(400, "QUERY-0101", "QUERY-0505"), .init(403, "QUERY-0202"), unknownDatabase,
                .init(429, "QUERY-0504"), unavailable,
            ])
    }

    static let observeEvent: [Schema.Member] = [
        .always("event", .choice(["result", "change", "current", "closed"])),
        .maybe("transactionId", .whole(from: 0), "The offset of the rows."),
        .maybe("items", .list(.anything), "All rows, of a result."),
        .maybe("more", .flag, "True if more parts of the result follow."),
        .maybe("insertions", .list(.whole(from: 0)), "Indexes in the new rows."),
        .maybe("deletions", .list(.whole(from: 0)), "Indexes in the old rows."),
        .maybe("updates", .list(.whole(from: 0)), "Indexes in the new rows."),
        .maybe("moves", .list(.list(.whole(from: 0))), "Pairs of an old and a new index."),
        .maybe("rows", .list(.list(.anything)), "Pairs of a new index and the row, inserted or updated."),
        .maybe("warnings", .list(.text), "Numbers that JSON cannot hold: null stands in their place."),
        .maybe("error", .object, "Code and message, of closed."),
    ]

    private static let changes = RouteDescription(
        .get, "/api/v5/changes", "changes", .user, "Streams the changes of documents from the log.",
        details: """
            One line or event per changed document, in the log's order, at least once. Lines of one \
            operation stand together, and the last of them has last: true. A consumer keeps the last \
            transactionId that it has finished, and sends it as since. An error after the answer's head is \
            the last line.
            """,
        parameters: [
            .query(
                "since", .text,
                "An offset or a time, after which the feed begins; 0 for all that is kept; now; or snapshot, "
                    + "for the current documents first."),
            .query("until", .text, "The last offset, or a time: what the log had when the feed began."),
            .query("collection", .text, "Only this collection.", repeats: true),
            .query(
                "where", .text,
                "A condition of DQL over the new value, or over the old one of a removed document."),
            .query(
                "values", .choice(["new", "both", "none", "changes"]),
                "The values in a line; new unless said. changes: those of the fields that differ, by kind."),
            .query("feed", .choice(["once", "continuous"]), "Whether the feed goes on at the log's head."),
            .query("limit", .whole(from: 1), "Lines after which the feed ends, with their operation."),
            .header("Last-Event-ID", .text, "Where a stream of events was cut; goes before since."),
        ],
        answers: [
            .init(
                200, "The changes.",
                .of(["application/x-ndjson", "text/event-stream"], .named("Change")))
        ],
        failures: [
            .init(400, "QUERY-0501"), .init(403, "QUERY-0202"), unknownDatabase,
            .init(410, "QUERY-0503"), .init(429, "QUERY-0504"), unavailable,
        ])

    private static let history = RouteDescription(
        .get, "/api/v5/history/:collection/:id", "history", .user, "Shows what happened to a document.",
        details: """
            Newest first, as far as the log reaches; complete tells whether that is its beginning. The id \
            is JSON, or a text: 777 is the text where no document has the number. A collection's name may \
            stand in back quotes, as in DQL: browsers take . and .. for steps of the path.
            """,
        parameters: [
            .query("before", .whole(from: 1), "Entries before this offset."),
            .query("limit", .whole(from: 1), "Most entries; 100 unless said, 1,000 at most."),
            .query("at", .text, "An offset or a time: the whole document as it was then, instead."),
        ],
        answers: [.init(200, "The entries, or the document.", .json(.named("History")))],
        failures: [
            .init(400, "QUERY-0101", "QUERY-0401", "QUERY-0501"), .init(403, "QUERY-0202"), unknownDatabase,
            .init(409, "QUERY-0402"), .init(410, "QUERY-0503"), .init(429, "SRV-0429"), unavailable,
        ])

    private static let conflicts = RouteDescription(
        .get, "/api/v5/conflicts/:collection", "listConflicts", .user,
        "Lists the documents of a collection that have concurrent values.",
        details: "Writes that knew nothing of each other, until a later write of the field replaces them.",
        parameters: [.query("limit", .whole(from: 1), "Most documents; 100 unless said, 1,000 at most.")],
        answers: [
            .init(
                200, "Those that the credential may read, in no order.",
                .json(
                    .members([
                        .always("collection", .text),
                        .always(
                            "documents",
                            .list(
                                .members([
                                    .always("id", .anything), .always("paths", .list(.list(.text))),
                                ]))),
                        .always("more", .flag, "True if there are more than are listed."),
                        .always("transactionId", .whole(from: 0)),
                    ])))
        ],
        failures: [
            .init(400, "QUERY-0401"), .init(403, "QUERY-0202"), unknownDatabase, .init(409, "QUERY-0402"),
            .init(429, "SRV-0429"),
            unavailable,
        ])

    private static let conflictsOfDocument = RouteDescription(
        .get, "/api/v5/conflicts/:collection/:id", "showConflicts", .user,
        "Shows the concurrent values of a document, with who wrote them and when.",
        details:
            "The id is JSON, or a text: 777 is the text where no document has the number. A write of the "
            + "field chooses its value.",
        answers: [
            .init(
                200, "The fields that have several values.",
                .json(
                    .members([
                        .always("collection", .text), .always("id", .anything), .always("exists", .flag),
                        .always("bytes", .whole(from: 0), "Of the encoded document."),
                        .always(
                            "fields",
                            .list(
                                .members([
                                    .always("path", .list(.text)),
                                    .always("kind", .choice(["register", "attachment"])),
                                    .always("values", .list(.members(concurrentValue))),
                                    .maybe("warnings", .list(.text), "Numbers that JSON cannot hold."),
                                ]))),
                        .always("transactionId", .whole(from: 0)),
                    ])))
        ],
        failures: [
            .init(400, "QUERY-0101", "QUERY-0401"), .init(403, "QUERY-0202"), unknownDatabase,
            .init(409, "QUERY-0402"), .init(429, "SRV-0429"), unavailable,
        ])

    private static let concurrentValue: [Schema.Member] = [
        .always("value", .anything), .always("shown", .flag, "True for the one that reads give."),
        .always("time", .text), .always("user", .orNull(.text)), .always("peer", .orNull(.text)),
        .always("actor", .text),
    ]

    static let change: [Schema.Member] = [
        .always("transactionId", .whole(from: 0)),
        .maybe("index", .whole(from: 0), "The change's place in its operation."),
        .always("collection", .text), .always("id", .anything),
        .always("method", .choice(["insert", "update", "remove", "snapshot"])),
        .maybe("value", .anything, "The new value; null after a removal."),
        .maybe("oldValue", .anything, "The old value; null before an insertion."),
        .maybe("changed", .list(.text), "The paths that differ, of an update."),
        .maybe("changes", .list(.members(fieldChange)), "With values=changes: the fields that differ."),
        .maybe("warnings", .list(.text), "Numbers that JSON cannot hold: null stands in their place."),
        .maybe("time", .text), .maybe("user", .orNull(.text)), .maybe("peer", .orNull(.text)),
        .maybe("actor", .text), .maybe("last", .flag, "True in the operation's last line."),
    ]

    /// One field of a document, and one kind of value under it. COUNTER and REGISTER may stand beside each
    /// other: the one written last shows.
    private static let fieldChange: [Schema.Member] = [
        .always("path", .list(.text), "Empty for the document itself."), .always("action", .text),
        .always("kind", .text), .maybe("old", .anything), .maybe("new", .anything),
        .maybe("oldHidden", .flag, "True if another kind showed before."),
        .maybe("newHidden", .flag, "True if another kind shows now."),
    ]

    static let historyMembers: [Schema.Member] = [
        .maybe("collection", .text), .maybe("id", .anything),
        .maybe(
            "entries",
            .list(
                .members([
                    .always("transactionId", .whole(from: 1)), .always("time", .text),
                    .always("user", .orNull(.text)), .always("peer", .orNull(.text)),
                    .always("actor", .text),
                    .always(
                        "changes",
                        .list(
                            .members(
                                fieldChange + [
                                    .maybe(
                                        "concurrentWith", .list(.whole(from: 1)),
                                        "Offsets of writes of the field that this one did not know of."),
                                    .maybe(
                                        "written", .anything,
                                        "With concurrentWith: the written value, where another shows."
                                    ),
                                ]))),
                    .maybe("warnings", .list(.text), "Numbers that JSON cannot hold."),
                ]))),
        .maybe("more", .flag, "True if there are older entries: ask with before."),
        .maybe("oldest", .whole(from: 0), "The offset at which the log begins."),
        .maybe("complete", .flag, "True if the log begins with its first operation."),
        .maybe("transactionId", .whole(from: 0), "With at: the offset read at."),
        .maybe("document", .anything, "With at: the document; null if there was none."),
        .maybe("warnings", .list(.text), "With at: numbers that JSON cannot hold."),
    ]

    static let badStatement = RouteDescription.Failure(
        400, "QUERY-0101", "QUERY-0102", "QUERY-0103", "QUERY-0104", "QUERY-0401", "QUERY-0405", "QUERY-0501",
        "QUERY-0502")
    static let notGranted = RouteDescription.Failure(403, "QUERY-0202", "QUERY-0203")
    static let unknownDatabase = RouteDescription.Failure(404, "QUERY-0201")
    static let unavailable = RouteDescription.Failure(503, "QUERY-0303", "QUERY-0304")
    static let damaged = RouteDescription.Failure(500, "QUERY-0306", "LOG-0401", "LOG-0402", "SRV-0501")

    private static func execute(_ version: String, _ name: String) -> RouteDescription {
        RouteDescription(
            .post, "/api/\(version)/store/execute", name, .user,
            version == "v4" ? "Executes a statement in strict mode." : "Executes a statement.",
            details: """
                A read sees every operation that was in the log when the request arrived. A write is \
                answered when it is durable. An error of the statement itself has a DQL code. A transaction \
                stands in place of statement and args: each statement sees those before it, all are one \
                operation of the log, and an error names the index of its statement, and nothing is written.
                """,
            parameters: [
                .query("asOf", .text, "As the body's member of this name."),
                .header("X-DITTO-TXN-ID", .whole(from: 0), "The oldest offset that may answer."),
                .header("Idempotency-Key", .text, "Names a write that may be sent again."),
            ],
            body: .json(
                .members([
                    .maybe("statement", .text, "DQL."), .maybe("args", .orNull(.object), "By name."),
                    .maybe("asOf", .orNull(point), "An offset or a time: a SELECT reads the past."),
                    .maybe(
                        "transaction",
                        .list(
                            .members([
                                .always("statement", .text), .maybe("args", .orNull(.object)),
                            ])), "1 to 1,000 statements."),
                ])),
            answers: [
                .init(
                    200, "The result; as lines the rows, and last the envelope without them.",
                    .of(
                        ["application/json", "application/x-ndjson"],
                        .either([.named("Envelope"), .named("TransactionAnswer")])))
            ],
            failures: [
                badStatement, notGranted, unknownDatabase, .init(408, "QUERY-0301"),
                .init(409, "QUERY-0302", "QUERY-0307", "QUERY-0402"),
                .init(410, "QUERY-0204", "QUERY-0503"), .init(422, "QUERY-0105"),
                .init(429, "QUERY-0305", "SRV-0429"), unavailable, damaged,
            ], errorShape: "Envelope")
    }

    private static let running = Schema.members([
        .always("id", .whole(from: 1)), .always("statement", .text), .maybe("credential", .text),
        .always("milliseconds", .whole(from: 0), "Since it was accepted."),
        .always("computedMilliseconds", .whole(from: 0)), .always("rows", .whole(from: 0)),
        .always("isEnding", .flag),
    ])
    private static let ending = Schema.members([
        .always("id", .whole(from: 1)), .always("isEnding", .flag),
    ])

    /// The running statements of a credential.
    static let requests = running(
        "/api/v5/requests", "Requests", (.user, .user), "Lists the credential's running statements.",
        "Cancels one of the credential's running statements.", [])

    /// `/admin/query-service/…`.
    static let adminOfStatements = running(
        "/admin/query-service/databases/:database/requests", "AllRequests", (.admin(.read), .admin(.operate)),
        "Lists all running statements of a database.", "Cancels a running statement.", ["QUERY-0201"])

    private static func running(
        _ path: String, _ name: String,
        _ callers: (list: RouteDescription.Access, cancel: RouteDescription.Access), _ list: String,
        _ cancel: String, _ unknown: [String]
    ) -> [RouteDescription] {
        [
            RouteDescription(
                .get, path, "list\(name)", callers.list, list,
                answers: [
                    .init(200, "The oldest first.", .json(.members([.always("requests", .list(running))])))
                ], failures: unknown.isEmpty ? [] : [unknownDatabase]),
            RouteDescription(
                .delete, "\(path)/:request", "cancel\(name)", callers.cancel, cancel,
                answers: [.init(200, "It ends at its next check.", .json(ending))],
                failures: [
                    unknown.isEmpty
                        ? .init(404, "QUERY-0404") : .init(404, "QUERY-0201", "QUERY-0404")
                ]),
        ]
    }
}
