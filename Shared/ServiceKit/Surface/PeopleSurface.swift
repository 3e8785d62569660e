extension Surface {
    private static let seconds = Schema.whole(from: 0)
    private static let base = "/admin/auth/databases/:database"
    private static let id = Schema.Member.always("id", .text)
    private static let unknown = RouteDescription.Failure(404, "AUTH-0402")
    private static let unknownRecord = RouteDescription.Failure(404, "AUTH-0402", "AUTH-0411")
    private static let malformed = RouteDescription.Failure(400, "AUTH-0401")
    private static let unsuitable = RouteDescription.Failure(400, "AUTH-0401", "AUTH-0417")
    private static let busy = RouteDescription.Failure(503, "AUTH-0413", "SRV-0602", "SRV-0603")
    private static let ended = RouteDescription.Failure(410, "AUTH-0423")

    private static func shown(_ members: [Schema.Member]) -> RouteDescription.Answer {
        .init(200, "The facts, without secrets.", .json(.members(members)))
    }

    private static func list(_ name: String, _ members: [Schema.Member]) -> RouteDescription.Answer {
        .init(200, "All there are.", .json(.members([.always(name, .list(.members(members)))])))
    }

    private static let session: [Schema.Member] = [
        id, .always("createdAt", seconds), .always("expiresAt", seconds), .always("address", .text),
        .always("peerKey", .orNull(.text)),
        .always("current", .flag, "True for the session that asks."),
    ]

    private static let device: [Schema.Member] = [
        id, .always("name", .text), .always("user", .text, "The user that it acts for."),
        .always("approvedBy", .orNull(.text)), .always("peerKey", .orNull(.text)),
        .always("createdAt", seconds), .always("expiresAt", seconds),
        .always("lastAt", .orNull(seconds), "The last login, to within a day."),
        .always("permissions", .object),
    ]

    private static let join: [Schema.Member] = [
        .always("code", .text), .always("name", .text, "The name that the device gives itself."),
        .always("peerKey", .orNull(.text)), .always("address", .text), .always("createdAt", seconds),
        .always("expiresAt", seconds), .always("answeredBy", .orNull(.text)),
    ]

    /// Routes of devices that join, of links, and of an account's own session.
    static let people = joinRoutes + linkRoutes + ownRoutes

    private static let joinRoutes: [RouteDescription] = [
        RouteDescription(
            .post, "/_ditto/auth/join", "join", .anybody, "Begins to join a device with a code.",
            details: "After RFC 8628: the device shows userCode, and asks with deviceCode every interval.",
            body: .json(
                .members([
                    .always("databaseID", .text), .maybe("name", .text, "At most 64 bytes."),
                    .maybe("peerKey", .orNull(.text), "The only peer that the credential will be for."),
                ])),
            answers: [
                .init(
                    200, "The codes.",
                    .json(
                        .members([
                            .always("deviceCode", .text, "A secret of the device."),
                            .always("userCode", .text), .always("verificationURI", .text),
                            .always("verificationURIComplete", .text),
                            .always("expiresIn", seconds, "Seconds."),
                            .always("interval", seconds, "Seconds."),
                        ])))
            ], failures: [malformed, unknown, .init(409, "AUTH-0409"), .init(429, "AUTH-0410"), busy]),
        RouteDescription(
            .post, "/_ditto/auth/join/key", "joinKey", .anybody,
            "Gives an approved device its API key, once.",
            body: .json(.members([.always("deviceCode", .text)])),
            answers: [
                .init(
                    200, "The key, which is shown here and never again.",
                    .json(
                        .members([
                            .always("apiKey", .text), .always("provider", .text, "For logins of a peer."),
                            .always("name", .text), .always("databaseID", .text),
                            .always("expiresAt", seconds),
                        ])))
            ],
            failures: [
                .init(400, "AUTH-0401", "AUTH-0420", "AUTH-0421"), .init(403, "AUTH-0422"), ended, busy,
            ]),
    ]

    private static let linkRoutes: [RouteDescription] = [
        RouteDescription(
            .post, "/_ditto/auth/link", "showLink", .anybody, "Shows an invitation or a reset of a password.",
            body: .json(.members([.always("token", .text)])),
            answers: [
                shown([
                    .always("kind", .text, "invitation or reset."), .always("databaseID", .text),
                    .always("provider", .text),
                    .always("name", .orNull(.text), "Null if the person chooses it."),
                    .always("expiresAt", seconds),
                ])
            ], failures: [malformed, .init(410, "AUTH-0419"), .init(429, "AUTH-0410"), busy]),
        RouteDescription(
            .post, "/_ditto/auth/link/use", "useLink", .anybody,
            "Sets the password of an account, which an invitation makes. A link works once.",
            body: .json(
                .members([
                    .always("token", .text), .always("password", .text), .maybe("name", .text),
                ])),
            answers: [
                .init(
                    201, "The account can sign in.",
                    .json(
                        .members([
                            .always("databaseID", .text), .always("provider", .text), .always("name", .text),
                        ])))
            ],
            failures: [
                unsuitable, .init(404, "AUTH-0411"), .init(409, "AUTH-0418"), .init(410, "AUTH-0419"),
                .init(429, "AUTH-0410"), busy,
            ]),
        RouteDescription(
            .post, "/_ditto/auth/reset", "askReset", .anybody,
            "Has a link that resets the password sent to the account's address.",
            details: "The answer is the same for a name that no account has.",
            body: .json(
                .members([
                    .always("databaseID", .text), .always("provider", .text), .always("name", .text),
                ])),
            answers: [.init(202, "If there is such an account with an address, it gets mail.")],
            failures: [
                malformed, .init(404, "AUTH-0402", "AUTH-0403"), .init(409, "AUTH-0412"),
                .init(429, "AUTH-0410"), busy,
            ]),
    ]

    private static let ownRoutes: [RouteDescription] = [
        RouteDescription(
            .get, "/_ditto/auth/account", "showOwnAccount", .user, "Shows the account of the session.",
            answers: [
                shown([
                    .always("name", .text), .always("provider", .text), .always("databaseID", .text),
                    .always("mail", .orNull(.text)), .always("set", .orNull(.text)),
                    .always("permissions", .object), .always("expiresAt", .orNull(seconds)),
                    .always("secondFactor", .flag), .always("sessions", .list(.members(session))),
                    .always("devices", .list(.members(device))),
                ])
            ], failures: [.init(401, "AUTH-0404")]),
        RouteDescription(
            .post, "/_ditto/auth/account/password", "changeOwnPassword", .user, "Changes the password.",
            body: .json(
                .members([
                    .always("password", .text, "The present one."), .always("newPassword", .text),
                    .maybe("code", .text, "Of the second factor."),
                    .maybe("endSessions", .flag, "Ends all other sessions."),
                ])),
            answers: [noContent],
            failures: [
                unsuitable, .init(401, "AUTH-0404", "AUTH-0415", "AUTH-0416"), .init(404, "AUTH-0411"),
                .init(429, "AUTH-0414"), busy,
            ]),
        RouteDescription(
            .post, "/_ditto/auth/account/second-factor", "changeOwnSecondFactor", .user,
            "Begins, confirms or ends the second factor.",
            details: "First without a code, then with a code of the secret; off ends it.",
            body: .json(
                .members([
                    .always("password", .text), .maybe("code", .text), .maybe("off", .flag),
                ])),
            answers: [
                shown([.always("secret", .text), .always("uri", .text, "For an authenticator.")]), noContent,
            ],
            failures: [
                malformed, .init(401, "AUTH-0404", "AUTH-0415", "AUTH-0416"), .init(404, "AUTH-0411"),
                .init(409, "AUTH-0412"), .init(429, "AUTH-0414"), busy,
            ]),
        RouteDescription(
            .delete, "/_ditto/auth/account/sessions/:session", "endOwnSession", .user,
            "Ends a session of the account.", answers: [noContent],
            failures: [.init(401, "AUTH-0404"), .init(404, "AUTH-0411")]),
        RouteDescription(
            .delete, "/_ditto/auth/account/devices/:device", "removeOwnDevice", .user,
            "Removes a device that acts for the user.", answers: [noContent],
            failures: [.init(401, "AUTH-0404"), .init(404, "AUTH-0411")]),
        RouteDescription(
            .get, "/_ditto/auth/account/joins/:code", "showJoin", .user, "Shows a device that asks to join.",
            answers: [shown(join)], failures: [.init(401, "AUTH-0404"), ended]),
        RouteDescription(
            .post, "/_ditto/auth/account/joins/:code", "answerOwnJoin", .user,
            "Approves or denies a device, which acts for the user then.",
            body: .json(
                .members([
                    .maybe("name", .text), .maybe("permissions", .object, "At most those of the user."),
                    .maybe("deny", .flag),
                ]), isRequired: false),
            answers: [noContent],
            failures: [malformed, .init(401, "AUTH-0404"), .init(409, "AUTH-0412"), ended]),
    ]

    // MARK: For administrators

    private static let account: [Schema.Member] = [
        .always("name", .text), .always("provider", .text), .always("mail", .orNull(.text)),
        .always("set", .orNull(.text)), .always("permissions", .object, "Its own, or those of its set."),
        .always("createdAt", seconds), .always("expiresAt", .orNull(seconds)),
        .always("hasPassword", .flag), .always("secondFactor", .flag),
        .always("sessions", seconds, "How many there are now."), .always("lastLoginAt", .orNull(seconds)),
    ]

    private static let linkMade = RouteDescription.Answer(
        201, "The link, which is shown here and never again.",
        .json(
            .members([
                .maybe("id", .text), .always("name", .orNull(.text)), .always("link", .orNull(.text)),
                .maybe("expiresAt", seconds),
                .always("mailed", .flag, "True if it was given to the webhook for mail."),
            ])))

    private static let rights: [Schema.Member] = [
        .maybe("permissions", .orNull(.object)), .maybe("set", .orNull(.text), "Instead of permissions."),
    ]

    /// `/admin/auth/databases/:database/…` of people and devices.
    static let adminOfPeople = accountRoutes + setRoutes + invitationRoutes + deviceRoutes

    private static let accountRoutes: [RouteDescription] = [
        RouteDescription(
            .get, "\(base)/accounts", "listAccounts", .admin(.read),
            "Lists accounts in the order of their names.",
            parameters: [
                .query("after", .text, "Begin after this name."),
                .query("limit", .whole(from: 1), "Most accounts; 100, and 1,000 at most."),
                .query("match", .text, "A part of the name or the address."),
            ],
            answers: [
                .init(
                    200, "The accounts.",
                    .json(
                        .members([
                            .always("accounts", .list(.members(account))),
                            .always("after", .orNull(.text), "For the next page; null after the last."),
                            .always("total", seconds),
                        ])))
            ], failures: [malformed, unknown]),
        RouteDescription(
            .post, "\(base)/accounts", "createAccount", .admin(.own), "Makes an account.",
            details: "Without a password the answer has a link with which the person chooses one.",
            body: .json(
                .members(
                    [
                        .always("provider", .text), .always("name", .text), .maybe("mail", .text),
                        .maybe("password", .text),
                        .maybe("expiresAt", seconds, "Seconds since 1970; without it there is no end."),
                    ] + rights)),
            answers: [linkMade],
            failures: [
                unsuitable, .init(404, "AUTH-0402", "AUTH-0403"), .init(409, "AUTH-0412", "AUTH-0418"),
                .init(503, "AUTH-0413"),
            ]),
        RouteDescription(
            .get, "\(base)/accounts/:account", "showAccount", .admin(.read), "Shows an account.",
            answers: [shown(account)], failures: [unknownRecord]),
        RouteDescription(
            .patch, "\(base)/accounts/:account", "changeAccount", .admin(.own), "Changes an account.",
            details: "Null removes a member; each one that is not named stays.",
            body: .json(
                .members(
                    [
                        .maybe("mail", .orNull(.text)), .maybe("expiresAt", .orNull(seconds)),
                        .maybe("secondFactor", .flag, "False ends it."),
                        .maybe("endSessions", .flag, "Ends all its sessions now."),
                    ] + rights), isRequired: false),
            answers: [shown(account)], failures: [malformed, unknownRecord]),
        RouteDescription(
            .delete, "\(base)/accounts/:account", "deleteAccount", .admin(.own),
            "Removes an account with its sessions, devices and links, at once in every service.",
            answers: [noContent], failures: [unknownRecord]),
        RouteDescription(
            .post, "\(base)/accounts/:account/reset", "resetAccount", .admin(.own),
            "Makes a link that resets the password.", body: .json(.members([]), isRequired: false),
            answers: [linkMade],
            failures: [
                malformed, .init(404, "AUTH-0402", "AUTH-0403", "AUTH-0411"), .init(409, "AUTH-0412"),
            ]),
        RouteDescription(
            .post, "\(base)/accounts/:account/view", "viewAccount", .admin(.own),
            "Makes a token that reads what the account may read, for ten minutes.",
            answers: [
                .init(
                    201, "The token.",
                    .json(
                        .members([
                            .always("accessToken", .text), .always("expiresIn", seconds),
                            .always("userID", .text),
                        ])))
            ], failures: [unknownRecord]),
        RouteDescription(
            .get, "\(base)/accounts/:account/sessions", "listAccountSessions", .admin(.read),
            "Lists the sessions of an account, the latest first.", answers: [list("sessions", session)],
            failures: [unknownRecord]),
        RouteDescription(
            .delete, "\(base)/accounts/:account/sessions/:session", "endAccountSession", .admin(.operate),
            "Ends a session of an account, at once in every service.", answers: [noContent],
            failures: [unknownRecord]),
    ]

    private static let setRoutes: [RouteDescription] = [
        RouteDescription(
            .get, "\(base)/sets", "listSets", .admin(.read), "Lists the sets of permissions.",
            answers: [
                list(
                    "sets",
                    [
                        .always("name", .text), .always("permissions", .object),
                        .always("accounts", seconds, "How many have it."),
                    ])
            ], failures: [unknown]),
        RouteDescription(
            .put, "\(base)/sets/:set", "putSet", .admin(.own), "Makes a set of permissions, or replaces it.",
            details: "Accounts have its permissions from their next login on.",
            body: .json(
                .members([
                    .always("permissions", .object),
                    .maybe("endSessions", .flag, "Ends the sessions of all accounts with the set."),
                ])),
            answers: [noContent], failures: [malformed, unknown, .init(409, "AUTH-0412")]),
        RouteDescription(
            .delete, "\(base)/sets/:set", "deleteSet", .admin(.own),
            "Deletes a set of permissions that no account has.", answers: [noContent],
            failures: [unknownRecord, .init(409, "AUTH-0412")]),
    ]

    private static let invitationRoutes: [RouteDescription] = [
        RouteDescription(
            .get, "\(base)/invitations", "listInvitations", .admin(.read),
            "Lists invitations and resets that nobody has used.",
            answers: [
                list(
                    "invitations",
                    [
                        id, .always("provider", .text), .always("kind", .text),
                        .always("name", .orNull(.text)), .always("mail", .orNull(.text)),
                        .always("set", .orNull(.text)), .always("permissions", .orNull(.object)),
                        .always("createdAt", seconds), .always("expiresAt", seconds),
                    ])
            ], failures: [unknown]),
        RouteDescription(
            .post, "\(base)/invitations", "createInvitation", .admin(.own),
            "Makes a link with which a person gets an account, once.",
            body: .json(
                .members(
                    [
                        .always("provider", .text),
                        .maybe("name", .text, "Without it the person chooses one."), .maybe("mail", .text),
                        .maybe("expiresAt", seconds, "In a week unless said, in 90 days at most."),
                        .maybe("accountExpiresAt", seconds, "End of the account."),
                    ] + rights)),
            answers: [linkMade],
            failures: [
                unsuitable, .init(404, "AUTH-0402", "AUTH-0403"), .init(409, "AUTH-0412", "AUTH-0418"),
            ]),
        RouteDescription(
            .delete, "\(base)/invitations/:invitation", "deleteInvitation", .admin(.own),
            "Takes an invitation or a reset back.", answers: [noContent], failures: [unknownRecord]),
    ]

    private static let deviceRoutes: [RouteDescription] = [
        RouteDescription(
            .get, "\(base)/joins", "listJoins", .admin(.read), "Lists the devices that ask to join.",
            answers: [list("joins", join)], failures: [unknown]),
        RouteDescription(
            .post, "\(base)/joins/:code", "answerJoin", .admin(.own), "Approves or denies a device.",
            body: .json(
                .members(
                    [
                        .maybe("name", .text), .maybe("user", .text, "The account that it acts for."),
                        .maybe("deny", .flag),
                    ] + rights), isRequired: false),
            answers: [noContent],
            failures: [malformed, unknownRecord, .init(409, "AUTH-0412"), ended]),
        RouteDescription(
            .get, "\(base)/devices", "listDevices", .admin(.read), "Lists the devices that have joined.",
            answers: [list("devices", device)], failures: [unknown]),
        RouteDescription(
            .delete, "\(base)/devices/:device", "deleteDevice", .admin(.operate),
            "Removes a device, at once in every service.", answers: [noContent], failures: [unknownRecord]),
    ]
}
