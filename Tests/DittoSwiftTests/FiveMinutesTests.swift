import DittoSwift
import Foundation
import Mimeo
import TestSupport
import Testing

/// The manual's tour as a reader types it. `Tests/Samples/FiveMinutes` is its code, built as a program.
@Suite("Five minutes", .timeLimit(.minutes(3)))
struct FiveMinutesTests {
    private static let root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private func text(_ file: String) throws -> String {
        try String(contentsOf: Self.root.appendingPathComponent(file), encoding: .utf8)
    }

    /// The Swift blocks of a page.
    private func blocks(_ page: String) throws -> [String] {
        try text("Shared/DittoSwift/DittoSwift.docc/\(page).md").matches(of: /```swift\n((?s:.*?))```/)
            .map { String($0.1) }
    }

    @Test("the program is the page's code, piece after piece")
    func code() throws {
        let pieces = try blocks("FiveMinutes").filter { !$0.contains("PackageDescription") }
        #expect(pieces.count == 5)
        #expect(try pieces.joined(separator: "\n") == text("Tests/Samples/FiveMinutes/main.swift"))
    }

    @Test("the manifests of the pages name what the package offers")
    func manifests() throws {
        let ours = try text("Package.swift")
        let pages = try (blocks("FiveMinutes") + blocks("AddingThePackage")).filter {
            $0.contains("PackageDescription")
        }
        #expect(pages.count == 2)
        for manifest in pages {
            #expect(manifest.hasPrefix(String(ours.prefix { $0 != "\n" }) + "\n"))
            #expect(manifest.contains(#".product(name: "DittoSwift", package: "mimeo")"#))
            #expect(manifest.contains("traits: []"))
        }
        #expect(ours.contains(#".library(name: "DittoSwift", targets: ["DittoSwift"])"#))
        #expect(ours.contains(#"name: "mimeo","#))
        #expect(
            try text("Shared/DittoSwift/DittoSwift.docc/AddingThePackage.md").contains(
                #"from: "\#(Ditto.version)""#))
    }

    @Test("the program runs twice, in two folders, and again; both show the cars of both")
    func runs() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let a = try Tour(server, directory.appendingPathComponent("a"))
                try #require(await a.prints("a blue Hyundai"))
                try #require(await a.prints("1 cars: "))
                let b = try Tour(server, directory.appendingPathComponent("b"))
                try #require(await b.prints("2 cars: "))
                try #require(await a.prints("2 cars: "))
                a.end()
                b.end()
                let again = try Tour(
                    server, directory.appendingPathComponent("a"), ["UPDATE cars SET color = 'red'"])
                try #require(await again.prints(#""color":"red""#))
                let other = try Tour(
                    server, directory.appendingPathComponent("b"), ["UPDATE cars SET seats = 5"])
                try #require(await other.prints("4 cars: "))
                try #require(await other.prints(#"{"make":"Hyundai","color":"red","seats":5}"#))
                again.end()
                other.end()
            }
        }
    }

    /// One run of the program. `output` guards itself.
    private final class Tour: Sendable {
        private let output = Collected<String>()
        private let process = Process()

        init(_ server: EmbeddedServer, _ folder: URL, _ arguments: [String] = []) throws {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            let program = URL(fileURLWithPath: tests).deletingLastPathComponent()
                .appendingPathComponent("FiveMinutes")
            // A program that is not read from a terminal keeps its lines back.
            process.executableURL = URL(fileURLWithPath: "/usr/bin/stdbuf")
            process.arguments = ["-oL", program.path] + arguments
            process.currentDirectoryURL = folder
            process.environment = ProcessInfo.processInfo.environment.merging([
                "DATABASE": server.databaseID, "TOKEN": server.token, "SERVER": server.url,
            ]) { $1 }
            let pipe = Pipe()
            process.standardOutput = pipe
            process.standardError = pipe
            pipe.fileHandleForReading.readabilityHandler = { [output] handle in
                let data = handle.availableData
                if data.isEmpty { handle.readabilityHandler = nil }
                output.add(String(decoding: data, as: UTF8.self))
            }
            try process.run()
        }

        deinit { process.terminate() }

        func prints(_ text: String) async -> Bool {
            await output.wait { $0.joined().contains(text) }.joined().contains(text)
        }

        /// As Ctrl-C.
        func end() {
            process.interrupt()
            process.waitUntilExit()
        }
    }
}
