import CRDT
import DQL
import Identity
import Replica
import Sync

/// Answers a page of what a subscriber holds from a materialization, in one short snapshot.
enum HeldReader {
    static func answer(
        _ page: HeldPage, of query: SubscriptionQuery, _ access: ReadAccess, mayWrite: CompiledRules,
        in replica: Replica, _ interruption: (@Sendable () -> Interruption?)?
    ) throws -> HeldAnswer {
        let range = HeldRange(
            documents: try page.candidates.map { ($0.key.id, try VersionVector(decoding: $0.vector)) },
            unmatched: Set(page.candidates.filter(\.isUnmatched).map(\.key.id)),
            after: page.after, isLast: page.isLast, bytes: min(Limits.pageBytes, page.maxBytes),
            rows: Limits.pageDocuments)
        return try replica.read { transaction in
            let found = try transaction.compare(
                range, of: query, mayWrite: { mayWrite.allows($0) }, interruption: interruption
            ) {
                access.allows($0)
            }
            func key(_ id: DocumentID) -> DocumentKey { DocumentKey(collection: query.collection, id: id) }
            var answer = HeldAnswer()
            answer.documents = found.documents.map {
                DocumentUpdate(key: key($0.id), content: .state($0.state))
            }
            answer.gone = found.gone.map { Frame.Candidate(key: key($0.id), vector: $0.vector.encoded()) }
            answer.hidden = found.hidden.map(key)
            answer.through = found.through
            answer.asOf = try transaction.logPosition()
            return answer
        }
    }
}
