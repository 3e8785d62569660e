// swift-tools-version: 6.2
import PackageDescription

/// The house of Mimeo: shared domain modules, four services, and `mimeo`, which assembles them.
/// Every import in the sources is held against the table in `Tests/TidyTests/ImportTable.swift`.

/// The commit that `mimeo --version` prints, from the environment of a release build (Makefile, Dockerfile).
/// `Context.gitInformation` would be stale: a manifest that has not changed is not evaluated again.
let commit = Context.environment["MIMEO_BUILD_COMMIT"]

let strict: [SwiftSetting] = [.treatAllWarnings(as: .error)]

func module(
    _ name: String, _ dependencies: [Target.Dependency], exclude: [String] = [], embedded: [String] = []
) -> Target {
    .target(
        name: name, dependencies: dependencies, path: "Shared/\(name)", exclude: exclude + ["README.md"],
        resources: embedded.map { .embedInCode($0) }, swiftSettings: strict)
}

func service(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> [Target] {
    [
        .target(
            name: name, dependencies: dependencies, path: "Services/\(name)",
            exclude: exclude + ["Executable", "README.md"],
            swiftSettings: strict),
        .executableTarget(
            name: "\(name)Main", dependencies: [.byName(name: name)], path: "Services/\(name)/Executable",
            swiftSettings: strict),
    ]
}

/// The code of tests is not optimized, beside optimized code of ours: it compiles in two thirds of the time.
/// Flags of a test target concern nobody who depends on the package, because no product has it.
let tested: [SwiftSetting] = [.unsafeFlags(["-Onone"], .when(configuration: .release))]

func tests(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    .testTarget(
        name: name, dependencies: dependencies, path: "Tests/\(name)", exclude: exclude,
        swiftSettings: strict + tested)
}

/// A product that only the server uses: an application that depends on the package with `traits: []` neither
/// fetches nor builds it (decision 0048).
func serverProduct(_ name: String, _ package: String) -> Target.Dependency {
    .product(name: name, package: package, condition: .when(traits: ["Server"]))
}

let sqlite = Target.Dependency.product(name: "GRDBSQLite", package: "GRDB.swift")
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
/// Scrypt, and RSA.
let cryptoExtras = Target.Dependency.product(name: "CryptoExtras", package: "swift-crypto")
let certificates = Target.Dependency.product(name: "X509", package: "swift-certificates")
let asn1 = Target.Dependency.product(name: "SwiftASN1", package: "swift-asn1")
let jwt = Target.Dependency.product(name: "JWTKit", package: "jwt-kit")
let hummingbird = serverProduct("Hummingbird", "hummingbird")
let httpClient = Target.Dependency.product(name: "AsyncHTTPClient", package: "async-http-client")
let arguments = serverProduct("ArgumentParser", "swift-argument-parser")
let httpTypes = serverProduct("HTTPTypes", "swift-http-types")
let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let nioEmbedded = Target.Dependency.product(name: "NIOEmbedded", package: "swift-nio")
let nioHTTP = Target.Dependency.product(name: "NIOHTTP1", package: "swift-nio")
let nioWebSocket = Target.Dependency.product(name: "NIOWebSocket", package: "swift-nio")
let nioTLS = Target.Dependency.product(name: "NIOTLS", package: "swift-nio")
let nioSSL = Target.Dependency.product(name: "NIOSSL", package: "swift-nio-ssl")

/// Combine, where there is none; with the schedulers and publishers of Dispatch and Foundation.
let openCombine = ["OpenCombine", "OpenCombineDispatch", "OpenCombineFoundation"].map {
    Target.Dependency.product(name: $0, package: "OpenCombine")
}

let shared: [Target] = [
    module("CRDT", [], exclude: ["Encoding.md"]),
    module("DQL", ["CRDT"], exclude: ["Evaluators.md", "Functions.md", "Parameters.md"]),
    module("Exchange", ["CRDT"]),
    module("Machine", []),
    module("WriteAhead", ["CPageSums", grdb, sqlite], exclude: ["CPageSums"]),
    .target(
        name: "CPageSums", path: "Shared/WriteAhead/CPageSums", linkerSettings: [.linkedLibrary("sqlite3")]),
    module("Replica", ["CRDT", "DQL", "Exchange", "Machine", "WriteAhead", grdb, sqlite, logging]),
    module("OperationLog", ["CRDT", "Machine", "WriteAhead", grdb, sqlite, logging]),
    module("Identity", ["CRDT", "DQL", jwt, crypto, certificates, asn1]),
    module("Attachments", [crypto, logging]),
    module(
        "Sync", ["CRDT", "DQL", "Exchange", "Identity"],
        exclude: ["Example.md", "Gaps.md", "Wire/wire.cddl"]),
    module("WebSocket", ["Machine", nioCore, nioPosix, nioHTTP, nioWebSocket, nioSSL, logging]),
    module(
        "Transport",
        [
            "CRDT", "DQL", "Exchange", "Identity", "Machine", "Sync", "Replica", "WebSocket", nioCore,
            nioPosix, nioSSL, nioTLS, crypto, logging,
        ]),
    module(
        "DittoSwift",
        [
            "CRDT", "DQL", "Machine", "Replica", "Sync", "Transport", "WebSocket", "Identity",
            "Attachments", httpClient, nioCore, logging,
        ]),
    // Decision 0064: what only an application of 4.x or of Combine imports.
    module("DittoSwiftCombine", ["DittoSwift"] + openCombine),
    module("DittoObjC", ["DittoSwift"]),
    // The library for other languages; `scripts/native` links it.
    module("MimeoC", ["CMimeo", "CRDT", "DittoSwift", "Machine"], exclude: ["exports.map", "include"]),
    .systemLibrary(name: "CMimeo", path: "Shared/MimeoC/include"),
    module(
        "ServiceKit",
        [
            "CBuildCommit", "CCrashEnd", "CRDT", "CZlib", "DQL", "Exchange", "Identity", "Machine",
            "OperationLog", "Postgres",
            "Replica", "WebSocket", crypto, hummingbird, httpClient, httpTypes, nioCore, nioPosix, nioHTTP,
            nioSSL, logging, arguments,
            serverProduct("HummingbirdCore", "hummingbird"),
            serverProduct("NIOHTTPTypes", "swift-nio-extras"),
            serverProduct("NIOHTTPTypesHTTP1", "swift-nio-extras"),
            serverProduct("Metrics", "swift-metrics"),
            serverProduct("Tracing", "swift-distributed-tracing"),
            serverProduct("ServiceLifecycle", "swift-service-lifecycle"),
            serverProduct("UnixSignals", "swift-service-lifecycle"),
        ],
        exclude: [
            "CBuildCommit", "CCrashEnd", "CZlib", "Client/LICENSE", "Client/README.md", "Client/mimeo.d.ts",
            "Client/package.json",
        ], embedded: ["Client/mimeo.js"]),
    .systemLibrary(
        name: "CZlib", path: "Shared/ServiceKit/CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
    module(
        "Postgres", ["CRDT", "DQL", "Machine", "OperationLog", "CLibPQ", logging], exclude: ["CLibPQ"]),
    module(
        "Backup",
        [
            "CRDT", "Machine", "OperationLog", "Replica", crypto, logging,
            cryptoExtras,
        ]),
    .systemLibrary(
        name: "CLibPQ", path: "Shared/Postgres/CLibPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
]

let services: [Target] =
    service(
        "AuthGateway",
        [
            "ServiceKit", "CRDT", "OperationLog", "Identity", "Machine", hummingbird, httpClient, crypto,
            cryptoExtras, nioCore, logging, arguments,
        ])
    + service(
        "Replicator",
        [
            "ServiceKit", "CRDT", "DQL", "Exchange", "Machine", "Replica", "OperationLog", "Sync",
            "Transport", "Identity", "WebSocket", hummingbird, nioCore, arguments,
        ])
    + service(
        "QueryService",
        [
            "Console", "ServiceKit", "CRDT", "DQL", "Exchange", "Machine", "Replica", "OperationLog",
            "Postgres",
            "Identity", hummingbird, httpTypes, nioCore, arguments,
            serverProduct("Tracing", "swift-distributed-tracing"),
        ])
    + service(
        "AttachmentStore",
        [
            "ServiceKit", "Attachments", "CRDT", "Exchange", "Machine", "OperationLog", "Identity", "Replica",
            crypto, httpClient, httpTypes, hummingbird, nioCore, logging, arguments,
            serverProduct("Metrics", "swift-metrics"),
        ])
    + service(
        "Mimeo",
        [
            "ServiceKit", "AuthGateway", "Replicator", "QueryService", "AttachmentStore", "Backup", "Console",
            "CRDT", "DQL", "DittoSwift", "Machine", "OperationLog", "Postgres", "CLibEdit", hummingbird,
            httpClient, arguments, logging,
        ],
        exclude: ["CLibEdit", "Import.md"])
    + [
        .target(
            name: "Console",
            dependencies: [
                "CConsoleFiles", "ServiceKit", "CRDT", "Identity", "Machine", crypto, hummingbird, httpTypes,
                nioCore,
            ],
            path: "Services/Console", exclude: ["CConsoleFiles", "Docs", "README.md", "VENDORED.md", "Web"],
            swiftSettings: strict),
        // The page's files within the program: `#embed` takes no time, `embedInCode` would take a minute.
        .target(
            name: "CConsoleFiles", path: "Services/Console/CConsoleFiles"),
        .systemLibrary(
            name: "CLibEdit", path: "Services/Mimeo/CLibEdit", pkgConfig: "libedit",
            providers: [.apt(["libedit-dev"])]),
        .target(
            name: "CBuildCommit", path: "Shared/ServiceKit/CBuildCommit",
            cSettings: commit.map { [.define("MIMEO_BUILD_COMMIT", to: "\"\($0)\"")] } ?? []),
        .target(name: "CCrashEnd", path: "Shared/ServiceKit/CCrashEnd"),
    ]

let checks: [Target] = [
    .target(name: "TestSupport", path: "Tests/Support/TestSupport", swiftSettings: strict),
    .target(
        name: "LogFakes", dependencies: ["OperationLog", "CRDT"], path: "Tests/Support/LogFakes",
        swiftSettings: strict),
    .target(
        name: "CFaultVFS", path: "Tests/Support/CFaultVFS", linkerSettings: [.linkedLibrary("sqlite3")]),
    .target(
        name: "FaultDisk", dependencies: ["CFaultVFS", "TestSupport"], path: "Tests/Support/FaultDisk",
        swiftSettings: strict),
    .target(
        name: "FuzzTargets", dependencies: ["CRDT", "DQL", "Exchange", "Sync", "Identity", "AuthGateway"],
        path: "Tests/Fuzz/Targets",
        swiftSettings: strict + [.define("FUZZ_BYTES"), .define("FUZZ_TOKENS")]),
    .testTarget(
        name: "FuzzTests", dependencies: ["FuzzTargets"], path: "Tests/Fuzz/Replay",
        swiftSettings: strict + tested),
    .target(
        name: "DQLCorpus", dependencies: ["DQL", "CRDT", "TestSupport"], path: "Tests/Support/DQLCorpus",
        swiftSettings: strict),
    tests(
        "PostgresTests",
        [
            "CLibPQ", "Postgres", "OperationLog", "CRDT", "DQL", "DQLCorpus", "LogFakes", "TestSupport",
            logging,
        ]),
    tests("CRDTTests", ["CRDT", "TestSupport"], exclude: ["Fixtures"]),
    tests("MachineTests", ["Machine", "TestSupport"]),
    tests("DQLTests", ["DQL", "CRDT", "DQLCorpus", "TestSupport"], exclude: ["Corpus", "Samples"]),
    tests(
        "ReplicaTests",
        [
            "Replica", "Exchange", "DQL", "CRDT", "Machine", "DQLCorpus", "FaultDisk", "TestSupport", grdb,
            logging,
        ],
        exclude: ["Fixtures"]),
    tests(
        "OperationLogTests",
        [
            "OperationLog", "WriteAhead", "Postgres", "CRDT", "FaultDisk", "LogFakes", "TestSupport", grdb,
            logging,
        ]),
    tests(
        "BackupTests",
        [
            "Backup", "OperationLog", "Postgres", "Replica", "CRDT", "DQL", "Machine", "LogFakes",
            "TestSupport", logging,
        ],
        exclude: ["Fixtures"]),
    tests("WriteAheadTests", ["WriteAhead", "FaultDisk", "TestSupport", grdb]),
    tests("SyncTests", ["Sync", "Exchange", "DQL", "CRDT", "TestSupport"], exclude: ["Fixtures"]),
    tests(
        "IdentityTests",
        ["Identity", "CRDT", "DQL", crypto, certificates, asn1, nioCore, nioEmbedded, nioSSL]),
    tests("AttachmentsTests", ["Attachments", "TestSupport", crypto]),
    tests(
        "ServiceKitTests",
        [
            "ServiceKit", "WebSocket", "Identity", "OperationLog", "CRDT", "DQL", "Machine", "LogFakes",
            "TestSupport", hummingbird, httpClient, httpTypes, nioCore, nioEmbedded, nioPosix, nioHTTP,
            nioWebSocket, logging, arguments,
            serverProduct("CoreMetrics", "swift-metrics"),
            serverProduct("Tracing", "swift-distributed-tracing"),
        ]),
    tests(
        "AuthGatewayTests",
        [
            "AuthGateway", "ServiceKit", "OperationLog", "CRDT", "Identity", "Machine", "LogFakes",
            hummingbird, httpClient, crypto, nioCore, logging,
        ]),
    tests(
        "AttachmentStoreTests",
        [
            "AttachmentStore", "Attachments", "ServiceKit", "Identity", "OperationLog", "CRDT", httpClient,
            nioCore, nioPosix, logging, crypto, hummingbird,
        ]),
    tests("WebSocketTests", ["WebSocket", nioCore, nioEmbedded, nioWebSocket]),
    tests(
        "TransportTests",
        [
            "Transport", "Sync", "Exchange", "Identity", "Replica", "DQL", "CRDT", "Machine", "TestSupport",
            "Replicator", "ServiceKit", "OperationLog", nioCore, nioPosix, logging,
        ]),
    tests(
        "ReplicatorTests",
        [
            "Replicator", "Transport", "WebSocket", "ServiceKit", "OperationLog", "Postgres", "CLibPQ",
            "Identity", "Replica", "Sync", "Exchange", "DQL", "CRDT", "Machine", "LogFakes", "TestSupport",
            logging, grdb,
        ]),
    tests(
        "QueryServiceTests",
        [
            "QueryService", "ServiceKit", "OperationLog", "Postgres", "Identity", "Machine", "Replica", "DQL",
            "CRDT", "LogFakes", "TestSupport", grdb, httpClient, logging,
        ]),
    tests(
        "DittoSwiftTests",
        [
            "DittoSwift", "Mimeo", "Transport", "Identity", "Replica", "Attachments", "CRDT", "DQL",
            "ServiceKit", "Machine", "TestSupport", "WebSocket", httpClient, nioCore, logging,
        ],
        exclude: ["Fixtures"]),
    // Each name of the 4.x API is deprecated, and tests cannot be: the one target without warnings.
    .testTarget(
        name: "LegacyTests",
        dependencies: [
            "DittoSwift", "DittoSwiftCombine", "DittoObjC", "Mimeo", "ServiceKit", "TestSupport",
            httpClient, nioCore, logging,
        ],
        path: "Tests/LegacyTests",
        swiftSettings: [.swiftLanguageMode(.v5), .unsafeFlags(["-suppress-warnings"])] + tested),
    tests(
        "MimeoTests",
        [
            "AttachmentStore", "AuthGateway", "QueryService", "Replicator", "Attachments", "Backup",
            "Identity",
            "Mimeo", "DittoSwift", "ServiceKit", "CRDT", "DQL", "OperationLog", "Postgres",
            "TestSupport", httpClient, nioCore, logging,
        ]),
    // The simulator: an executable, because it takes over the whole process's concurrency. `make simulate`
    // builds it from Tests/Simulation/Package.swift, without sockets and servers.
    .executableTarget(
        name: "Simulation",
        dependencies: [
            "CRDT", "DQL", "Exchange", "FaultDisk", "Identity", "Machine", "OperationLog", "Replica",
            "Replicator", "Sync", "TestSupport", "Transport", logging,
        ],
        path: "Tests/Simulation", exclude: ["Package.swift", "README.md", "seeds.txt", "mutations"],
        swiftSettings: strict),
    // The SDK in a process of its own: for its benchmarks, and for system tests that kill it.
    .executableTarget(
        name: "SDKProbe", dependencies: ["DittoSwift", sqlite], path: "Tests/Benchmarks/SDK",
        swiftSettings: strict),
    // The code of the manual's tour, as it stands there: `FiveMinutesTests` compares and runs it.
    .executableTarget(
        name: "FiveMinutes", dependencies: ["DittoSwift"], path: "Tests/Samples/FiveMinutes",
        swiftSettings: strict),
    // The samples of the guides of 4.x, as one program in the language mode of its time. Some declare what
    // they do not use, so warnings stay warnings here. `GuideTests` runs it.
    .executableTarget(
        name: "LegacyGuide", dependencies: ["DittoObjC", "DittoSwift", "DittoSwiftCombine"],
        path: "Tests/Samples/LegacyGuide", swiftSettings: [.swiftLanguageMode(.v5)]),
    // Handlers in all places where applications write them: no warning in language mode 5.
    .testTarget(
        name: "HandlerSamples", dependencies: ["DittoSwift", "TestSupport"],
        path: "Tests/Samples/HandlerSamples", swiftSettings: strict + tested + [.swiftLanguageMode(.v5)]),
    // The samples of the documents this SDK follows, in their language mode. Some keep a `[weak self]` that
    // they do not use, so warnings stay warnings here.
    .testTarget(
        name: "SeedSamples", dependencies: ["DittoSwift", "Mimeo", "TestSupport"],
        path: "Tests/Samples/SeedSamples", swiftSettings: tested + [.swiftLanguageMode(.v5)]),
]

let package = Package(
    name: "mimeo",
    products: [
        .library(name: "DittoSwift", targets: ["DittoSwift"]),
        .library(name: "DittoSwiftCombine", targets: ["DittoSwiftCombine"]),
        .library(name: "DittoObjC", targets: ["DittoObjC"]),
        .library(name: "MimeoC", type: .static, targets: ["MimeoC"]),
        .executable(name: "auth-gateway", targets: ["AuthGatewayMain"]),
        .executable(name: "replicator", targets: ["ReplicatorMain"]),
        .executable(name: "query-service", targets: ["QueryServiceMain"]),
        .executable(name: "attachment-store", targets: ["AttachmentStoreMain"]),
        .executable(name: "mimeo", targets: ["MimeoMain"]),
        .executable(name: "simulation", targets: ["Simulation"]),
        .executable(name: "sdk-probe", targets: ["SDKProbe"]),
    ],
    traits: [
        .default(enabledTraits: ["Server"]),
        .trait(name: "Server", description: "The server, the command line and the tests"),
    ],
    dependencies: [
        .package(url: "https://github.com/OpenCombine/OpenCombine", from: "0.14.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
    ],
    targets: shared + services + checks,
    swiftLanguageModes: [.v6]
)
