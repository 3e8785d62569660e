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

    func _rawHashValue(seed: Int) -> Int { touch._rawHashValue(seed: seed) }
}

/// A document behind operations that nobody has folded.
struct UnfoldedDocument {
    /// Its vector behind them.
    var vector: VersionVector
    /// By so many bytes it may be larger than it looks.
    var bytes: Int
    /// Encoded size including the pending operations; used during a check only.
    var size = 0
}

/// Documents that a hub has appended for peers and its materialization has not folded: further operations are
/// judged by them, besides the fold.
///
/// It grows by the vectors of the documents of an append, and goes in parts of about `partBytes`: a part is
/// let go when all of it is folded, so nothing is taken out one by one. A folded document that is still here
/// does no harm: coverage only grows, but for tombstones, and an operation that rests on one is appended
/// under a condition. A document that the snapshot of a judgement lacks stays as long as the judgement lasts,
/// even if it is folded meanwhile: else it would be neither there nor here.
///
/// It is of one term of the log (`OperationLog.term`): operations appended in an earlier term may have been
/// lost since, although everything folded is still there.
///
/// `state` guards everything: operations are judged on threads of their own while others are appended.
final class UnfoldedDocuments: Sendable {
    private struct Part {
        var through: Offset = 0
        var bytes = 0
        var documents: [UnfoldedKey: UnfoldedDocument] = [:]
    }

    private struct State {
        var parts: [Part] = []
        /// Everything up to here is folded.
        var folded: Offset = 0
        /// The folded offset at the start of each judgement under way.
        var judging: [Offset] = []
        /// The log's term that the parts were appended in.
        var term: UInt64 = 0

        /// Takes out what is folded and nobody judges by.
        mutating func takeFolded() -> [Part] {
            let through = judging.min() ?? folded
            let gone = parts.filter { $0.through <= through }
            if !gone.isEmpty { parts.removeAll { $0.through <= through } }
            return gone
        }
    }

    private let state = Mutex(State())
    private let partBytes: Int

    init(partBytes: Int = Limits.unfoldedBytes / 4) { self.partBytes = partBytes }

    /// Lets go of what was appended in an earlier term than this one.
    func enter(_ term: UInt64) {
        let gone = state.withLock { state -> [Part] in
            guard state.term < term else { return [] }
            state.term = term
            defer { state.parts = [] }
            return state.parts
        }
        withExtendedLifetime(gone) {}
    }

    /// About how many bytes of operations are not folded.
    var bytes: Int { state.withLock { $0.parts.reduce(0) { $0 + $1.bytes } } }

    /// Up to which offset has to be folded for so many bytes and operations at most to be left; nil where
    /// that is so.
    func excess(over bounds: AdmissionBounds) -> Offset? {
        let operations = state.withLock { state -> Offset? in
            guard let end = state.parts.last?.through.reduced(by: bounds.unfoldedOperations) else {
                return nil
            }
            return end > state.folded ? end : nil
        }
        guard let bytes = excess(over: bounds.unfoldedBytes) else { return operations }
        return operations.map { max($0, bytes) } ?? bytes
    }

    func excess(over limit: Int) -> Offset? {
        state.withLock { state in
            var left = state.parts.reduce(0) { $0 + $1.bytes }
            for part in state.parts {
                guard left > limit else { return nil }
                left -= part.bytes
                if left <= limit { return part.through }
            }
            return nil
        }
    }

    /// A document behind all that is here; nil where nothing here has touched it.
    subscript(key: UnfoldedKey) -> UnfoldedDocument? {
        state.withLock { state in
            var found: UnfoldedDocument?
            for part in state.parts {
                guard let document = part.documents[key] else { continue }
                found = found.map { $0.joined(with: document) } ?? document
            }
            return found
        }
    }

    /// Takes note of an append that ends at an offset, and of the documents behind it: their vectors, and the
    /// bytes that it has added to them. Where its term is over they are left to the fold.
    func note(
        _ documents: [UnfoldedKey: UnfoldedDocument], bytes: Int, through offset: Offset,
        in term: UInt64 = 0
    ) {
        state.withLock { state in
            guard state.term == term else { return }
            if state.parts.last.map({ $0.bytes >= partBytes }) ?? true { state.parts.append(Part()) }
            let last = state.parts.count - 1
            state.parts[last].through = max(state.parts[last].through, offset)
            state.parts[last].bytes += bytes
            guard !state.parts[last].documents.isEmpty else {
                return state.parts[last].documents = documents
            }
            state.parts[last].documents.merge(documents) { $0.joined(with: $1) }
        }
    }

    /// Lets go of what is folded, and nobody judges by.
    func forget(through offset: Offset) {
        let gone = state.withLock { state in
            state.folded = max(state.folded, offset)
            return state.takeFolded()
        }
        // The dropped parts are freed after the lock, so that nobody waits for it.
        withExtendedLifetime(gone) {}
    }

    /// Keeps everything that is not known to be folded now, while a snapshot is judged by that is read in
    /// here.
    func judging<Result>(_ body: () throws -> Result) rethrows -> Result {
        let folded = state.withLock { state in
            state.judging.append(state.folded)
            return state.folded
        }
        defer {
            let gone = state.withLock { state in
                if let place = state.judging.firstIndex(of: folded) { state.judging.remove(at: place) }
                return state.takeFolded()
            }
            withExtendedLifetime(gone) {}
        }
        return try body()
    }
}

extension UnfoldedDocument {
    fileprivate func joined(with other: UnfoldedDocument) -> UnfoldedDocument {
        UnfoldedDocument(vector: vector.union(other.vector), bytes: bytes + other.bytes)
    }
}

/// The bounds of dividing an upload, and of appending ahead of folding.
package struct AdmissionBounds: Sendable {
    /// Approximate bytes that are checked while earlier ones are appended.
    package var partBytes = Limits.admittedBytes
    /// Bytes waiting to be folded up to which folding yields to uploads of several parts.
    package var aheadBytes = Limits.aheadBytes
    /// Bytes waiting to be folded above which no upload is checked.
    package var unfoldedBytes = Limits.unfoldedBytes
    /// The same, as operations.
    package var unfoldedOperations = Limits.unfoldedOperations

    /// The bounds of a service.
    package init() {}
}
