import HTTPTypes

extension Surface {
    /// Routes of the web console.
    static let console: [RouteDescription] = [
        RouteDescription(
            .get, "/", "console", .anybody, "Serves the console, a web page.",
            details: "It asks for a credential itself. It loads nothing from elsewhere.",
            answers: [.init(200, "The page.", .of(["text/html"], .bytes)), notModified]),
        file("/console/:version/:part", "consoleFile"),
        file("/console/:version/:part/:file", "consoleFileInFolder"),
        partHealth("console"),
        RouteDescription(
            .get, path, "showConsoleSession", .anybody, "Tells who is signed in at the console.",
            answers: [.init(200, "Whoever the cookies stand for; nobody without them.", .json(session))]),
        RouteDescription(
            .post, path, "beginConsoleSession", .anybody, "Exchanges a credential for a cookie.",
            details: """
                The credential is the admin credential, an API key or an access token, as a bearer token. \
                The cookie is HttpOnly and SameSite=Strict, holds for 12 hours at most, and counts only in \
                requests with X-Mimeo-Console: the database of the request, or any text for /admin.
                """,
            parameters: [.header("X-Mimeo-Console", .text, "Any text.")],
            body: .json(
                .members([
                    .maybe(
                        "local", .flag,
                        "True to sign in as administrator without a credential: for a browser that the "
                            + "server's own user runs on its machine.")
                ]), isRequired: false),
            answers: [.init(200, "Whoever is signed in now.", .json(session))],
            failures: [
                .init(
                    401, "SRV-0401", "AUTH-0101", "AUTH-0102", "AUTH-0103", "AUTH-0104", "AUTH-0105",
                    "AUTH-0106", "AUTH-0107", "AUTH-0108", "AUTH-0109", "AUTH-0110", "AUTH-0111",
                    "AUTH-0112"),
                .init(503, "SRV-0601", "SRV-0602"),
            ]),
        RouteDescription(
            .delete, path, "endConsoleSession", .anybody, "Signs out at the console.",
            parameters: [
                .query("database", .text, "The one database to sign out of; all and the admin without it."),
                .header("X-Mimeo-Console", .text, "Any text."),
            ],
            answers: [.init(200, "Whoever is still signed in.", .json(session))],
            failures: [.init(503, "SRV-0602")]),
        RouteDescription(
            .get, "/admin/metrics/series", "listMetricSeries", .admin(.read),
            "Lists readings of the process's metrics, for plots.",
            details: "Each metric is the sum of its series. A histogram's points have sum and count.",
            parameters: [
                .query("name", .text, "A metric; all without it.", repeats: true),
                .query("since", .whole(from: 0), "Milliseconds since 1970: only later readings."),
                .query("step", .choice(["5", "60"]), "Seconds: 5 for the last hour, 60 for the last day."),
            ],
            answers: [
                .init(
                    200, "The series, by name.",
                    .json(
                        .members([
                            .always(
                                "series",
                                .list(
                                    .members([
                                        .always("name", .text),
                                        .always("kind", .choice(["counter", "gauge", "histogram"])),
                                        .always("points", .list(.list(.number))),
                                    ])))
                        ])))
            ]),
    ]

    private static let path = "/admin/console/session"
    private static let notModified = RouteDescription.Answer(304, "The browser's copy is the file.")

    private static func file(_ path: String, _ name: String) -> RouteDescription {
        RouteDescription(
            .get, path, name, .anybody, "Serves a file of the console.",
            answers: [.init(200, "The file.", .of(["application/octet-stream"], .bytes)), notModified],
            failures: [.init(404, "SRV-0404")])
    }

    private static let session = Schema.members([
        .always("admin", .flag, "True with the rights of an admin credential."),
        .always("adminRole", .orNull(.choice(["read", "operate", "own"])), "Its role."),
        .always("adminExpiresAt", .orNull(.whole(from: 0)), "Seconds since 1970."),
        .always(
            "databases",
            .list(
                .members([
                    .always("id", .text), .always("userID", .text),
                    .always("expiresAt", .whole(from: 0), "Seconds since 1970."),
                    .always("permissions", .anything),
                ]))),
        .always("local", .flag, "True if `local` would be accepted."),
        .always("version", .text),
    ])
}
