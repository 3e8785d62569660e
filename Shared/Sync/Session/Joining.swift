import CRDT

// What waits together is stored together. Storing is mostly waiting for the disk, so a receiver that is
// behind takes all that has come meanwhile in one transaction; the credit given bounds how much that is.

extension Session {
    /// Lets the head of the queue and what directly follows it be one transaction, where that says the same:
    /// operations up to the last one's position, or pages of one catch-up before its end.
    mutating func joinHead() {
        guard let first = subscriber.queue.first else { return }
        var joined = first
        subscriber.queue.removeFirst()
        while joined.size < Limits.joinedBytes, let next = subscriber.queue.first,
            let work = joined.work.joined(with: next.work)
        {
            joined = (work, joined.size + next.size)
            subscriber.queue.removeFirst()
        }
        subscriber.queue.prepend(joined)
    }
}

extension Subscriber.Work {
    /// One piece of work for two that follow each other; nil where their order tells something.
    fileprivate func joined(with next: Self) -> Self? {
        switch (self, next) {
        case (.operations(var operations), .operations(let later)):
            operations.updates += later.updates
            operations.position = later.position
            return .operations(operations)
        case (.operations(var operations), .progress(let position)):
            operations.position = position
            return .operations(operations)
        case (.catchUp(var page), .catchUp(let later)):
            // What is gone goes before the documents of its page, and what was hidden may come again.
            guard page.id == later.id, page.end == nil, later.end == nil, page.candidates.isEmpty,
                later.candidates.isEmpty, later.gone.isEmpty, later.hidden.isEmpty
            else { return nil }
            page.documents += later.documents
            page.asOf = later.asOf ?? page.asOf
            page.resume = later.resume ?? page.resume
            return .catchUp(page)
        default: return nil
        }
    }
}
