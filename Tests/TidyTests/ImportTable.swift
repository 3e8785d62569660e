/// The imports that each module may have, as data. A module without a row may not exist.
///
/// Only direct imports count, and a row says no more than is used: each of our modules and each package in it
/// is imported by a file of the folder. `swift-log` stands in no row: every module may use it but those in
/// `withoutLogging`.
struct ImportTable {
    /// The imports that the files of one folder may have.
    struct Row {
        /// Modules of ours. The folder's README names the same (`Rules.readmeImports`).
        var ours: Set<String> = []
        /// Modules of packages, and the system libraries that we wrap.
        var packages: Set<String> = []
        /// Foundation, Dispatch, the C library and the like.
        var platform: Set<String> = []
    }

    /// The folder of a module below the root, and its row.
    let rows: [String: Row]

    /// The modules that `folder` may import; nil if the table has no such row.
    func allowed(in folder: String) -> Set<String>? {
        guard let row = rows[folder] else { return nil }
        let all = row.ours.union(row.packages).union(row.platform)
        return Self.withoutLogging.contains(folder) ? all : all.union(["Logging"])
    }

    /// The names of our modules: the last parts of their folders.
    var ours: Set<String> {
        Set(rows.keys.compactMap { $0.split(separator: "/").last.map(String.init) })
            .subtracting(["Executable"])
    }

    static let withoutLogging: Set<String> = [
        "Shared/CRDT", "Shared/DQL", "Shared/Exchange", "Shared/Sync",
    ]

    // MARK: the platform

    /// The C library on every platform on which peers run.
    private static let cLibrary: Set<String> = ["Darwin", "Glibc", "Musl"]
    /// Foundation, and locks.
    private static let foundation: Set<String> = ["Foundation", "Synchronization"]

    private static let grdb: Set<String> = ["GRDB", "GRDBSQLite"]

    /// CRDT, DQL and Sync know no file, clock, thread or socket: they import no Foundation either. Identity
    /// is under the same rule, but jwt-kit and the key types speak Foundation's `Data` and `Date`.
    static let mimeo = ImportTable(
        rows: [
            "Shared/CRDT": Row(),
            "Shared/Exchange": Row(ours: ["CRDT"]),
            "Shared/Machine": Row(platform: ["Dispatch", "Foundation", "Synchronization"]),
            // Decision 0043.
            "Shared/WriteAhead": Row(packages: grdb.union(["CPageSums"]), platform: cLibrary),
            "Shared/Attachments": Row(packages: ["Crypto"], platform: foundation.union(cLibrary)),
            // Decision 0045.
            "Shared/WebSocket": Row(
                ours: ["Machine"],
                packages: ["NIOCore", "NIOHTTP1", "NIOPosix", "NIOSSL", "NIOWebSocket"],
                platform: foundation),
            // Decision 0016: what the planner said of a prepared statement, which any thread executes.
            "Shared/DQL": Row(ours: ["CRDT"], platform: ["Synchronization"]),
            "Shared/OperationLog": Row(
                ours: ["CRDT", "Machine", "WriteAhead"], packages: grdb,
                platform: foundation.union(["Dispatch", "Glibc"])),
            "Shared/Replica": Row(
                ours: ["CRDT", "DQL", "Exchange", "Machine", "WriteAhead"], packages: grdb,
                platform: cLibrary.union(["Dispatch", "Synchronization"])),
            "Shared/Postgres": Row(
                // Decision 0189: tasks wait at types of Machine.
                ours: ["CRDT", "DQL", "Machine", "OperationLog"], packages: ["CLibPQ"],
                platform: ["Dispatch", "Glibc", "Synchronization"]),
            // Decision 0093: what it reads and writes is the log's, and what follows from it a fold.
            "Shared/Backup": Row(
                ours: ["CRDT", "Machine", "OperationLog", "Replica"], packages: ["Crypto", "CryptoExtras"],
                platform: ["Foundation", "Glibc"]),
            "Shared/Identity": Row(
                ours: ["CRDT", "DQL"], packages: ["Crypto", "JWTKit", "SwiftASN1", "X509"],
                platform: ["Foundation"]),
            "Shared/Sync": Row(ours: ["CRDT", "DQL", "Exchange", "Identity"]),
            "Shared/Transport": Row(
                // Decision 0087: links between peers.
                ours: ["CRDT", "DQL", "Exchange", "Identity", "Machine", "Replica", "Sync", "WebSocket"],
                packages: ["Crypto", "NIOCore", "NIOPosix", "NIOSSL", "NIOTLS"], platform: foundation),
            "Shared/DittoSwift": Row(
                ours: [
                    "Attachments", "CRDT", "DQL", "Identity", "Machine", "Replica", "Sync", "Transport",
                    "WebSocket",
                ],
                // Combine where there is one: Apple's platforms.
                packages: ["AsyncHTTPClient", "NIOCore"],
                platform: foundation.union(["Combine", "Dispatch"])),
            // Decision 0064.
            "Shared/DittoSwiftCombine": Row(
                ours: ["DittoSwift"],
                packages: ["OpenCombine", "OpenCombineDispatch", "OpenCombineFoundation"],
                platform: ["Combine", "Foundation"]),
            "Shared/DittoObjC": Row(ours: ["DittoSwift"]),
            // Decision 0178: one interface in C for all other languages.
            "Shared/MimeoC": Row(
                ours: ["CRDT", "DittoSwift", "Machine"], packages: ["CMimeo"],
                platform: foundation.union(["Dispatch", "Glibc"])),
            "Shared/ServiceKit": Row(
                // Decision 0024: every service follows the system database, whose documents are read by DQL.
                ours: [
                    "CRDT", "DQL", "Exchange", "Identity", "Machine", "OperationLog", "Postgres", "Replica",
                    "WebSocket",
                ],
                packages: [
                    "ArgumentParser", "AsyncHTTPClient", "CBuildCommit", "CCrashEnd", "CZlib", "Crypto",
                    "HTTPTypes", "Hummingbird", "HummingbirdCore", "Metrics", "NIOCore", "NIOHTTP1",
                    "NIOHTTPTypes", "NIOHTTPTypesHTTP1", "NIOPosix", "NIOSSL", "ServiceLifecycle", "Tracing",
                    "UnixSignals",
                ],
                // Threads of evaluations wait on semaphores.
                platform: foundation.union(["Dispatch"])),
            // Asks webhooks, and signs what it asks.
            "Services/AuthGateway": Row(
                ours: ["CRDT", "Identity", "Machine", "OperationLog", "ServiceKit"],
                packages: ["ArgumentParser", "AsyncHTTPClient", "Crypto", "CryptoExtras", "Hummingbird"],
                platform: foundation),
            "Services/Replicator": Row(
                ours: [
                    "CRDT", "DQL", "Exchange", "Identity", "Machine", "OperationLog", "Replica",
                    "ServiceKit", "Sync", "Transport", "WebSocket",
                ],
                packages: ["ArgumentParser", "Hummingbird"], platform: foundation),
            "Services/QueryService": Row(
                ours: [
                    "CRDT", "Console", "DQL", "Exchange", "Identity", "Machine", "OperationLog", "Postgres",
                    "Replica",
                    "ServiceKit",
                ],
                packages: ["ArgumentParser", "HTTPTypes", "Hummingbird", "NIOCore", "Tracing"],
                platform: foundation),
            "Services/AttachmentStore": Row(
                ours: [
                    "Attachments", "CRDT", "Exchange", "Identity", "Machine", "OperationLog", "Replica",
                    "ServiceKit",
                ],
                packages: [
                    "ArgumentParser", "AsyncHTTPClient", "Crypto", "HTTPTypes", "Hummingbird", "NIOCore",
                ],
                platform: foundation.union(["Dispatch"])),
            // Asks to whom a connection's other end belongs.
            "Services/Console": Row(
                ours: ["CRDT", "Identity", "Machine", "ServiceKit"],
                packages: ["CConsoleFiles", "Crypto", "HTTPTypes", "Hummingbird", "NIOCore"],
                platform: ["Foundation", "Glibc"]),
            // Mimeo assembles the services and is a client of the whole system.
            "Services/Mimeo": Row(
                ours: [
                    "AttachmentStore", "AuthGateway", "Backup", "CRDT", "Console", "DQL", "DittoSwift",
                    "Machine", "OperationLog", "Postgres", "QueryService", "Replicator", "ServiceKit",
                ],
                packages: ["ArgumentParser", "AsyncHTTPClient", "CLibEdit"],
                platform: foundation),
            "Services/AuthGateway/Executable": Row(ours: ["AuthGateway"]),
            "Services/Replicator/Executable": Row(ours: ["Replicator"]),
            "Services/QueryService/Executable": Row(ours: ["QueryService"]),
            "Services/AttachmentStore/Executable": Row(ours: ["AttachmentStore"]),
            "Services/Mimeo/Executable": Row(ours: ["Mimeo"]),
        ])
}
