extension Surface {
    /// Documents one a line, in a body of any length.
    static let importing = RouteDescription(
        .post, "/api/v5/store/import", "importLines", .user,
        "Stores the documents of a body of any length, one a line.",
        details: """
            An INSERT of :documents stores up to 1,000 lines, or a MiB of them, at a time: each group is one \
            operation of the log, and durable before the next one is read. A blank line is left out. The \
            answer comes after the last line, or at the first one that is refused: the error's inputLine is \
            its number, from 1, all lines before it are stored, and none after it. Any other error names no \
            line: the first so many lines are stored. One that breaks off is sent again: whole, where each \
            document has an _id and the statement ends with ON ID CONFLICT DO NOTHING or DO UPDATE.
            """,
        parameters: [
            .query(
                "statement", .text,
                "An INSERT with the parameter :documents, such as INSERT INTO cars DOCUMENTS (:documents).")
        ],
        body: .of(["application/x-ndjson"], .bytes, isRequired: false),
        answers: [.init(200, "All lines are stored.", .json(.named("ImportAnswer")))],
        failures: [
            badStatement, notGranted, unknownDatabase, .init(409, "QUERY-0302", "QUERY-0402"),
            .init(410, "QUERY-0204"), .init(429, "QUERY-0504"), unavailable, damaged,
        ], errorShape: "ImportAnswer")

    static let importAnswer: [Schema.Member] = [
        .always(
            "transactionId", .whole(from: 0), "The log's offset after the last group; 0 if there is none."),
        .always("lines", .whole(from: 0), "The first lines of the body, which are stored."),
        .always(
            "documents", .whole(from: 0),
            "The documents that were written: not those that ON ID CONFLICT left alone."),
        .always(
            "error", .object, "Empty, or code, message and description; inputLine where a line is refused."),
        .always(
            "warnings",
            .list(
                .members([.maybe("code", .text, "Stable, like DQL-W106."), .always("description", .text)]))),
    ]
}
