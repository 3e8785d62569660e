// swift-tools-version: 6.2
import PackageDescription

// The agreement of evaluator, scan and index on any number of cases, in release: `scripts/agree`. A package
// of its own, so that it does not take a release build of everything and of all other tests.

let strict: [SwiftSetting] = [.treatAllWarnings(as: .error)]

let package = Package(
    name: "agreement",
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
        .target(name: "TestSupport", path: "Tests/Support/TestSupport", swiftSettings: strict),
        .target(
            name: "DQLCorpus", dependencies: ["DQL", "CRDT", "TestSupport"], path: "Tests/Support/DQLCorpus",
            swiftSettings: strict),
        .testTarget(
            name: "AgreementTests",
            dependencies: [
                "Replica", "DQL", "CRDT", "Machine", "DQLCorpus", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ], path: "Tests/ReplicaTests",
            sources: [
                "Bench.swift", "IndexAgreementTests.swift", "IndexBench.swift", "ReplicaEngine.swift",
            ], swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)
