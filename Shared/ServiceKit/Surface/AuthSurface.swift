extension Surface {
    /// Routes of the auth-gateway for applications and services.
    static let login: [RouteDescription] = [
        RouteDescription(
            .post, "/_ditto/auth/login", "login", .anybody,
            "Exchanges a provider's token for ours.",
            body: .json(
                .members([
                    .maybe("databaseID", .text), .maybe("appID", .text, "The older name of databaseID."),
                    .always("provider", .text), .always("token", .text),
                    .maybe("peerKey", .orNull(.text), "The public key that the token is bound to."),
                ])),
            answers: [
                .init(
                    200, "The token.",
                    .json(
                        .members([
                            .always("accessToken", .text), .always("expiresIn", .whole(from: 1), "Seconds."),
                            .always("userID", .text),
                            .always("clientInfo", .anything, "The provider's data for the application."),
                        ])))
            ],
            failures: [
                .init(400, "AUTH-0401", "AUTH-0302"),
                .init(401, "AUTH-0404", "AUTH-0408", "AUTH-0415", "AUTH-0416"), .init(403, "AUTH-0424"),
                .init(404, "AUTH-0402", "AUTH-0403"), .init(429, "AUTH-0410", "AUTH-0414"),
                .init(502, "AUTH-0406"),
                .init(503, "AUTH-0405", "AUTH-0413", "SRV-0602", "SRV-0603"),
            ]),
        RouteDescription(
            .get, "/_ditto/auth/jwks.json", "jwks", .anybody, "Lists the public keys of access tokens.",
            answers: [
                .init(200, "A JSON Web Key Set.", .json(.members([.always("keys", .list(.object))])))
            ]),
        RouteDescription(
            .post, "/_ditto/auth/cert", "certify", .user, "Issues a peer certificate for the token's key.",
            body: .json(.members([.always("request", .text, "A certificate request in PEM.")])),
            answers: [
                .init(
                    200, "The certificate.",
                    .json(
                        .members([
                            .always("certificate", .text), .always("authorities", .list(.text)),
                        ])))
            ], failures: [.init(400, "AUTH-0401", "AUTH-0305")]),
        RouteDescription(
            .post, "/_ditto/auth/attachment-urls", "signAttachmentURLs", .user,
            "Signs URLs of attachments, which open them without a token for a short time.",
            details: """
                For <img> and others that send no header. Each URL opens one attachment with what its signer \
                may read: whether a document that refers to it may be read is asked when the URL is used. A \
                URL ends early when its signer's token, user, peer or API key is revoked, and when the \
                database's signing key has retired.
                """,
            body: .json(
                .members([
                    .always("ids", .list(.text), "1 to 100 ids of attachments."),
                    .maybe("seconds", .whole(from: 1), "300 unless said, 3,600 at most."),
                ])),
            answers: [
                .init(
                    200, "The URLs, in the order of the ids.",
                    .json(
                        .members([
                            .always(
                                "urls",
                                .list(
                                    .members([
                                        .always("id", .text),
                                        .always("url", .text, "Path and query at this server."),
                                    ]))),
                            .always("expiresAt", .whole(from: 0), "Seconds since 1970."),
                        ])))
            ], failures: [.init(400, "AUTH-0401")]),
    ]

    private static let base = "/admin/auth/databases/:database"
    private static let unknown = RouteDescription.Failure(404, "AUTH-0402")
    private static let unknownRecord = RouteDescription.Failure(404, "AUTH-0402", "AUTH-0411")
    private static let malformed = RouteDescription.Failure(400, "AUTH-0401")
    private static let id = Schema.Member.always("id", .text)
    private static let seconds = Schema.whole(from: 0)

    private static func list(_ name: String, _ members: [Schema.Member]) -> RouteDescription.Answer {
        .init(200, "All there are.", .json(.members([.always(name, .list(.members(members)))])))
    }

    private static func made(_ members: [Schema.Member]) -> RouteDescription.Answer {
        .init(201, "Made. Secrets are shown here and never again.", .json(.members(members)))
    }

    /// `/admin/auth/…`.
    static let adminOfLogins =
        databaseRoutes + limitRoutes + providerRoutes + keyRoutes + accessRoutes + auditRoutes + sealingRoutes
        + restoreRoutes + credentialRoutes

    private static let erasure = Schema.members([
        .always("database", .text), .always("deletedAt", seconds),
        .always("erases", .flag, "False for a database that an earlier version deleted and kept."),
        .always("receipts", receipts),
    ])

    private static let limitsOf: [Schema.Member] = [
        .maybe("whole", .object, "Of all users together: requestsPerSecond, bytesPerSecond, sessions."),
        .maybe("eachUser", .object, "The same of each user."),
        .maybe("users", .object, "The same of users by their names, instead of eachUser."),
    ]

    private static let limitRoutes: [RouteDescription] = [
        RouteDescription(
            .get, "\(base)/limits", "showLimits", .admin(.read),
            "Shows the limits of a database and of its users.",
            answers: [.init(200, "The limits.", .json(.members(limitsOf)))], failures: [unknown]),
        RouteDescription(
            .put, "\(base)/limits", "putLimits", .admin(.own),
            "Sets the limits of a database and of its users, all at once.",
            details: """
                A limit that is not named is without a bound. Each process of a service counts by itself. \
                Whatever is beyond a limit is refused with 429 and Retry-After.
                """,
            body: .json(.members(limitsOf), isRequired: false),
            answers: [noContent], failures: [malformed, unknown]),
    ]

    private static let databaseRoutes: [RouteDescription] = [
        RouteDescription(
            .get, "/admin/auth/databases", "listDatabases", .admin(.read), "Lists the databases.",
            answers: [
                list("databases", [id, .always("createdAt", seconds), .always("development", .flag)])
            ]),
        RouteDescription(
            .post, "/admin/auth/databases", "createDatabase", .admin(.own), "Makes a database.",
            body: .json(
                .members([
                    .maybe("id", .text, "1 to 128 letters, digits, '-' or '_'; without it a new UUID."),
                    .maybe("development", .flag, "False for a database without a development login."),
                ]), isRequired: false),
            answers: [made([id, .always("developmentToken", .orNull(.text))])],
            failures: [malformed, .init(409, "AUTH-0409")]),
        RouteDescription(
            .get, base, "showDatabase", .admin(.own), "Shows a database and its development token.",
            answers: [
                .init(
                    200, "The database.",
                    .json(.members([id, .always("developmentToken", .orNull(.text))])))
            ], failures: [unknown]),
        RouteDescription(
            .delete, base, "deleteDatabase", .admin(.own),
            "Deletes a database, and erases its data for good.",
            details: "Every service erases what it has after the answer. The id stays in use.",
            answers: [.init(202, "The erasure has begun.", .json(erasure))], failures: [unknown]),
        RouteDescription(
            .get, "\(base)/erasure", "showErasure", .admin(.read),
            "Shows which services have erased a deleted database.",
            answers: [.init(200, "The receipts.", .json(erasure))], failures: [unknown]),
    ]

    private static let provider: [Schema.Member] = [
        .always("name", .text), .always("kind", .text), .always("summary", .text),
        .always("source", .text, "admin, or file for one that the file of --providers defines."),
        .maybe("webhookUrl", .text, "Its server; the rest may be a secret."), .maybe("payload", .text),
        .maybe("signingSecrets", .list(.object), "Ids and times of validity."),
        .maybe("anonymous", .object, "Permissions and length of session."),
        .maybe("accounts", .object, "Length of session, and where mail is sent."),
    ]

    private static let auditRoutes: [RouteDescription] = [
        RouteDescription(
            .get, "/admin/auth/audit", "listAudit", .admin(.read),
            "Lists admin changes, logins and certificates, the newest first.",
            parameters: [
                .query("where", .text, "A condition in DQL."),
                .query("before", .text, "Begin before this id."),
                .query("limit", .whole(from: 1), "Most entries; 100, and 1,000 at most."),
            ],
            answers: [
                .init(
                    200, "The entries.",
                    .json(
                        .members([
                            .always("entries", .list(.object)),
                            .always("before", .orNull(.text), "For the next page; null after the last."),
                        ])))
            ], failures: [malformed]),
        RouteDescription(
            .post, "/admin/auth/audit", "queryAudit", .admin(.read),
            "Executes a SELECT over the collection audit.",
            body: .json(.members([.always("statement", .text), .maybe("args", .object)])),
            answers: [
                .init(
                    200, "The rows.",
                    .json(
                        .members([
                            .always("items", .list(.anything)),
                            .always("more", .flag, "True if there are more than 1,000."),
                        ])))
            ], failures: [malformed]),
    ]

    private static let providerRoutes: [RouteDescription] = [
        RouteDescription(
            .get, "\(base)/providers", "listProviders", .admin(.read), "Lists the login providers.",
            answers: [
                list("providers", provider)
            ], failures: [unknown]),
        RouteDescription(
            .get, "\(base)/providers/:provider", "showProvider", .admin(.read),
            "Shows a login provider, without its secrets.",
            answers: [.init(200, "The provider.", .json(.members(provider)))], failures: [unknownRecord]),
        RouteDescription(
            .patch, "\(base)/providers/:provider", "changeProvider", .admin(.own),
            "Changes the settings of a login provider that the request names.",
            details: "Null removes one; the members of anonymous are merged. Other secrets stay.",
            body: .json(
                .members([
                    .maybe("webhookUrl", .text), .maybe("payload", .anything),
                    .maybe("signingSecrets", .anything), .maybe("anonymous", .object),
                    .maybe("accounts", .object),
                ]), isRequired: false),
            answers: [.init(200, "The provider as it is now.", .json(.members(provider)))],
            failures: [malformed, unknownRecord, .init(409, "AUTH-0409", "AUTH-0412")]),
        RouteDescription(
            .post, "\(base)/providers", "createProvider", .admin(.own),
            "Makes or replaces a login provider.",
            body: .json(
                .members([
                    .always("name", .text), .maybe("webhookUrl", .text), .maybe("payload", .anything),
                    .maybe("signingSecrets", .list(.object)), .maybe("anonymous", .object),
                    .maybe("accounts", .object),
                ])),
            answers: [made([.always("name", .text)])],
            failures: [malformed, unknown, .init(409, "AUTH-0409", "AUTH-0412")]),
        RouteDescription(
            .delete, "\(base)/providers/:provider", "deleteProvider", .admin(.own),
            "Deletes a login provider.", answers: [noContent], failures: [unknownRecord]),
        RouteDescription(
            .get, "\(base)/providers/:provider/secrets", "listSecrets", .admin(.read),
            "Lists the signing secrets of a webhook, without the secrets.",
            answers: [
                list(
                    "secrets",
                    [id, .always("notBefore", .orNull(seconds)), .always("notAfter", .orNull(seconds))])
            ], failures: [unknownRecord, .init(409, "AUTH-0412")]),
        RouteDescription(
            .post, "\(base)/providers/:provider/secrets", "createSecret", .admin(.own),
            "Makes a signing secret of a webhook.",
            body: .json(
                .members([
                    .maybe("notBefore", seconds), .maybe("notAfter", seconds),
                    .maybe("retireOthersAt", seconds),
                ]), isRequired: false),
            answers: [made([id, .always("secret", .text)])],
            failures: [malformed, unknownRecord, .init(409, "AUTH-0409", "AUTH-0412")]),
        RouteDescription(
            .delete, "\(base)/providers/:provider/secrets/:secret", "deleteSecret", .admin(.own),
            "Deletes a signing secret.", answers: [noContent],
            failures: [unknownRecord, .init(409, "AUTH-0409", "AUTH-0412")]),
    ]

    private static let keyRoutes: [RouteDescription] = [
        RouteDescription(
            .get, "\(base)/api-keys", "listAPIKeys", .admin(.read), "Lists the API keys.",
            answers: [
                list(
                    "apiKeys",
                    [
                        id, .always("name", .text), .always("createdAt", seconds),
                        .always("expiresAt", seconds), .always("permissions", .object),
                        .always("peers", .list(.object), "The peers that have logged in with it."),
                    ]
                )
            ], failures: [unknown]),
        RouteDescription(
            .post, "\(base)/api-keys", "createAPIKey", .admin(.own), "Makes an API key.",
            body: .json(
                .members([
                    .always("name", .text), .always("permissions", .object),
                    .maybe("expiresAt", seconds, "Seconds since 1970, at most a year away."),
                ])),
            answers: [made([id, .always("key", .text), .always("expiresAt", seconds)])],
            failures: [malformed, unknown]),
        RouteDescription(
            .delete, "\(base)/api-keys/:key", "deleteAPIKey", .admin(.own), "Deletes an API key.",
            answers: [noContent], failures: [unknownRecord]),
        RouteDescription(
            .get, "\(base)/revocations", "listRevocations", .admin(.read), "Lists the revocations.",
            answers: [
                list(
                    "revocations",
                    [
                        id, .always("kind", .text), .always("value", .text), .always("since", seconds),
                        .always("liftedAt", .orNull(seconds)),
                    ])
            ], failures: [unknown]),
        RouteDescription(
            .post, "\(base)/revocations", "revoke", .admin(.operate), "Revokes a user, a peer or a token.",
            body: .json(.members([.always("kind", .text), .always("value", .text)])),
            answers: [made([id])], failures: [malformed, unknown]),
        RouteDescription(
            .delete, "\(base)/revocations/:revocation", "liftRevocation", .admin(.own),
            "Lifts a revocation.", answers: [noContent], failures: [unknownRecord]),
        RouteDescription(
            .get, "\(base)/keys", "listKeys", .admin(.read), "Lists the keys that sign tokens.",
            answers: [
                list("keys", [id, .always("createdAt", seconds), .always("retiresAt", .orNull(seconds))])
            ], failures: [unknown]),
        RouteDescription(
            .post, "\(base)/keys", "rotateKey", .admin(.own), "Begins to sign tokens with a new key.",
            body: .json(
                .members([.maybe("overlapSeconds", seconds, "How long the present key stays valid.")]),
                isRequired: false),
            answers: [made([id])], failures: [malformed, unknown]),
    ]

    private static let explanation = Schema.members([
        .always("allowed", .flag), .always("reason", .text),
    ])

    private static let accessRoutes: [RouteDescription] = [
        RouteDescription(
            .post, "\(base)/explain-access", "explainAccess", .admin(.read),
            "Tells whether an identity may read and write a document, and by which rule.",
            body: .json(
                .members([
                    .maybe("permissions", .object, "Those of a login; or apiKey."),
                    .maybe("apiKey", .text, "The id of an API key."),
                    .maybe("account", .text, "The name of an account."),
                    .maybe("user", .text, "Finds a revocation of the user."),
                    .maybe("peer", .text, "Finds a revocation of the peer key."),
                    .always("collection", .text), .always("id", .anything),
                ])),
            answers: [
                .init(
                    200, "The verdict.",
                    .json(
                        .members([
                            .always("refusals", .list(.text), "Revocations and ends that concern it."),
                            .always("read", explanation), .always("write", explanation),
                        ])))
            ], failures: [malformed, unknownRecord])
    ]

    private static let sealingRoutes: [RouteDescription] = [
        RouteDescription(
            .get, "/admin/auth/sealing-key", "showSealingKey", .admin(.read),
            "Tells whether the sealing key is being changed.",
            answers: [
                .init(
                    200, "The state.",
                    .json(.members([.always("changing", .flag), .always("outdated", seconds)])))
            ]),
        RouteDescription(
            .post, "/admin/auth/sealing-key", "changeSealingKey", .admin(.own),
            "Makes the next sealing key, and seals every secret under it.",
            body: .json(.members([]), isRequired: false),
            answers: [made([.always("sealed", seconds)])],
            failures: [malformed, .init(409, "AUTH-0409", "AUTH-0412")]),
        RouteDescription(
            .delete, "/admin/auth/sealing-key/previous", "deletePreviousSealingKey", .admin(.own),
            "Deletes the previous sealing key.", answers: [noContent],
            failures: [.init(404, "AUTH-0411"), .init(409, "AUTH-0412")]),
    ]

    private static let role = Schema.choice(AdminRole.allCases.map(\.rawValue))

    private static let credentialRoutes: [RouteDescription] = [
        RouteDescription(
            .get, "/admin/auth/whoami", "whoami", .admin(.read), "Tells the name and role of the credential.",
            answers: [
                .init(
                    200, "The name is null for the credential of the file.",
                    .json(
                        .members([
                            .always("name", .orNull(.text)), .always("role", role),
                            .always("expiresAt", .orNull(seconds)),
                        ])))
            ]),
        RouteDescription(
            .get, "/admin/auth/credentials", "listCredentials", .admin(.read),
            "Lists the named admin credentials, without their secrets.",
            answers: [
                list(
                    "credentials",
                    [
                        id, .always("name", .text), .always("role", role), .always("createdAt", seconds),
                        .always("expiresAt", seconds),
                    ])
            ]),
        RouteDescription(
            .post, "/admin/auth/credentials", "createCredential", .admin(.own),
            "Makes a named admin credential.",
            body: .json(
                .members([
                    .always("name", .text, "Stands in the audit."), .always("role", role),
                    .maybe(
                        "expiresAt", seconds, "Seconds since 1970; in 90 days unless said, at most a year."),
                ])),
            answers: [
                made([
                    id, .always("credential", .text), .always("role", role), .always("expiresAt", seconds),
                ])
            ], failures: [malformed, .init(409, "AUTH-0412")]),
        RouteDescription(
            .delete, "/admin/auth/credentials/:credential", "deleteCredential", .admin(.own),
            "Deletes a named admin credential, which ends it at once in every service.",
            answers: [noContent], failures: [.init(404, "AUTH-0411")]),
    ]

    private static let restoreRoutes: [RouteDescription] = [
        RouteDescription(
            .get, "/admin/auth/restore", "showRestore", .admin(.read),
            "Tells what a restore of the log takes back.",
            answers: [
                .init(
                    200, "The differences that the auth-gateway has found.",
                    .json(
                        .members([
                            .always("accepted", .flag, "False while every token and login is refused."),
                            .always("takenBack", .list(.text), "A sentence each."),
                            .always("others", .whole(from: 0), "How many more there are."),
                        ])))
            ]),
        RouteDescription(
            .post, "/admin/auth/restore", "acceptRestore", .admin(.own),
            "Accepts that the log was put back, in every service.", answers: [noContent]),
    ]
}
