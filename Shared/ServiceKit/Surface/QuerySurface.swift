extension Surface {
    /// Routes of the query-service for applications.
    static let statements: [RouteDescription] = [
        execute("v5", "executeStatement"), execute("v4", "executeStatementStrictly"),
    ]

    static let badStatement = RouteDescription.Failure(
        400, "QUERY-0101", "QUERY-0102", "QUERY-0103", "QUERY-0104")
    static let notGranted = RouteDescription.Failure(403, "QUERY-0202", "QUERY-0203")
    static let unknownDatabase = RouteDescription.Failure(404, "QUERY-0201")
    static let unavailable = RouteDescription.Failure(503, "QUERY-0303", "QUERY-0304")

    private static func execute(_ version: String, _ name: String) -> RouteDescription {
        RouteDescription(
            .post, "/api/\(version)/store/execute", name, .user,
            version == "v4" ? "Executes a statement in strict mode." : "Executes a statement.",
            details: """
                A read sees every operation that was in the log when the request arrived. A write is \
                answered when it is durable. An error of the statement itself has a DQL code.
                """,
            parameters: [
                .header("X-DITTO-TXN-ID", .whole(from: 0), "The oldest offset that may answer.")
            ],
            body: .json(
                .members([
                    .always("statement", .text, "DQL."), .maybe("args", .orNull(.object), "By name."),
                ])),
            answers: [.init(200, "The result.", .json(.named("Envelope")))],
            failures: [
                badStatement, notGranted, unknownDatabase, .init(408, "QUERY-0301"),
                .init(409, "QUERY-0302"), .init(410, "QUERY-0204"), unavailable,
            ], errorShape: "Envelope")
    }
}
