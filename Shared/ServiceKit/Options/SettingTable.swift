extension Setting {
    private static let services: Set<Command> = [
        .serve, .authGateway, .replicator, .queryService, .attachmentStore,
    ]
    /// Commands that work on a server's storage, without the server.
    private static let tools: Set<Command> = [
        .backup, .backupFollowing, .backupVerification, .restore, .verify, .doctor,
    ]
    /// The tools, and those that need its log alone.
    private static let lookers: Set<Command> = tools.union([.upgrade, .moving])
    /// The ones among them that read or fill a server's attachments.
    private static let keepers: Set<Command> = tools.subtracting([.backupVerification])
    private static let clients: Set<Command> = statements.union([.peer, .canary])
    private static let followers: Set<Command> = [.observe, .changes]
    private static let administration: Set<Command> = [.admin, .supportBundle]
    private static let statements: Set<Command> = followers.union([.dql, .importing, .exporting])

    /// All settings, in the order of the reference page.
    ///
    /// To add an option: a row here; a property in a group of flags that its commands have,
    /// `@Option(help: .setting("someSeconds")) var someSeconds: UInt32?`; where it is used,
    /// `configuration.number(flags.someSeconds, "someSeconds")`, or `text` or `flag`, which also look into
    /// the environment and the file. Then `MIMEO_WRITE_REFERENCE=1 swift test --filter OptionTableTests`
    /// writes the page.
    public static let all: [Setting] =
        everywhere + ofServices + ofSome + ofReplicators + ofClients + ofAdministration

    private static let everywhere = [
        Setting(
            "config", .text, "file", of: services.union(clients).union(administration).union(lookers),
            """
            JSON file with values of options: --tls-key is {"tlsKey": "k.pem"} there, and MIMEO_TLS_KEY in \
            the environment. A flag overrides the environment, the environment the file.
            """)
    ]

    private static let ofServices = [
        Setting(
            "data", .text, "dir", of: services.union(lookers), default: "./mimeo-data",
            "Folder for all stored data."),
        Setting(
            "listen", .text, "host:port", of: services.union([.canary]),
            default: "127.0.0.1 and the command's port, 4000 to 4005",
            "Address to serve on; host * is every interface, port 0 lets the system choose."),
        Setting(
            "log", .text, "url", of: services.union(lookers), default: "DATA/log.sqlite",
            "Operation log: sqlite:PATH or postgres://…."),
        Setting(
            "tlsCertificate", .text, "file", of: services.union([.doctor]),
            "Certificate chain (PEM): serve with TLS. Read again when the file changes."),
        Setting(
            "tlsKey", .text, "file", of: services.union([.doctor]), "Private key of the certificate (PEM)."),
        Setting(
            "corsOrigin", .list, "origin", of: services, default: "none",
            "Origin of web pages that may call this server, or '*'; may be given several times."),
        Setting(
            "behindProxy", .flag, of: services, default: "no",
            "Trust the last address of X-Forwarded-For. Only for use behind a proxy that sets it."),
        Setting(
            "adminLoopback", .flag, of: services, default: "no",
            """
            Answer paths under /admin over loopback only. With --behind-proxy all addresses of \
            X-Forwarded-For must be loopback addresses too.
            """),
        Setting(
            "contactSeconds", .number(least: 1), "seconds", of: services, default: "10",
            "Time without contact with the log after which /health fails. At least 1."),
        Setting(
            "contactGraceSeconds", .number(least: 1), "seconds", of: services, default: "60",
            "Time without contact with the log after which credentials are refused. At least 1."),
        Setting(
            "drainSeconds", .number(least: 0), "seconds", of: services,
            default: "3 with --behind-proxy, otherwise 0",
            """
            Time for which it serves on after a signal to stop, with failing health, so that the proxy \
            notices. Longer than the proxy keeps idle connections.
            """),
        Setting(
            "stopSeconds", .number(least: 1), "seconds", of: services, default: "10",
            "Time for running requests to end after that. At least 1."),
        Setting(
            "diskReservePercent", .number(least: 0), "percent", of: services, default: "5",
            "Refuse writes when less than this share of a disk, at most 10 GiB, is free; 0: none."),
        Setting(
            "logFormat", .text, "form", of: services, default: "text",
            "Form of the log's lines: text for people, or json, an object each."),
        Setting(
            "logRequests", .flag, of: services, default: "no",
            "Log a line for every request, not only for those that are refused or fail."),
        Setting(
            "traces", .text, "target", of: services, default: "none",
            """
            Record traces: 'log' for lines of the log, or the URL of a collector of OTLP/HTTP JSON like \
            http://127.0.0.1:4318.
            """),
        Setting(
            "tracePercent", .number(least: 0), "percent", of: services, default: "100",
            "Share of the traces that begin here and are recorded, from 0 to 100."),
        Setting(
            "newLog", .word, of: services,
            "Begin a new log although the data folder has followed another one; its copies are rebuilt."),
    ]

    private static let ofSome = [
        Setting(
            "projection", .text, "url", of: [.serve, .queryService, .verify, .doctor, .upgrade],
            default: "a folder in DATA",
            "Projection: sqlite:FOLDER or postgres://…."),
        Setting(
            "issuer", .text, "origin", of: [.replicator, .queryService, .attachmentStore],
            "Fetch public keys from this auth-gateway instead of reading them from the log."),
        Setting(
            "adminToken", .text, "file", of: services,
            default: "DATA/auth/admin.token, which the auth-gateway creates",
            "File with the credential of the admin endpoints."),
        Setting(
            "providers", .text, "file", of: [.serve, .authGateway], default: "development only",
            "JSON file that says who may log in to which databases."),
        Setting(
            "secretsKey", .text, "file",
            of: [.serve, .authGateway, .queryService, .backup, .backupFollowing, .restore, .doctor],
            default: "DATA/auth/secrets.key, which the auth-gateway creates",
            "File with the key that seals the system database's secrets."),
        Setting(
            "developmentLogin", .flag, of: [.serve, .authGateway],
            default: "only if --listen is loopback, and not with --behind-proxy",
            "Accept logins with a development token, which may do everything."),
        Setting(
            "showToken", .flag, of: [.serve, .authGateway], default: "only to a terminal",
            "Print the development token even if the output is not a terminal and may be stored."),
        Setting(
            "acceptRestore", .word, of: [.serve, .authGateway],
            "Accept that the log was put back to an earlier state, and what that takes back (SRV-0603)."),
        Setting(
            "maxAttachmentBytes", .number(least: 0), "bytes", of: [.serve, .attachmentStore],
            default: "5368709120", "Largest attachment to accept."),
        Setting(
            "attachmentQuotaBytes", .number(least: 0), "bytes", of: [.serve, .attachmentStore],
            default: "0", "Bytes that the attachments of each database may have together; 0: no bound."),
        Setting(
            "attachmentGraceHours", .number(least: 0), "hours", of: [.serve, .attachmentStore],
            default: "168", "Age at which an attachment is removed that no document mentions; 0: never."),
        Setting(
            "attachmentCollectionSeconds", .number(least: 1), "seconds", of: [.serve, .attachmentStore],
            default: "3600", "Time between two looks for such attachments. At least 1."),
        Setting(
            "attachmentBucket", .text, "url", of: keepers.union([.serve, .attachmentStore]),
            default: "folders in DATA/attachments",
            "Attachments in a bucket that speaks S3: http(s)://HOST[:PORT]/BUCKET[/PREFIX]."),
        Setting(
            "attachmentBucketRegion", .text, "name", of: keepers.union([.serve, .attachmentStore]),
            default: "us-east-1", "Region of the bucket, for the signatures of requests."),
        Setting(
            "attachmentBucketCredentials", .text, "file", of: keepers.union([.serve, .attachmentStore]),
            "File with the bucket's credentials: the access key's id and the secret, each on a line."),
        Setting(
            "statementSeconds", .number(least: 1), "seconds", of: [.serve, .queryService, .replicator],
            default: "30", "Time limit of a statement over HTTP. At least 1."),
        Setting(
            "subscriptionSeconds", .number(least: 1), "seconds", of: [.serve, .queryService, .replicator],
            default: "5", "Time that one evaluation of a subscription may compute. At least 1."),
        Setting(
            "statementsPerCredential", .number(least: 1), "count",
            of: [.serve, .queryService, .replicator], default: "32",
            "Most running statements of one credential in a database. At least 1."),
    ]

    private static let ofReplicators = [
        Setting(
            "keepAliveSeconds", .number(least: 1), "seconds", of: [.serve, .replicator], default: "30",
            "Time between two pings of a peer; silent for three, it is gone. At least 1."),
        Setting(
            "tombstoneTTLHours", .number(least: 0), "hours", of: [.serve, .replicator], default: "720",
            "Age at which deletions are forgotten; 0: never."),
        Setting(
            "snapshotOperations", .number(least: 0), "operations", of: [.serve, .replicator],
            default: "100000", "Operations between two snapshots of the log; 0: keep all."),
        Setting(
            "keptOperations", .number(least: 0), "operations", of: [.serve, .replicator], default: "10000",
            "Operations that stay readable behind a snapshot."),
        Setting(
            "logKeepHours", .number(least: 0), "hours", of: [.serve, .replicator], default: "0",
            "Age up to which operations stay readable as well, however many they are."),
        Setting(
            "logMaxBytes", .number(least: 0), "bytes", of: [.serve, .replicator], default: "0",
            """
            Size of a database's operations beyond which fewer stay than by number and age; 0: no limit. A \
            snapshot is then written early.
            """),
        Setting(
            "housekeepingSeconds", .number(least: 1), "seconds", of: [.serve, .replicator], default: "60",
            "Time between two looks at what is due. At least 1."),
    ]

    private static let ofAdministration = [
        Setting(
            "profile", .text, "name", of: administration, default: "that of the last login",
            "The profile that mimeo admin login has kept."),
        Setting(
            "profiles", .text, "file", of: administration, default: "~/.config/mimeo/profiles.json",
            "File of the profiles; only its owner may read it."),
        Setting(
            "adminCredentialFile", .text, "file", of: administration, default: "the profile's",
            "A file with the admin credential; - for the first line of standard input."),
    ]

    private static let ofClients = [
        Setting("store", .text, "dir", of: clients.subtracting(followers), "The store's directory."),
        Setting(
            "url", .text, "origin", of: clients.union(administration),
            "The server, like http://127.0.0.1:4000."),
        Setting(
            "database", .text, "id", of: clients.union(administration),
            "The database on the server; beside --store the one that the store has to be of."),
        Setting(
            "provider", .text, "name", of: clients, default: "development",
            "The login provider that checks the token."),
        Setting(
            "token", .text, "token", of: clients,
            "The token for the login provider. A command line can be seen by others: see --token-file."),
        Setting(
            "tokenFile", .text, "file", of: clients,
            "A file with the token; - for the first line of standard input."),
        Setting(
            "apiKey", .text, "key", of: clients,
            "An API key instead of a login. A command line can be seen by others: see --api-key-file."),
        Setting(
            "apiKeyFile", .text, "file", of: clients,
            "A file with the API key; - for the first line of standard input."),
    ]
}
