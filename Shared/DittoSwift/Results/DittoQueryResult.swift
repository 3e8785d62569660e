import CRDT
import Foundation

/// What a statement gave. Its items are a copy of one consistent state of the store.
public final class DittoQueryResult: Sendable {
    /// The rows of a SELECT, in order; empty for statements that write.
    public let items: [DittoQueryResultItem]
    /// The local commit that holds a write; nil for a SELECT, and inside a transaction until that is
    /// committed. Greater for later ones; once the server has acknowledged it, everything up to it is durable
    /// there.
    public var commitID: UInt64? { commit?.value }
    private let commit: CommitNumber?
    private let mutated: [DocumentID]

    init(_ outcome: StatementOutcome) {
        items = outcome.kept.map { DittoQueryResultItem($0) }
        mutated = outcome.mutatedDocumentIDs
        commit = outcome.kind == .select ? nil : CommitNumber(outcome.commit)
    }

    /// The result of a statement in a transaction, whose commit is still to come.
    init(_ outcome: StatementOutcome, commit: CommitNumber) {
        items = outcome.kept.map { DittoQueryResultItem($0) }
        mutated = outcome.mutatedDocumentIDs
        self.commit = outcome.kind == .select ? nil : commit
    }

    /// The documents a statement wrote, each once, in the order they were written. Empty for a SELECT. Made
    /// anew at each call.
    public func mutatedDocumentIDs() -> [DittoDocumentID] {
        mutated.map { DittoDocumentID(content: $0.value) }
    }
}
