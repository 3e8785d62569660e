extension Surface {
    private static let base = "/admin/attachment-store/databases/:database"
    private static let number = Schema.whole(from: 0)
    private static let unknown = RouteDescription.Failure(404, "ATT-0303")
    private static let malformed = RouteDescription.Failure(400, "ATT-0302")
    private static let broken = RouteDescription.Failure(500, "BLOB-0201")
    private static let noBody = RouteDescription.Body.json(.members([]), isRequired: false)

    private static let course = Schema.members([
        .always("running", .flag), .maybe("checked", number), .maybe("checkedBytes", number),
        .maybe("damaged", number), .maybe("unread", number, "Could not be read; begin another one later."),
        .maybe("isWhole", .flag, "False if the attachments could not be listed to the end."),
        .maybe("beganAt", number, "Seconds since 1970."),
        .maybe("endedAt", .orNull(number)),
    ])

    /// `/admin/attachment-store/…`.
    static let adminOfAttachments: [RouteDescription] = [
        RouteDescription(
            .get, "\(base)/attachments", "listAttachments", .admin(.read), "Lists stored attachments.",
            parameters: [
                .query("after", .text, "Begin after this id."),
                .query("limit", .whole(from: 1), "Most rows."),
            ],
            answers: [
                .init(
                    200, "In the order of their ids.",
                    .json(
                        .members([
                            .always(
                                "attachments",
                                .list(
                                    .members([
                                        .always("id", .text), .always("len", number),
                                        .always("storedAt", number, "Seconds since 1970."),
                                    ])))
                        ])))
            ], failures: [malformed, unknown, broken]),
        RouteDescription(
            .get, "\(base)/usage", "attachmentUsage", .admin(.read),
            "Says how many bytes attachments and unfinished uploads take.",
            answers: [
                .init(
                    200, "The sums.",
                    .json(
                        .members([
                            .always("attachments", number), .always("bytes", number),
                            .always("uploads", number), .always("uploadBytes", number),
                            .always("damaged", .list(.text), "Ids that were set aside."),
                            .always("quotaBytes", .orNull(number)),
                        ])))
            ], failures: [unknown, broken]),
        RouteDescription(
            .get, "\(base)/verifications", "attachmentVerification", .admin(.read),
            "Says how the latest verification goes.",
            answers: [.init(200, "Its course; only running where there was none.", .json(course))],
            failures: [unknown, broken]),
        RouteDescription(
            .post, "\(base)/verifications", "verifyAttachments", .admin(.operate),
            "Begins to compare all attachments with their ids; damaged ones are set aside.", body: noBody,
            answers: [.init(202, "It runs, or did already.", .json(course))], failures: [unknown, broken]),
        RouteDescription(
            .post, "\(base)/collections", "collectAttachments", .admin(.own),
            "Removes attachments that no document has mentioned for the grace period.",
            parameters: [.query("graceHours", number, "Instead of --attachment-grace-hours.")],
            body: noBody,
            answers: [
                .init(
                    200, "One pass; isWhole is false where more is left than one pass removes.",
                    .json(
                        .members([
                            .always("removed", number), .always("removedBytes", number),
                            .always("mentioned", number), .always("waiting", number),
                            .always("isWhole", .flag),
                        ])))
            ], failures: [malformed, unknown, .init(409, "ATT-0304"), broken]),
    ]
}
