import Foundation
import ServiceKit
import TestSupport
import Testing

@testable import Mimeo

@Suite("mimeo upgrade --check: storage that the system does not let us read")
struct UpgradeCheckTests {
    private static func rows(_ data: URL) throws -> [UpgradeCheck.Row] {
        let resolved = LogPlace.Resolved(
            data: data.path, log: .sqlite(path: "\(data.path)/log.sqlite"),
            sources: try SettingSources(config: nil, environment: [:]))
        return try UpgradeCheck(resolved, projection: nil, peerStores: []).run()
    }

    @Test("it refuses, and is neither missing nor foreign nor built again")
    func closed() throws {
        try withTemporaryDirectory { data in
            let manager = FileManager.default
            #expect(try Self.rows(data).map(\.outcome) == [.new])
            // Folders in a file's place and links to themselves are refused to root, too.
            let log = data.appendingPathComponent("log.sqlite").path
            try manager.createDirectory(atPath: log, withIntermediateDirectories: false)
            let folder = data.appendingPathComponent("replicator").path
            try manager.createSymbolicLink(atPath: folder, withDestinationPath: folder)
            let fold = data.appendingPathComponent("query/cars")
            try manager.createDirectory(
                at: fold.appendingPathComponent("replica.sqlite"), withIntermediateDirectories: true)
            let rows = try Self.rows(data)
            #expect(rows.map(\.outcome) == [.refused, .refused, .refused])
            #expect(rows.map(\.place) == [log, fold.path, folder])
            let codes = rows.map { String($0.refusal?.prefix { $0 != ":" } ?? "") }
            #expect(codes == ["LOG-0201", "STORE-0102", "CLI-0401"])
            #expect(rows.allSatisfy { $0.refusal?.contains("cannot be read: ") == true })
            #expect(UpgradeCheck.verdict(rows).hasPrefix("this version does not start"))
        }
    }
}
