import CRDT
import OperationLog
import Synchronization

/// A document's place in what is appended and not folded; found by the checksum that the log's conditions
/// use too, so that nothing long is hashed twice.
struct UnfoldedKey: Hashable {
    let touch: Touch
    let document: DocumentKey

    init(_ document: DocumentKey) {
        self.document = document
        touch = .document(document.collection, document.id)
    }

    static func == (left: UnfoldedKey, right: UnfoldedKey) -> Bool {
        left.touch == right.touch && left.document == right.document
    }

    func hash(into hasher: inout Hasher) { hasher.combine(touch) }
}

/// A document behind operations that nobody has folded.
struct UnfoldedDocument {
    /// Its vector behind them.
    var vector: VersionVector
    /// By so many bytes it may be larger than it looks.
    var bytes: Int
}

/// What a hub has appended for peers and its materialization has not folded: what further operations are
/// judged by, besides the fold.
///
/// It grows by the vectors of the documents of an append, and goes in parts of about `partBytes`: a part is
/// let go when all of it is folded, so nothing is taken out one by one. What is folded and still here says
/// nothing wrong: coverage only grows, but for tombstones, and what rests on one is appended under a
/// condition.
///
/// `state` guards everything: operations are judged on threads of their own while others are appended.
final class UnfoldedDocuments: Sendable {
    private struct Part {
        var through: UInt64 = 0
        var bytes = 0
        var documents: [UnfoldedKey: UnfoldedDocument] = [:]
    }

    private let state = Mutex<[Part]>([])
    private let partBytes: Int

    init(partBytes: Int = Limits.unfoldedBytes / 4) { self.partBytes = partBytes }

    /// About how many bytes of operations are not folded.
    var bytes: Int { state.withLock { $0.reduce(0) { $0 + $1.bytes } } }

    /// A document behind all that is here; nil where nothing here has touched it.
    subscript(key: UnfoldedKey) -> UnfoldedDocument? {
        state.withLock { parts in
            var found: UnfoldedDocument?
            for part in parts {
                guard let document = part.documents[key] else { continue }
                found = found.map { $0.joined(with: document) } ?? document
            }
            return found
        }
    }

    /// Takes note of an append that ends at an offset, and of the documents behind it: their vectors, and the
    /// bytes that it has added to them.
    func note(_ documents: [UnfoldedKey: UnfoldedDocument], bytes: Int, through offset: UInt64) {
        state.withLock { parts in
            if parts.last.map({ $0.bytes >= partBytes }) ?? true { parts.append(Part()) }
            let last = parts.count - 1
            parts[last].through = max(parts[last].through, offset)
            parts[last].bytes += bytes
            guard !parts[last].documents.isEmpty else { return parts[last].documents = documents }
            parts[last].documents.merge(documents) { $0.joined(with: $1) }
        }
    }

    /// Lets go of what is folded.
    func forget(through offset: UInt64) {
        let gone = state.withLock { parts in
            let gone = parts.filter { $0.through <= offset }
            parts.removeAll { $0.through <= offset }
            return gone
        }
        // What it held is freed when nobody waits for the lock.
        withExtendedLifetime(gone) {}
    }
}

extension UnfoldedDocument {
    fileprivate func joined(with other: UnfoldedDocument) -> UnfoldedDocument {
        UnfoldedDocument(vector: vector.union(other.vector), bytes: bytes + other.bytes)
    }
}
