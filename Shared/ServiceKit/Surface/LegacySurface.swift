import HTTPTypes

extension Surface {
    /// Calls from before DQL, of the query-service.
    static let legacy: [RouteDescription] = [
        call(
            "find", "Finds documents by a query of the legacy language.",
            [
                .maybe("query", .text, "All documents without it."), .maybe("args", .orNull(.object)),
                .maybe("limit", .whole(from: 0), "1,000 unless said."), .maybe("offset", .whole(from: 0)),
                .maybe(
                    "sort",
                    .list(
                        .members([
                            .always("property", .text), .maybe("direction", .choice(["asc", "desc"])),
                        ]))), serializedAs,
                .maybe("describe", .flag, "Also tells the statement that it became, and its plan."),
            ], described),
        call(
            "findbyid", "Finds a document by its id.",
            [.always("id", .anything), serializedAs], documents),
        call(
            "count", "Counts the documents that fulfil a query of the legacy language.",
            [.maybe("query", .text), .maybe("args", .orNull(.object))],
            .members([.always("count", .whole(from: 0)), .always("txnId", .whole(from: 0)), hints])),
        write,
        RouteDescription(
            .delete, "/api/v1/collections/:collection/documents/:id", "deleteDocument", .user,
            "Deletes a document.",
            details:
                "The id is a text, or JSON if it is JSON: 777 is the number, \"777\" (%22777%22) the text.",
            parameters: [
                .header("X-DITTO-CLIENT-ID", .text, "Taken and not needed."),
                .header("Idempotency-Key", .text, "Names a write that may be sent again."),
            ],
            answers: [
                .init(
                    200, "Deleted, or there was none.",
                    .json(.members([.always("txnId", .whole(from: 0)), .always("deleted", .whole(from: 0))])))
            ],
            failures: [
                badStatement, notGranted, unknownDatabase, .init(409, "QUERY-0302", "QUERY-0307"),
                .init(410, "QUERY-0204"), .init(422, "QUERY-0105"), .init(429, "QUERY-0305", "SRV-0429"),
                unavailable, damaged,
            ]),
    ]

    private static let write = RouteDescription(
        .post, "/api/v4/store/write", "write", .user, "Changes documents: all commands or none.",
        details: """
            The commands are one transaction: each sees those before it. An error has the index of its \
            command, and nothing is written.
            """,
        parameters: [
            .header("X-DITTO-CLIENT-ID", .text, "Taken and not needed."),
            .header("Idempotency-Key", .text, "Names a write that may be sent again."),
        ],
        body: .json(
            .members([
                .always(
                    "commands",
                    .list(
                        .members([
                            .always("method", .choice(["upsert", "update", "remove"])),
                            .always("collection", .text), .maybe("id", .anything, "Of an upsert."),
                            .maybe("value", .object, "Of an upsert: the document."),
                            .maybe(
                                "valueTypeOverrides", .orNull(.object),
                                "Of an upsert: counter, register or attachment, by path."),
                            .maybe("query", .orNull(.text), "All documents without it."),
                            .maybe("args", .orNull(.object)),
                            .maybe(
                                "commands",
                                .list(
                                    .members([
                                        .always(
                                            "method",
                                            .choice([
                                                "set", "setAttachment", "increment", "replaceWithCounter",
                                            ])), .always("path", .text), .maybe("value", .anything),
                                    ])), "Of an update."),
                        ])))
            ])),
        answers: [
            .init(
                200, "Done.",
                .json(
                    .members([
                        .always(
                            "results",
                            .list(
                                .members([
                                    .always("method", .text), .always("transactionId", .whole(from: 0)),
                                    .maybe("updated", .list(.anything)), .maybe("deleted", .list(.anything)),
                                ]))), .always("txnId", .whole(from: 0)), hints,
                    ])))
        ],
        failures: [
            badStatement, notGranted, unknownDatabase, .init(408, "QUERY-0301"),
            .init(409, "QUERY-0302", "QUERY-0307", "QUERY-0402"), .init(410, "QUERY-0204"),
            .init(422, "QUERY-0105"), .init(429, "QUERY-0305", "SRV-0429"), unavailable, damaged,
        ])

    private static let serializedAs = Schema.Member.maybe(
        "serializedAs", .choice(["latestValues", "latestValuesAndTypes"]),
        "With types a field is {\"register\" | \"map\" | \"counter\" | \"attachment\": {\"value\": …}}.")

    private static let hints = Schema.Member.maybe(
        "warnings", warnings, "As those of a statement, if there are any.")

    private static let found: [Schema.Member] = [
        .always("documents", .list(.members([.always("id", .anything), .always("fields", .object)]))),
        .always("txnId", .whole(from: 0)), hints,
    ]
    private static let documents: Schema = .members(found)
    private static let described: Schema = .members(
        found + [
            .maybe("describe", .members([.always("statement", .text), .always("plan", .anything)]))
        ])

    private static func call(
        _ name: String, _ summary: String, _ members: [Schema.Member], _ answer: Schema
    ) -> RouteDescription {
        RouteDescription(
            .post, "/api/v4/store/\(name)", name, .user, summary,
            parameters: [
                .header("X-DITTO-TXN-ID", .whole(from: 0), "The oldest offset that may answer.")
            ],
            body: .json(.members([.always("collection", .text)] + members)),
            answers: [.init(200, "Found.", .json(answer))],
            failures: [
                badStatement, notGranted, unknownDatabase, .init(408, "QUERY-0301"), unavailable, damaged,
            ])
    }
}
