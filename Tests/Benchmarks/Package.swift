// swift-tools-version: 6.2
import PackageDescription

// The benchmarks' own package: `scripts/side-package` lays it out beside the sources, so that no ordinary
// build pays for it.

let strict: [SwiftSetting] = [.treatAllWarnings(as: .error)]

let package = Package(
    name: "benchmarks",
    dependencies: [
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        .target(
            name: "CRDT", path: "Shared/CRDT", exclude: ["Encoding.md", "README.md"], swiftSettings: strict),
        .target(
            name: "Exchange", dependencies: ["CRDT"], path: "Shared/Exchange", exclude: ["README.md"],
            swiftSettings: strict),
        .target(
            name: "DQL", dependencies: ["CRDT"], path: "Shared/DQL",
            exclude: ["Evaluators.md", "Functions.md", "Parameters.md", "README.md"], swiftSettings: strict),
        .target(name: "CAllocations", path: "Tests/Benchmarks/CAllocations"),
        .systemLibrary(name: "CSQLite", path: "Tests/Benchmarks/CSQLite", pkgConfig: "sqlite3"),
        .executableTarget(
            name: "documents", dependencies: ["CRDT", "DQL", "CAllocations", "CSQLite"],
            path: "Tests/Benchmarks/Documents", swiftSettings: strict),
        .target(
            name: "Machine", path: "Shared/Machine", exclude: ["README.md"], swiftSettings: strict),
        .target(
            name: "CPageSums", path: "Shared/WriteAhead/CPageSums",
            linkerSettings: [.linkedLibrary("sqlite3")]),
        .target(
            name: "WriteAhead",
            dependencies: [
                "CPageSums",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ], path: "Shared/WriteAhead", exclude: ["CPageSums", "README.md"], swiftSettings: strict),
        .target(
            name: "Replica",
            dependencies: [
                "CRDT", "DQL", "Exchange", "Machine", "WriteAhead",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ], path: "Shared/Replica", exclude: ["README.md"], swiftSettings: strict),
        .executableTarget(
            name: "queries",
            dependencies: [
                "CRDT", "DQL", "Machine", "Replica", "CSQLite",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Tests/Benchmarks/Queries", swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)
