import CRDT
import Foundation

/// The result of a statement. Its items are a copy of one consistent state of the store.
public final class DittoQueryResult: Sendable {
    /// The rows of a SELECT, in order; empty for statements that write.
    public let items: [DittoQueryResultItem]
    /// The local commit of a write; nil for a SELECT, and inside a transaction until it is committed. Later
    /// commits have greater ids. Once the server has acknowledged one, it and all earlier ones are durable
    /// there.
    public var commitID: UInt64? { commit?.value }
    /// True unless the statement was a SELECT.
    package var isWrite: Bool { commit != nil }
    private let commit: CommitNumber?
    private let mutated: [DocumentID]

    init(_ outcome: StatementOutcome) {
        items = outcome.kept.map { DittoQueryResultItem($0) }
        mutated = outcome.mutatedDocumentIDs
        commit = outcome.kind == .select ? nil : CommitNumber(outcome.commit)
    }

    /// The result of a statement in a transaction, which has no commit yet.
    init(_ outcome: StatementOutcome, commit: CommitNumber) {
        items = outcome.kept.map { DittoQueryResultItem($0) }
        mutated = outcome.mutatedDocumentIDs
        self.commit = outcome.kind == .select ? nil : commit
    }

    /// The documents that a statement wrote, each once, in the order of writing. Empty for a SELECT.
    /// Computed on each call.
    public func mutatedDocumentIDs() -> [DittoDocumentID] {
        mutated.map { DittoDocumentID(content: $0.value) }
    }
}
