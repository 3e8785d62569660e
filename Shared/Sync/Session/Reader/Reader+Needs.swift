import CRDT

extension Reader {
    /// The states that the first item of the queue needs.
    struct Needs: Sendable {
        /// Documents whose states have not come.
        var missing: Set<DocumentKey> = []
        /// Documents whose states have come: asking for one of them again would go on for ever.
        var answered: Set<DocumentKey> = []
        /// Documents whose deltas lack their base here.
        var baseless: Set<DocumentKey> = []
        /// Documents that were named as changed, and of which the other side then told nothing: it has
        /// evicted them. The item's own content of them stands.
        var absent: Set<DocumentKey> = []
        /// The states that have come.
        var fetched: [DocumentUpdate] = []

        /// Takes the answers that are needed.
        /// - Returns: the updates of the others, and the documents whose deltas the answers cover.
        mutating func take(
            _ answers: [FetchQueue.Answered]
        ) -> (others: [DocumentUpdate], covered: Set<DocumentKey>) {
            var others: [DocumentUpdate] = []
            var covered: Set<DocumentKey> = []
            for answer in answers {
                guard !answer.isStale, missing.remove(answer.key) != nil else {
                    others += answer.updates
                    continue
                }
                fetched += answer.updates
                let isToldNothing = answer.updates.isEmpty && !baseless.contains(answer.key)
                if isToldNothing { absent.insert(answer.key) } else { covered.insert(answer.key) }
            }
            answered.formUnion(covered)
            return (others, covered)
        }

        /// Deltas of these documents lack their bases.
        /// - Returns: the documents that are to be asked for, and those of which the other side has nothing;
        ///   nil if one was answered already.
        mutating func lacks(
            basesOf keys: [DocumentKey]
        ) -> (missing: [DocumentKey], absent: Set<DocumentKey>)? {
            guard !keys.contains(where: answered.contains) else { return nil }
            let absent = absent.intersection(keys)
            let missing = keys.filter { !absent.contains($0) }
            baseless.formUnion(missing)
            return (missing, absent)
        }
    }
}
