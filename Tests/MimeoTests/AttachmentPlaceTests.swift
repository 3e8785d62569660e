import AttachmentStore
import Foundation
import Logging
import OperationLog
import ServiceKit
import TestSupport
import Testing

@testable import Mimeo

@Suite("the attachments of a backup")
struct AttachmentPlaceTests {
    private static let bucket = "https://s3.example/blobs"

    private static func resolved(_ data: String, hasBucket: Bool) throws -> LogPlace.Resolved {
        let environment =
            hasBucket
            ? ["MIMEO_ATTACHMENT_BUCKET": bucket, "MIMEO_ATTACHMENT_BUCKET_CREDENTIALS": "/credentials"] : [:]
        return LogPlace.Resolved(
            data: data, log: .sqlite(path: "\(data)/log.sqlite"),
            sources: try SettingSources(config: nil, environment: environment))
    }

    @Test("a bucket that only the settings name is told, and taken with --with-attachments")
    func settings() throws {
        let resolved = try Self.resolved("/data", hasBucket: true)
        let flags = try AttachmentBucketFlags.parse([])
        let left = try AttachmentPlace(folder: nil, flags, resolved)
        #expect(left.bucket == nil && left.folder == nil && left.leftOut?.text == Self.bucket)
        let taken = try AttachmentPlace(folder: nil, flags, followsSettings: true, resolved)
        #expect(taken.bucket?.text == Self.bucket && taken.folder == nil && taken.leftOut == nil)
    }

    @Test("without a bucket --with-attachments is the data folder's, which has to be there")
    func folder() async throws {
        try await withTemporaryDirectory { data in
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let quiet = logger
            let log = try SQLiteOperationLog(path: "\(data.path)/log.sqlite", logger: quiet)
            let resolved = try Self.resolved(data.path, hasBucket: false)
            let flags = try AttachmentBucketFlags.parse([])
            let missing = try AttachmentPlace(folder: nil, flags, followsSettings: true, resolved)
            let error = await #expect(throws: MimeoError.self) {
                try await missing.compare(with: log, quiet, what: "left out")
            }
            #expect(error?.code == .fileUnreadable)
            let folder = data.appendingPathComponent("attachments").path
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            let place = try AttachmentPlace(folder: nil, flags, followsSettings: true, resolved)
            #expect(place.folder == folder && place.bucket == nil)
            try await place.compare(with: log, quiet, what: "left out")
            await log.close()
        }
    }

    @Test("a noted bucket that is not named is refused, and so is not to know of one")
    func noted() async throws {
        try await withTemporaryDirectory { data in
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let quiet = logger
            let log = try SQLiteOperationLog(path: "\(data.path)/log.sqlite", logger: quiet)
            let system = SystemDatabase(log: log, folder: "\(data.path)/system", logger: quiet)
            try await system.open()
            try await system.note(attachments: AttachmentBucketRecord(id: Self.bucket, region: "r"))
            await system.close()
            let flags = try AttachmentBucketFlags.parse([])
            let unnamed = try AttachmentPlace(
                folder: nil, flags, followsSettings: true, try Self.resolved(data.path, hasBucket: false))
            let refusal = await #expect(throws: MimeoError.self) {
                try await unnamed.compare(with: log, quiet, what: "left out")
            }
            #expect(refusal?.code == .usage)
            // Only damage, which the command finds by itself, is no reason to end.
            await #expect(throws: (any Error).self) {
                try await unnamed.compare(with: log, quiet, what: "left out", temporary: "/dev/null")
            }
            let named = try AttachmentPlace(
                folder: nil, flags, followsSettings: true, try Self.resolved(data.path, hasBucket: true))
            try await named.compare(with: log, quiet, what: "left out")
            await #expect(throws: (any Error).self) {
                try await named.compare(with: log, quiet, what: "left out", temporary: "/dev/null")
            }
            await log.close()
        }
        #expect(SystemDirectory.isDamage(OperationLogError(.corrupt, "")))
        #expect(!SystemDirectory.isDamage(OperationLogError(.unreachable, "")))
    }
}
