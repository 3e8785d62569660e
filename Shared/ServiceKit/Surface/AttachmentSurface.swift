extension Surface {
    /// Routes of the attachment-store.
    static let attachments: [RouteDescription] =
        ["v4", "v5"].flatMap { version in
            [
                RouteDescription(
                    .post, "/api/\(version)/attachments/upload", "uploadAttachment\(version.uppercased())",
                    .user,
                    "Stores a file under its SHA-256.",
                    details: "The bytes themselves, or a form with one file.",
                    body: .of(["application/octet-stream", "multipart/form-data"], .bytes),
                    answers: [
                        .init(
                            200, "Stored, or there already.",
                            .json(.members([.always("id", .text), .always("len", .whole(from: 0))])))
                    ],
                    failures: [
                        .init(400, "ATT-0101", "ATT-0102", "ATT-0103", "BLOB-0104"), .init(413, "BLOB-0103"),
                        .init(500, "BLOB-0201", "ATT-0402"), .init(503, "ATT-0401"),
                        .init(507, "ATT-0301", "BLOB-0203", "BLOB-0204"),
                    ]),
                RouteDescription(
                    .get, "/api/\(version)/attachments/:id", "downloadAttachment\(version.uppercased())",
                    .user,
                    "Sends a file, or a range of it.",
                    details: """
                        404 for a file that no document refers to that the token may read. Name and type are \
                        those in the metadata of a document's token; with Accept: application/octet-stream \
                        the documents are not asked.
                        """,
                    parameters: [
                        .header("Range", .text, "bytes=FROM-THROUGH"),
                        .header("If-None-Match", .text, "The ETag of a copy that the client has."),
                        .query("filename", .text, "The name in Content-Disposition, to save the file."),
                        .query("signed", .text, "Of a signed URL, in place of a token."),
                    ],
                    answers: [
                        .init(200, "The file.", .of(["application/octet-stream", "*/*"], .bytes)),
                        .init(206, "The range.", .of(["application/octet-stream", "*/*"], .bytes)),
                        .init(304, "The client's copy is the file."),
                    ],
                    failures: [
                        .init(400, "BLOB-0101"), .init(401, "AUTH-0113"), .init(404, "BLOB-0102"),
                        .init(410, "BLOB-0110"),
                        .init(412, "ATT-0105"), .init(416, "ATT-0104", "BLOB-0105"),
                        .init(500, "BLOB-0201", "BLOB-0202", "ATT-0402"), .init(503, "ATT-0401"),
                    ]),
            ]
        } + [
            RouteDescription(
                .get, "/api/v5/attachments", "listDocumentAttachments", .user,
                "Lists the attachments of documents that the token may read.",
                details: "In pages, in the order of collections and ids. Name and type are the token's own.",
                parameters: [
                    .query("collection", .text, "Only of documents of this collection."),
                    .query("after", .text, "The member next of the page before."),
                    .query("limit", .whole(from: 1), "Most rows; 100 unless said, 1,000 at most."),
                ],
                answers: [
                    .init(
                        200, "A page, and the sums of all pages.",
                        .json(
                            .members([
                                .always(
                                    "attachments",
                                    .list(
                                        .members([
                                            .always("collection", .text), .always("id", .anything),
                                            .always(
                                                "attachment",
                                                .members([
                                                    .always("id", .text), .always("len", .whole(from: 0)),
                                                ])),
                                            .always("name", .orNull(.text)), .always("type", .orNull(.text)),
                                        ]))),
                                .always("count", .whole(from: 0)), .always("bytes", .whole(from: 0)),
                                .always("next", .orNull(.text), "Null in the last page."),
                            ])))
                ],
                failures: [.init(400, "SRV-0400"), .init(500, "BLOB-0201"), .init(503, "ATT-0401")]),
            RouteDescription(
                .get, "/api/v5/attachments/:id/chunks", "attachmentChunks", .user,
                "Tells the SHA-256 of each MiB of a file.",
                details: "For clients that compare what they receive before the end.",
                answers: [
                    .init(
                        200, "In the order of the file; the last chunk may be shorter.",
                        .json(
                            .members([
                                .always("id", .text), .always("len", .whole(from: 0)),
                                .always("chunkBytes", .whole(from: 1)),
                                .always("chunks", .list(.text), "Each in base64url, 43 characters."),
                            ])))
                ],
                failures: [
                    .init(400, "BLOB-0101"), .init(404, "BLOB-0102"), .init(410, "BLOB-0110"),
                    .init(500, "BLOB-0201", "BLOB-0202", "ATT-0402"), .init(503, "ATT-0401"),
                ]),
        ]
}
