import CRDT

extension Reader {
    /// The states that the first item of the queue needs.
    struct Needs: Sendable {
        /// Documents whose states have not come.
        var missing: Set<DocumentKey> = []
        /// Documents whose states have come: asking for one of them again would go on for ever.
        var answered: Set<DocumentKey> = []
        /// The states that have come.
        var fetched: [DocumentUpdate] = []
    }
}
