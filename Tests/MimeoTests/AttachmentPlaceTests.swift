import AttachmentStore
import Foundation
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
    func folder() throws {
        try withTemporaryDirectory { data in
            let resolved = try Self.resolved(data.path, hasBucket: false)
            let flags = try AttachmentBucketFlags.parse([])
            let error = #expect(throws: MimeoError.self) {
                _ = try AttachmentPlace(folder: nil, flags, followsSettings: true, resolved)
            }
            #expect(error?.code == .fileUnreadable)
            let folder = data.appendingPathComponent("attachments").path
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            let place = try AttachmentPlace(folder: nil, flags, followsSettings: true, resolved)
            #expect(place.folder == folder && place.bucket == nil)
        }
    }
}
