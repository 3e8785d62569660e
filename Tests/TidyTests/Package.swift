// swift-tools-version: 6.2
import PackageDescription

// The rules on the sources, which need no module of ours: `scripts/lint` builds and runs them in half a
// minute, before a build that takes twenty.

let package = Package(
    name: "tidytests",
    targets: [
        .testTarget(
            name: "TidyTests", path: "Tests/TidyTests", exclude: ["Package.swift"],
            swiftSettings: [.treatAllWarnings(as: .error)])
    ]
)
