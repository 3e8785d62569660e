/// Who may import what: the table of the design, as data. A module that is not in it may not exist.
///
/// Only direct imports count. `swift-log` stands in no row: every module may use it but those in
/// `withoutLogging`.
struct ImportTable {
    /// The folder of a module below the root, and what its files may import besides themselves.
    let rows: [String: Set<String>]

    /// What `folder` may import, or nil where the table has no such row.
    func allowed(in folder: String) -> Set<String>? {
        guard let row = rows[folder] else { return nil }
        return Self.withoutLogging.contains(folder) ? row : row.union(["Logging"])
    }

    static let withoutLogging: Set<String> = ["Shared/CRDT", "Shared/DQL", "Shared/Sync"]

    // MARK: families of one dependency

    private static let collections: Set<String> = [
        "BasicContainers", "Collections", "DequeModule", "HashTreeCollections", "HeapModule",
        "OrderedCollections",
    ]
    private static let grdb: Set<String> = ["GRDB", "GRDBSQLite"]
    private static let hummingbird: Set<String> = [
        "Hummingbird", "HummingbirdCore", "HummingbirdRouter", "HummingbirdTLS", "HTTPTypes",
    ]
    private static let nio: Set<String> = [
        "NIOConcurrencyHelpers", "NIOCore", "NIOFoundationCompat", "NIOHTTP1", "NIOHTTPTypes",
        "NIOHTTPTypesHTTP1", "NIOPosix", "NIOSSL", "NIOTLS", "NIOWebSocket",
    ]
    private static let certificates: Set<String> = ["SwiftASN1", "X509"]

    // MARK: the platform

    /// Mathematics (`log`, `pow`) for the functions of DQL; nothing else of the C library belongs there.
    private static let mathematics: Set<String> = ["Glibc", "Musl", "Darwin"]
    /// Values without files, threads or sockets.
    private static let values: Set<String> = ["Foundation", "FoundationEssentials"]
    private static let platform: Set<String> = values.union(mathematics).union([
        "Dispatch", "FoundationNetworking", "Synchronization",
    ])

    private static let domain: Set<String> = [
        "CRDT", "DQL", "Replica", "OperationLog", "Postgres", "Sync", "Presence", "Transport", "Attachments",
        "Identity",
    ]
    private static let service: Set<String> = domain.union(hummingbird).union(platform).union([
        "ServiceKit", "NIOCore", "ArgumentParser",
    ])
    private static let services: Set<String> = [
        "AuthGateway", "Replicator", "QueryService", "AttachmentStore",
    ]

    /// CRDT, DQL and Sync know no file, clock, thread or socket: they import no Foundation either. Identity
    /// and Presence are under the same rule, but jwt-kit and the key types speak Foundation's `Data` and
    /// `Date`.
    static let mimeo = ImportTable(
        rows: [
            "Shared/CRDT": collections,
            // Decision 0016: what the planner said of a prepared statement, which any thread executes.
            "Shared/DQL": mathematics.union(["CRDT", "Synchronization"]),
            // Decision 0043.
            "Shared/WriteAhead": grdb,
            "Shared/Replica": platform.union(grdb).union(["CRDT", "DQL", "WriteAhead"]),
            "Shared/OperationLog": platform.union(grdb).union(["CRDT", "WriteAhead"]),
            "Shared/Postgres": platform.union(["CRDT", "DQL", "OperationLog", "CLibPQ"]),
            "Shared/Identity": values.union(certificates).union([
                "CRDT", "DQL", "JWTKit", "Crypto", "Synchronization",
            ]),
            "Shared/Attachments": platform.union(["CRDT", "Crypto"]),
            "Shared/Presence": values.union(["CRDT", "Identity"]),
            "Shared/Sync": ["CRDT", "DQL", "Identity"],
            "Shared/Transport": platform.union(nio).union([
                "CRDT", "DQL", "Sync", "Replica", "OperationLog", "Presence", "Attachments", "Identity",
            ]),
            "Shared/DittoSwift": domain.subtracting(["Postgres"]).union(platform).union(["AsyncHTTPClient"]),
            "Shared/ServiceKit": platform.union(hummingbird).union(nio).union([
                // Decision 0024: every service follows the system database, whose documents are read by DQL.
                "CRDT", "DQL", "Crypto",
                "Identity", "OperationLog", "Postgres", "Replica", "AsyncHTTPClient", "Metrics",
                "CoreMetrics", "Configuration", "ServiceLifecycle", "UnixSignals", "ArgumentParser",
            ]),
            // Asks webhooks, and signs what it asks.
            "Services/AuthGateway": service.union(["AsyncHTTPClient", "Crypto"]),
            "Services/Replicator": service,
            "Services/QueryService": service,
            "Services/AttachmentStore": service,
            // Mimeo assembles the services and is a client of the whole system.
            "Services/Mimeo": service.union(services).union(["DittoSwift", "AsyncHTTPClient"]),
            "Services/AuthGateway/Executable": ["AuthGateway"],
            "Services/Replicator/Executable": ["Replicator"],
            "Services/QueryService/Executable": ["QueryService"],
            "Services/AttachmentStore/Executable": ["AttachmentStore"],
            "Services/Mimeo/Executable": ["Mimeo"],
        ])
}
