// swift-tools-version: 6.2
import PackageDescription

// The fuzzers and the benchmark of tokens and certificates: a package of their own (see
// `scripts/side-package`), since they need libraries that the others do not, and these take long to build.

let strict: [SwiftSetting] = [.treatAllWarnings(as: .error)]

let package = Package(
    name: "tokens",
    dependencies: [
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
    ],
    targets: [
        .target(
            name: "CRDT", path: "Shared/CRDT", exclude: ["Encoding.md", "README.md"], swiftSettings: strict),
        .target(
            name: "DQL", dependencies: ["CRDT"], path: "Shared/DQL",
            exclude: ["Evaluators.md", "Functions.md", "Parameters.md", "README.md"], swiftSettings: strict),
        .target(
            name: "Identity",
            dependencies: [
                "CRDT", "DQL",
                .product(name: "JWTKit", package: "jwt-kit"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
            ],
            path: "Shared/Identity", exclude: ["README.md"], swiftSettings: strict),
        .target(
            name: "FuzzTargets", dependencies: ["CRDT", "Identity"], path: "Tests/Fuzz/Targets",
            sources: ["FuzzTarget.swift", "Tokens"],
            swiftSettings: strict + [.define("FUZZ_TOKENS")]),
        .executableTarget(
            name: "fuzz", dependencies: ["FuzzTargets"], path: "Tests/Fuzz/Runner",
            swiftSettings: strict + [.define("FUZZ_TOKENS_ONLY")]),
        .executableTarget(
            name: "token-benchmark",
            dependencies: ["Identity", .product(name: "Crypto", package: "swift-crypto")],
            path: "Tests/Benchmarks/Tokens", swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)
