extension Surface {
    /// The services whose settings, level and latest lines have routes of their own, so that a proxy can send
    /// a request to each.
    static let services = ["auth-gateway", "replicator", "query-service", "attachment-store"]

    /// Routes for operators that every process has.
    static let operation: [RouteDescription] =
        [settings("/admin/settings", "Settings")]
        + services.flatMap { service in
            let words = service.split(separator: "-").map { $0.prefix(1).uppercased() + $0.dropFirst() }
            let name = words.joined()
            return [
                settings("/admin/\(service)/settings", "SettingsOf\(name)"),
                RouteDescription(
                    .get, "/admin/\(service)/log-level", "showLogLevelOf\(name)", .admin(.read),
                    "Shows the level of the log of the \(service).",
                    answers: [.init(200, "The level.", .json(level))]),
                RouteDescription(
                    .put, "/admin/\(service)/log-level", "setLogLevelOf\(name)", .admin(.operate),
                    "Changes the level of the log of the \(service) for a time.",
                    details: "Then the level is again the one that LOG_LEVEL says.",
                    body: .json(
                        .members([
                            .always("level", .choice(levels)),
                            .maybe("seconds", .whole(from: 1), "600 unless said; a day at most."),
                        ])),
                    answers: [.init(200, "The level.", .json(level))],
                    failures: [.init(400, "SRV-0400")]),
                RouteDescription(
                    .get, "/admin/\(service)/log-lines", "listLogLinesOf\(name)", .admin(.read),
                    "Lists the latest lines of the process's log.",
                    parameters: [
                        .query("limit", .whole(from: 1), "Most lines; all that are kept unless said.")
                    ],
                    answers: [
                        .init(
                            200, "The oldest first; the last 500 are kept.",
                            .json(.members([.always("lines", .list(.text))])))
                    ], failures: [.init(400, "SRV-0400")]),
            ]
        }

    private static let levels = ["trace", "debug", "info", "notice", "warning", "error", "critical"]

    private static let level = Schema.members([
        .always("level", .choice(levels)),
        .always("seconds", .orNull(.whole(from: 0)), "How long it stays; null for good."),
    ])

    private static func settings(_ path: String, _ name: String) -> RouteDescription {
        RouteDescription(
            .get, path, "list\(name)", .admin(.read),
            "Lists the settings of the process, with their origins.",
            details: "Passwords in URLs are left out.",
            answers: [
                .init(
                    200, "In the order of the reference page.",
                    .json(
                        .members([
                            .always(
                                "settings",
                                .list(
                                    .members([
                                        .always("name", .text), .always("value", .orNull(.text)),
                                        .always(
                                            "origin",
                                            .choice(["flag", "environment", "file", "default"])),
                                    ]))),
                            .always("version", .text),
                        ])))
            ])
    }
}
