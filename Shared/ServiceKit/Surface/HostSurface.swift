extension Surface {
    /// Routes of every process.
    static let host: [RouteDescription] = [
        RouteDescription(
            .get, "/health", "health", .anybody, "Tells whether every part works.",
            details: "503 with the same shape while one does not.",
            answers: [.init(200, "All work.", .json(health)), .init(503, "One fails.", .json(health))]),
        RouteDescription(
            .get, "/health/live", "live", .anybody, "Answers as long as the process does.",
            details: "For a manager that restarts what hangs. It asks nothing else, not even the log.",
            answers: [
                .init(
                    200, "The process answers.",
                    .json(.members([.always("status", .choice(["live"])), .always("version", .text)])))
            ]),
        RouteDescription(
            .get, "/health/ready", "ready", .anybody, "Tells whether requests should be sent here.",
            details: """
                For a load balancer. Never 2xx while the log is out of contact, everything folded is too \
                old, no projection can be used, a disk is nearly full, a key file is missing, or the process \
                drains.
                """,
            answers: [.init(200, "Ready.", .json(ready)), .init(503, "Not ready.", .json(ready))]),
        RouteDescription(
            .get, "/metrics", "metrics", .anybody, "Lists the process's metrics.",
            details: "In the text format of Prometheus.",
            answers: [.init(200, "The metrics.", .of(["text/plain"], .bytes))]),
        partHealth("auth-gateway"), partHealth("replicator"), partHealth("query-service"),
        partHealth("attachment-store"), partHealth("system-database"), partHealth("storage"),
        RouteDescription(
            .get, "/openapi.json", "openapi", .anybody, "Serves this description.",
            details: "OpenAPI 3.1, of every service, made from the table that routes requests.",
            answers: [.init(200, "The document.", .json(.object))]),
        RouteDescription(
            .get, "/api/v5/openapi.json", "openapiOfVersion5", .anybody, "Serves this description.",
            answers: [.init(200, "The document.", .json(.object))]),
        RouteDescription(
            .get, "/api/v5/swagger.json", "swagger", .anybody, "Serves this description.",
            answers: [.init(200, "The document.", .json(.object))]),
        RouteDescription(
            .get, "/mimeo.js", "javascriptClient", .anybody, "Serves the JavaScript client.",
            details: "One ES module without dependencies.",
            answers: [.init(200, "The module.", .of(["text/javascript"], .bytes))]),
        RouteDescription(
            .get, "/api/v5/docs", "docs", .anybody, "Shows this description to people.",
            details: "One page of HTML that loads nothing else.",
            answers: [.init(200, "The page.", .of(["text/html"], .bytes))]),
    ]

    static func partHealth(_ part: String) -> RouteDescription {
        let words = part.split(separator: "-")
        let name = words.map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
        return RouteDescription(
            .get, "/admin/\(part)/health", "healthOf\(name)", .anybody, "Tells whether the \(part) works.",
            details: "503 with the same shape while it does not.",
            answers: [.init(200, "It works.", .json(health)), .init(503, "It does not.", .json(health))])
    }

    private static let ready: Schema = .members([
        .always("status", .choice(["ready", "not ready"])),
        .always(
            "reasons",
            .list(.members([.always("part", .text), .always("code", .text), .always("message", .text)])),
            "Empty while it is ready."),
    ])

    private static let health: Schema = .members([
        .always("status", .choice(["ok", "failing"])),
        .always("checks", .object, "By part: its status, and the reason while it fails."),
    ])
}
