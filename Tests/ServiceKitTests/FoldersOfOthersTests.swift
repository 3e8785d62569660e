import Foundation
import Logging
import TestSupport
import Testing

@testable import ServiceKit

/// A data folder such as that of a project, which has folders of its own under the names of ours.
@Suite("Folders of others in a data folder")
struct FoldersOfOthersTests {
    private static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private let manager = FileManager.default

    private func configuration(_ data: URL) throws -> ServiceConfiguration {
        try ServiceConfiguration(ServiceOptions.parse(["--data", data.path]), port: 4_000, environment: [:])
    }

    private func make(_ folder: URL, _ files: [String] = [], mode: Int = 0o755) throws {
        try manager.createDirectory(at: folder, withIntermediateDirectories: true)
        for file in files {
            let path = folder.appendingPathComponent(file)
            let parent = path.deletingLastPathComponent()
            try manager.createDirectory(at: parent, withIntermediateDirectories: true)
            // A server in this process has set the umask.
            try manager.setAttributes([.posixPermissions: mode], ofItemAtPath: parent.path)
            try Data("theirs".utf8).write(to: path)
        }
        try manager.setAttributes([.posixPermissions: mode], ofItemAtPath: folder.path)
    }

    private func mode(_ folder: URL) throws -> Int? {
        try manager.attributesOfItem(atPath: folder.path)[.posixPermissions] as? Int
    }

    @Test(
        "a folder with other things in it is neither changed nor used",
        arguments: ["system", "auth", "attachments", "past"])
    func foreign(name: String) async throws {
        try await withTemporaryDirectory { data in
            let folder = data.appendingPathComponent(name)
            try make(folder, ["notes.txt", "a-1-2/chapter.sqlite"])
            let configuration = try configuration(data)
            let log = try configuration.openLog(logger: Self.quiet)
            await log.close()
            let error = #expect(throws: ServiceError.self) { _ = try configuration.folder(name) }
            #expect(error?.code == .dataFolderUnusable)
            #expect(error?.message.contains("\(name) has files that are not the server's") == true)
            #expect(try mode(folder) == 0o755)
            #expect(try mode(folder.appendingPathComponent("a-1-2")) != 0o700)
            // Its owner may give it away.
            try manager.setAttributes([.posixPermissions: 0o700], ofItemAtPath: folder.path)
            #expect(try configuration.folder(name).hasSuffix("/\(name)"))
        }
    }

    @Test(
        "a folder that is empty or has a service's files is used, and becomes private",
        arguments: [
            ("past", []), ("attachments", ["lost+found/part"]), ("system", ["replica.sqlite"]),
            ("auth", ["secrets.key"]),
            ("replicator", ["cars/replica.sqlite-wal"]), ("attachments", ["cars/incoming/part"]),
            ("attachments", ["cars/LX/LXEWQrcmsEQBYnyp-6wy9chTD7GQPMTbAiWHF5IaSIE"]),
        ])
    func ours(name: String, files: [String]) throws {
        try withTemporaryDirectory { data in
            let folder = data.appendingPathComponent(name)
            try make(folder, files)
            _ = try configuration(data).folder(name)
            #expect(try mode(folder) == 0o700)
        }
    }

    @Test("a link in the place of a folder is refused, and where it leads nothing is changed")
    func link() async throws {
        try await withTemporaryDirectory { directory in
            let (data, target) = (
                directory.appendingPathComponent("d"), directory.appendingPathComponent("t")
            )
            try make(target, [])
            try make(data)
            for (name, place) in [("past", target.path), ("system", "\(target.path)/missing")] {
                try manager.createSymbolicLink(
                    atPath: "\(data.path)/\(name)", withDestinationPath: place)
                let error = #expect(throws: ServiceError.self) {
                    _ = try configuration(data).folder(name)
                }
                #expect(error?.code == .dataFolderUnusable && error?.message.contains("a link") == true)
            }
            await (try configuration(data).openLog(logger: Self.quiet)).close()
            #expect(try mode(target) == 0o755)
            #expect(!manager.fileExists(atPath: "\(target.path)/missing"))
        }
    }

    @Test("a sweep deletes folders of folds alone: not those of others, nor what a link leads to")
    func sweep() throws {
        try withTemporaryDirectory { directory in
            let past = directory.appendingPathComponent("past")
            let elsewhere = directory.appendingPathComponent("elsewhere")
            try make(elsewhere, ["replica.sqlite"])
            let folds = (0..<2).map { PastFold.name(of: "cars", number: $0) }
            try make(past.appendingPathComponent(folds[0]), ["lock"])
            try make(past.appendingPathComponent(folds[1]))
            try make(past.appendingPathComponent("holidays"))
            try make(past.appendingPathComponent("store"), ["replica.sqlite"])
            try make(past.appendingPathComponent("year-2024-12"), ["chapter.txt"])
            try manager.createSymbolicLink(
                atPath: "\(past.path)/cars-3-4", withDestinationPath: elsewhere.path)
            let theirs = ["cars-3-4", "holidays", "store", "year-2024-12"]
            PastFold.sweep(past.path, logger: Self.quiet)
            #expect(try manager.contentsOfDirectory(atPath: past.path).sorted() == theirs)
            #expect(try manager.contentsOfDirectory(atPath: elsewhere.path) == ["replica.sqlite"])
            #expect(try manager.contentsOfDirectory(atPath: "\(past.path)/holidays") == [])
        }
    }
}

@Suite("The end of a stop that stands still")
struct StopDeadlineTests {
    @Test("the first signal begins the time of the stop, each later one ends the process at once")
    func signals() {
        var count = StopDeadline.Count(time: .seconds(15))
        #expect(count.caught(SIGTERM) == .end(after: .seconds(15), code: 1))
        #expect(count.caught(SIGTERM) == .endNow(code: 143))
        #expect(count.caught(SIGINT) == .endNow(code: 130))
    }
}
