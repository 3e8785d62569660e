// swift-tools-version: 6.2
import PackageDescription

// The simulator and the sessions' benchmark with nothing but what they drive: no sockets, no TLS, no HTTP.
// Built below .build-side/ by `make simulate` and `scripts/bench-sessions`, since a release build of the
// whole project would take many times as long. The modules are the project's own; of Identity, Transport,
// ServiceKit and Replicator only what has no network in it.

let strict: [SwiftSetting] = [.treatAllWarnings(as: .error)]
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let sqlite = Target.Dependency.product(name: "GRDBSQLite", package: "GRDB.swift")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let asn1 = Target.Dependency.product(name: "SwiftASN1", package: "swift-asn1")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let metrics = Target.Dependency.product(name: "Metrics", package: "swift-metrics")
let tracing = Target.Dependency.product(name: "Tracing", package: "swift-distributed-tracing")

func module(
    _ path: String, _ dependencies: [Target.Dependency], exclude: [String] = [], sources: [String]? = nil
) -> Target {
    let name = path.split(separator: "/").last.map(String.init) ?? path
    return .target(
        name: name, dependencies: dependencies, path: path, exclude: exclude, sources: sources,
        swiftSettings: strict)
}

let package = Package(
    name: "simulation",
    products: [
        .executable(name: "simulation", targets: ["Simulation"]),
        .executable(name: "session-benchmark", targets: ["session-benchmark"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        module("Shared/CRDT", [], exclude: ["README.md", "Encoding.md"]),
        module(
            "Shared/DQL", ["CRDT"], exclude: ["README.md", "Evaluators.md", "Functions.md", "Parameters.md"]),
        module("Shared/Exchange", ["CRDT"], exclude: ["README.md"]),
        module("Shared/Machine", [], exclude: ["README.md"]),
        .target(
            name: "CPageSums", path: "Shared/WriteAhead/CPageSums",
            linkerSettings: [.linkedLibrary("sqlite3")]),
        module("Shared/WriteAhead", ["CPageSums", grdb, sqlite], exclude: ["CPageSums", "README.md"]),
        module(
            "Shared/Replica",
            ["CRDT", "DQL", "Exchange", "Machine", "WriteAhead", grdb, sqlite, logging],
            exclude: ["README.md"]),
        module(
            "Shared/OperationLog", ["CRDT", "Machine", "WriteAhead", grdb, sqlite, logging],
            exclude: ["README.md"]),
        module(
            "Shared/Identity", ["CRDT", "DQL", asn1, crypto],
            sources: [
                "Base64URL.swift", "CompiledGrant.swift", "Errors.swift", "Grant.swift", "Identity.swift",
                "KeyID.swift", "Limits.swift", "PeerKey.swift", "PresenceSignature.swift",
            ]),
        module(
            "Shared/Sync", ["CRDT", "DQL", "Exchange", "Identity"],
            exclude: ["README.md", "Example.md", "Gaps.md", "Wire/wire.cddl"]),
        module(
            "Shared/Transport", ["CRDT", "DQL", "Exchange", "Machine", "Replica", "Sync", logging],
            sources: [
                "Driver/PeerStore.swift", "Driver/SessionStore.swift", "Driver/LiveSubscription.swift",
                "Serving/CatchUpReader.swift",
                "Driver/SessionPump.swift", "Driver/PumpStorage.swift", "Driver/PumpMachine.swift",
                "Driver/FrameChannel.swift", "Driver/Inbox.swift",
                "Driver/KeptMessage.swift",
                "Limits.swift",
            ]),
        module(
            "Shared/ServiceKit",
            [
                "CRDT", "Exchange", "Identity", "Machine", "OperationLog", "Replica", crypto, logging,
                metrics, tracing,
            ],
            sources: [
                "SystemDatabase/ErasedDocuments.swift",
                "Materialization/Materializer.swift", "Materialization/LeasedActor.swift",
                "Materialization/SnapshotTransfer.swift", "Materialization/FoldThrottle.swift",
                "Materialization/Materializations.swift", "Materialization/DatabaseFolders.swift",
                "Damage/DamageLedger.swift", "Errors.swift", "Metrics/Measured.swift",
                "Metrics/MetricHistory.swift", "Metrics/MetricTable.swift",
                "Metrics/ProcessFigures.swift",
                "Metrics/PrometheusRegistry.swift", "Metrics/Series.swift",
                "Limits.swift",
            ]),
        module(
            "Services/Replicator",
            [
                "CRDT", "DQL", "Exchange", "Identity", "Machine", "OperationLog", "Replica", "ServiceKit",
                "Sync", "Transport", logging,
            ],
            sources: [
                "DatabaseHub.swift", "Limits.swift",
                "Admission/Admission.swift", "Admission/Admission+States.swift",
                "Admission/Admission+Writes.swift", "Admission/AdmissionCheck.swift",
                "Admission/Origins.swift", "Admission/UnfoldedDocuments.swift",
                "Admin/PresenceRegistry.swift", "Admin/SessionNames.swift", "Admin/SessionReport.swift",
                "FanOut/FoldQueue.swift", "FanOut/LiveFeed.swift", "FanOut/LiveStream.swift",
                "FanOut/QueryIndex.swift", "FanOut/SharedFrames.swift",
                "Sessions/ServerStore.swift", "Sessions/ServerStore+Histories.swift",
                "Sessions/SessionRights.swift", "Sessions/SubscriptionEvaluator.swift",
                "Housekeeping/Housekeeper.swift",
                "Housekeeping/HousekeepingOptions.swift", "Housekeeping/LogMeasures.swift",
            ]),
        .target(name: "TestSupport", path: "Tests/Support/TestSupport", swiftSettings: strict),
        .target(
            name: "CFaultVFS", path: "Tests/Support/CFaultVFS", linkerSettings: [.linkedLibrary("sqlite3")]),
        .target(
            name: "FaultDisk", dependencies: ["CFaultVFS", "TestSupport"], path: "Tests/Support/FaultDisk",
            swiftSettings: strict),
        .executableTarget(
            name: "Simulation",
            dependencies: [
                "CRDT", "DQL", "Exchange", "FaultDisk", "Identity", "Machine", "OperationLog", "Replica",
                "Replicator", "Sync", "TestSupport", "Transport", logging,
            ],
            path: "Tests/Simulation", exclude: ["Package.swift", "README.md", "seeds.txt", "mutations"],
            swiftSettings: strict),
        .executableTarget(
            name: "session-benchmark",
            dependencies: [
                "CRDT", "DQL", "Exchange", "Identity", "Machine", "OperationLog", "Replica", "Replicator",
                "Sync", "Transport", sqlite, logging,
            ],
            path: "Tests/Benchmarks/Sessions", swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)
