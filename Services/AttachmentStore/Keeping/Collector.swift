import Attachments
import CRDT
import Foundation
import Logging
import Machine
import OperationLog
import ServiceKit

/// Removes attachments that no live document of the log mentions, after a grace period.
///
/// A pass reads the documents as of the log's head, and again before it removes anything. A document that is
/// written in between, and every one that mentions an attachment's id in whatever place, keeps it. One
/// process at a time collects in a place; where the documents cannot be read, nothing is removed.
struct Collector: Sendable {
    let database: DatabaseID
    let place: any BlobPlace
    let references: @Sendable () async throws -> BlobReferences
    let logger: Logger

    /// - Returns: nil if another process is collecting there.
    func collect(graceSeconds: Int64) async throws -> CollectionPass.Report? {
        guard let turn = try await place.collectionTurn() else { return nil }
        do {
            let report = try await collect(in: turn.blobs, graceSeconds: graceSeconds)
            await turn.end()
            return report
        } catch {
            await turn.end()
            throw error
        }
    }

    private func collect(
        in blobs: any CollectableBlobs, graceSeconds: Int64
    ) async throws -> CollectionPass.Report {
        let pass = try await BlobStore.onDisk {
            try Pass(blobs, nowSeconds: SystemClock.seconds(), graceSeconds: graceSeconds)
        }
        let references = try await references()
        while !Task.isCancelled, let prefixes = try await pass.nextSlice() {
            guard !prefixes.isEmpty else { continue }
            let unmentioned = try await references.unmentioned(prefixes)
            let due = try await pass.settle(unmentioned)
            guard !due.isEmpty else { continue }
            let gone = try await pass.remove(references.unmentioned(due))
            for id in gone {
                logger.info(
                    "an attachment that no document mentions was removed",
                    metadata: ["database": "\(database)", "id": "\(id)"])
            }
        }
        let report = try await pass.report()
        Measured.count("mimeo_attachments_collected_total", by: Int64(report.removed))
        return report
    }

    /// A pass on the disk's threads. Unchecked: one task owns it and awaits each call before the next.
    private final class Pass: @unchecked Sendable {
        private let pass: CollectionPass

        init(_ blobs: any CollectableBlobs, nowSeconds: Int64, graceSeconds: Int64) throws {
            pass = try CollectionPass(blobs, nowSeconds: nowSeconds, graceSeconds: graceSeconds)
        }

        func nextSlice() async throws -> Set<UInt64>? {
            try await BlobStore.onDisk { try self.pass.nextSlice() }
        }

        func settle(_ prefixes: Set<UInt64>) async throws -> Set<UInt64> {
            try await BlobStore.onDisk { try self.pass.settle(unmentioned: prefixes) }
        }

        func remove(_ prefixes: Set<UInt64>) async throws -> [BlobID] {
            try await BlobStore.onDisk { try self.pass.remove(unmentioned: prefixes) }
        }

        func report() async throws -> CollectionPass.Report {
            try await BlobStore.onDisk { self.pass.report }
        }
    }
}
