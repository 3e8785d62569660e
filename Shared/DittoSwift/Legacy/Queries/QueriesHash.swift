import CRDT
import DQL
import Foundation

extension DittoStore {
    /// A hash of the documents that queries find now: it changes when one of them changes, comes or goes. Two
    /// devices that have the same documents get the same one.
    @available(*, deprecated, message: "Use registerObserver: its handler is called when a result changes")
    public func queriesHash(queries: [DittoLiveQuery]) -> UInt {
        do {
            return UInt(truncatingIfNeeded: QueriesHash.hash(try queries.flatMap { try $0.hashes() }))
        } catch {
            unthrown.report("queriesHash", error)
            return 0
        }
    }

    /// As `queriesHash`, as words that people can compare.
    @available(*, deprecated, message: "Use registerObserver: its handler is called when a result changes")
    public func queriesHashMnemonic(queries: [DittoLiveQuery]) -> String {
        QueriesHash.words(UInt64(queriesHash(queries: queries)))
    }
}

/// Hashes of documents, and their words.
enum QueriesHash {
    /// One hash of the hashes of documents, in whatever order they come.
    static func hash(_ documents: [UInt64]) -> UInt64 {
        var bytes: [UInt8] = []
        for hash in documents.sorted() {
            withUnsafeBytes(of: hash.littleEndian) { bytes += $0 }
        }
        return hash64(bytes)
    }

    /// Five of 64 words: enough to notice a difference, short enough to read aloud.
    static func words(_ hash: UInt64) -> String {
        (0..<5).map { words[Int(hash >> (6 * UInt64($0)) & 63)] }.joined(separator: "-")
    }

    private static let words = [
        "acorn", "amber", "anvil", "apple", "arrow", "badge", "baker", "basil", "beach", "berry", "birch",
        "bison", "blaze", "brick", "brook", "cabin", "camel", "candy", "cedar", "chalk", "cider", "clay",
        "cloud", "coral", "crane", "daisy", "delta", "drum", "eagle", "ember", "fern", "flame", "flute",
        "frost", "ginger", "grape", "hazel", "honey", "ivory", "jade", "kite", "lemon", "lilac", "linen",
        "maple", "mint", "moss", "north", "oak", "olive", "onyx", "otter", "pearl", "pine", "plum", "quartz",
        "raven", "river", "robin", "sage", "slate", "tiger", "violet", "willow",
    ]
}

extension KeptRow {
    /// A hash of a document and its version.
    var versionHash: UInt64 {
        withDocument { id, document in hash64(document, seed: hash64(id)) } ?? hash64(CBOR.encode(decoded))
    }
}
