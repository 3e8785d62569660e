import Foundation

/// One pass over all blobs of a store that removes those which no document has mentioned for a grace period.
///
/// The caller drives it slice by slice: `nextSlice` names blobs by their prefixes; the caller takes out those
/// that documents mention; `settle` notes the others and returns the ones whose time is over; the caller
/// looks through the documents again; `remove` removes. Memory is bounded by a slice, work by `most`
/// removals. A crash at any point leaves every blob whole or gone: what a pass notes is read again by the
/// next.
///
/// A blob that is stored again counts as new. The ledger of times only lengthens a life when it is lost.
///
/// Used by one task. Blocks on the disk.
public final class CollectionPass {
    /// The sums of a pass.
    public struct Report: Sendable, Equatable {
        /// Blobs that documents mention.
        public var mentioned = 0
        /// Blobs within their grace period.
        public var waiting = 0
        /// Removed blobs.
        public var removed = 0
        /// Their bytes.
        public var removedBytes: Int64 = 0
        /// The bytes of the blobs that stay.
        public var keptBytes: Int64 = 0
        /// False if the pass ended because it had removed as many as one pass may.
        public var isWhole = true
    }

    private let store: any CollectableBlobs
    private let now: Int64
    private let grace: Int64
    private let most: Int
    private var shelves: ArraySlice<String>
    private var slice: [(shelf: String, entries: [BlobStore.Entry])] = []
    private var due: [BlobStore.Entry] = []

    /// The sums so far.
    public private(set) var report = Report()

    /// - Parameters:
    ///   - nowSeconds: since 1970.
    ///   - graceSeconds: how long a blob stays that nothing mentions.
    ///   - most: removals after which the pass ends.
    /// - Throws: what the place throws.
    public init(
        _ store: some CollectableBlobs, nowSeconds: Int64, graceSeconds: Int64,
        most: Int = Limits.collectedBlobs
    ) throws {
        (self.store, now, grace, self.most) = (store, nowSeconds, graceSeconds, most)
        shelves = try store.shelves()[...]
    }

    /// The prefixes of the next blobs; nil at the end.
    public func nextSlice() throws -> Set<UInt64>? {
        guard report.removed < most else {
            report.isWhole = shelves.isEmpty
            return nil
        }
        slice = []
        var prefixes: Set<UInt64> = []
        while let shelf = shelves.first, prefixes.count < Limits.collectionSlice {
            let entries = try store.entries(shelf)
            slice.append((shelf, entries))
            prefixes.formUnion(entries.map(\.id.prefix))
            shelves.removeFirst()
        }
        return slice.isEmpty ? nil : prefixes
    }

    /// - Parameter unmentioned: those of the slice's prefixes that no document mentions.
    /// - Returns: the prefixes of blobs whose time is over, to be looked for once more.
    public func settle(unmentioned: Set<UInt64>) throws -> Set<UInt64> {
        due = []
        for (shelf, entries) in slice {
            let before = try store.times(.unmentioned, shelf)
            var after: [BlobID: Int64] = [:]
            for entry in entries {
                guard unmentioned.contains(entry.id.prefix) else {
                    report.mentioned += 1
                    report.keptBytes += entry.length
                    continue
                }
                // A time in the future comes from a clock that was wrong.
                let since = max(min(before[entry.id] ?? now, now), min(entry.storedAtSeconds, now))
                after[entry.id] = since
                if now - since >= grace, report.removed + due.count < most {
                    due.append(entry)
                } else {
                    report.waiting += 1
                    report.keptBytes += entry.length
                }
            }
            if after != before { try store.note(after, in: .unmentioned, shelf) }
        }
        return Set(due.map(\.id.prefix))
    }

    /// Removes the blobs whose time is over.
    /// - Parameter unmentioned: those of their prefixes that no document mentions by now.
    /// - Returns: the ids that are gone.
    public func remove(unmentioned: Set<UInt64>) throws -> [BlobID] {
        var gone: [BlobID] = []
        for entry in due {
            guard unmentioned.contains(entry.id.prefix), try store.collect(entry) else {
                report.mentioned += 1
                report.keptBytes += entry.length
                continue
            }
            gone.append(entry.id)
            report.removed += 1
            report.removedBytes += entry.length
        }
        try note(gone)
        return gone
    }

    /// Remembers for a while that they were collected, so that a client is told so.
    private func note(_ gone: [BlobID]) throws {
        let groups = Dictionary(grouping: gone) { String($0.text.prefix(Limits.shelfCharacters)) }
        for (shelf, ids) in groups {
            var times = try store.times(.collected, shelf).filter { now - $0.value < Limits.collectedSeconds }
            for id in ids { times[id] = now }
            try store.note(times, in: .collected, shelf)
            var waiting = try store.times(.unmentioned, shelf)
            for id in ids { waiting[id] = nil }
            try store.note(waiting, in: .unmentioned, shelf)
            try store.settle(shelf)
        }
        due = []
    }
}
