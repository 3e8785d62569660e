// swift-tools-version: 6.2
import PackageDescription

// The log's benchmark, a package of its own (see `scripts/side-package`): log, store and folding, without the
// network.

let strict: [SwiftSetting] = [.treatAllWarnings(as: .error)]
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let sqlite = Target.Dependency.product(name: "GRDBSQLite", package: "GRDB.swift")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let metrics = Target.Dependency.product(name: "Metrics", package: "swift-metrics")
let tracing = Target.Dependency.product(name: "Tracing", package: "swift-distributed-tracing")

func module(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    .target(
        name: name, dependencies: dependencies, path: "Shared/\(name)", exclude: exclude + ["README.md"],
        swiftSettings: strict)
}

let package = Package(
    name: "log-benchmark",
    dependencies: [
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        module("CRDT", [], exclude: ["Encoding.md"]),
        module("DQL", ["CRDT"], exclude: ["Evaluators.md", "Functions.md", "Parameters.md"]),
        module("Exchange", ["CRDT"]),
        module("Machine", []),
        .target(
            name: "CPageSums", path: "Shared/WriteAhead/CPageSums",
            linkerSettings: [.linkedLibrary("sqlite3")]),
        module("WriteAhead", ["CPageSums", grdb, sqlite], exclude: ["CPageSums"]),
        module("Replica", ["CRDT", "DQL", "Exchange", "Machine", "WriteAhead", grdb, sqlite, logging]),
        module("OperationLog", ["CRDT", "Machine", "WriteAhead", grdb, sqlite, logging]),
        module(
            "Postgres", ["CRDT", "DQL", "Machine", "OperationLog", "CLibPQ", logging], exclude: ["CLibPQ"]),
        .systemLibrary(name: "CLibPQ", path: "Shared/Postgres/CLibPQ", pkgConfig: "libpq"),
        .target(
            name: "ServiceKit",
            dependencies: [
                "CRDT", "Exchange", "Machine", "OperationLog", "Replica", logging, metrics, tracing,
            ],
            // A fold of the past runs in turns of the pool, which is not here.
            path: "Shared/ServiceKit", exclude: ["Materialization/PastFold.swift"],
            sources: [
                "Materialization", "Damage/DamageLedger.swift", "Errors.swift", "Metrics/Measured.swift",
                "Metrics/MetricHistory.swift", "Metrics/MetricTable.swift",
                "Metrics/ProcessFigures.swift",
                "Metrics/PrometheusRegistry.swift", "Metrics/Series.swift",
                "Limits.swift",
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "log-benchmark",
            dependencies: [
                "CRDT", "OperationLog", "Postgres", "CLibPQ", "ServiceKit", sqlite, logging,
            ],
            path: "Tests/Benchmarks/Log", exclude: ["Package.swift"], swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)
