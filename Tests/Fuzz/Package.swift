// swift-tools-version: 6.2
import PackageDescription

// The fuzzers' own package: `scripts/side-package` lays it out beside the sources, so that it needs none of
// the project's dependencies and no ordinary build pays for it.

let strict: [SwiftSetting] = [.treatAllWarnings(as: .error)]

let package = Package(
    name: "fuzz",
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
            name: "Identity", dependencies: ["CRDT", "DQL"], path: "Shared/Identity",
            sources: [
                "CompiledGrant.swift", "Errors.swift", "Grant.swift", "Identity.swift", "KeyID.swift",
                "Limits.swift",
            ],
            swiftSettings: strict),
        .target(
            name: "Sync", dependencies: ["CRDT", "DQL", "Exchange", "Identity"], path: "Shared/Sync",
            exclude: ["README.md", "Example.md", "Gaps.md", "Wire/wire.cddl"], swiftSettings: strict),
        .target(
            name: "AuthGateway", dependencies: ["CRDT", "Identity"], path: "Services/AuthGateway",
            sources: [
                "Limits.swift", "Providers/ProviderAnswer.swift", "Providers/WebhookAnswer.swift",
            ], swiftSettings: strict),
        .target(
            name: "FuzzTargets",
            dependencies: ["CRDT", "DQL", "Exchange", "Sync", "Identity", "AuthGateway"],
            path: "Tests/Fuzz/Targets", exclude: ["Tokens"],
            swiftSettings: strict + [.define("FUZZ_BYTES")]),
        .executableTarget(
            name: "fuzz", dependencies: ["FuzzTargets"], path: "Tests/Fuzz/Runner", swiftSettings: strict),
        .testTarget(
            name: "FuzzTests", dependencies: ["FuzzTargets"], path: "Tests/Fuzz/Replay", swiftSettings: strict
        ),
    ],
    swiftLanguageModes: [.v6]
)
