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
/// process at a time collects in a folder; where the documents cannot be read, nothing is removed.
struct Collector: Sendable {
    let database: DatabaseID
    let store: BlobStore
    let references: @Sendable () async throws -> BlobReferences
    let logger: Logger

    /// - Returns: nil if another process is collecting there.
    func collect(graceSeconds: Int64) async throws -> CollectionPass.Report? {
        let (store, database) = (store, database)
        let begun = try await BlobStore.onDisk {
            try Pass(store, nowSeconds: SystemClock.seconds(), graceSeconds: graceSeconds)
        }
        guard let pass = begun else { return nil }
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
        let report = try await pass.end()
        Measured.count("mimeo_attachments_collected_total", by: Int64(report.removed))
        return report
    }

    /// A pass on the disk's threads. Unchecked: one task owns it and awaits each call before the next.
    private final class Pass: @unchecked Sendable {
        private let pass: CollectionPass
        private let turn: CollectionTurn

        init?(_ store: BlobStore, nowSeconds: Int64, graceSeconds: Int64) throws {
            guard let turn = try store.collectionTurn() else { return nil }
            self.turn = turn
            pass = try CollectionPass(store, nowSeconds: nowSeconds, graceSeconds: graceSeconds)
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

        func end() async throws -> CollectionPass.Report {
            try await BlobStore.onDisk {
                self.turn.end()
                return self.pass.report
            }
        }
    }
}
