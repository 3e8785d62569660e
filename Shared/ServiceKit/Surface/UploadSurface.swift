extension Surface {
    private static let path = "/api/v5/attachments/uploads"
    private static let tus = RouteDescription.Parameter.header("Tus-Resumable", .text, "1.0.0")
    private static let checksum = RouteDescription.Parameter.header(
        "Upload-Checksum", .text, "sha1 or sha256, a blank, and the digest of the piece in base64.")
    private static let length = RouteDescription.Parameter.header(
        "Upload-Length", .whole(from: 0), "The bytes of the whole file.")
    private static let piece = RouteDescription.Body.of(
        ["application/offset+octet-stream"], .bytes, isRequired: false)
    private static let malformed = RouteDescription.Failure(400, "ATT-0103", "ATT-0201", "BLOB-0104")
    private static let unknown = RouteDescription.Failure(404, "BLOB-0106")
    private static let version = RouteDescription.Failure(412, "ATT-0202")
    private static let busy = RouteDescription.Failure(423, "BLOB-0107")
    private static let storage: [RouteDescription.Failure] = [
        .init(409, "BLOB-0109"), .init(413, "BLOB-0103"), .init(460, "ATT-0204"),
        .init(500, "BLOB-0201", "ATT-0402"), .init(503, "ATT-0401"),
        .init(507, "ATT-0301", "BLOB-0203", "BLOB-0204"),
    ]

    /// Resumable uploads, by the tus protocol.
    static let uploads: [RouteDescription] = [
        RouteDescription(
            .options, path, "describeUploads", .anybody, "Says what of the tus protocol is served.",
            answers: [.init(204, "In Tus-Version, Tus-Extension, Tus-Max-Size, Tus-Checksum-Algorithm.")]),
        RouteDescription(
            .post, path, "beginUpload", .user, "Begins a resumable upload (tus 1.0.0).",
            details: """
                Location names the upload, which belongs to the credential. With the content type of a \
                piece, the body is the first one. Mimeo-Attachment-Id is the attachment's id, once all \
                bytes are there.
                """,
            parameters: [
                tus, length,
                .header("Upload-Defer-Length", .text, "1, where the length is not known yet."),
                .header(
                    "Upload-Metadata", .text,
                    "Pairs of key and base64. id: the attachment id that the bytes must have."),
                checksum,
            ], body: piece,
            answers: [.init(201, "Begun; with a piece that is everything, stored.")],
            failures: [malformed, .init(400, "BLOB-0101"), version, busy, .init(429, "BLOB-0108")] + storage),
        RouteDescription(
            .patch, "\(path)/:upload", "continueUpload", .user, "Appends a piece to an upload.",
            details: "What arrives of a piece that breaks off counts, unless the piece has a checksum.",
            parameters: [
                tus, .header("Upload-Offset", .whole(from: 0), "The bytes that are there."), length, checksum,
            ], body: piece, answers: [.init(204, "Durable; Upload-Offset says up to where.")],
            failures: [malformed, unknown, version, .init(415, "ATT-0203"), busy] + storage),
        RouteDescription(
            .delete, "\(path)/:upload", "deleteUpload", .user, "Removes an upload and its bytes.",
            details: "A finished upload is forgotten; its attachment stays.", parameters: [tus],
            answers: [noContent], failures: [.init(400, "ATT-0201"), unknown, version, busy]),
        RouteDescription(
            .post, "\(path)/:upload", "overrideUpload", .user,
            "Stands for PATCH, DELETE or HEAD, for clients that can only send POST.",
            parameters: [tus, .header("X-HTTP-Method-Override", .text, "PATCH, DELETE or HEAD.")],
            body: piece, answers: [noContent, .init(200, "The state, for HEAD.")],
            failures: [malformed, unknown, version, .init(415, "ATT-0203"), busy] + storage),
    ]
}
