import CRDT

// States on request: what was asked for document by document. They consume no credit, because their receiver
// may be unable to store anything before it has them; so each answer is bounded (`Limits.answerBytes`), and
// for what does not fit its receiver asks again.

extension Session {
    mutating func serveStates(_ keys: [DocumentKey]) throws(SyncError) {
        guard keys.count <= Limits.wantedDocuments else {
            throw SyncError(.malformedFrame, "more than \(Limits.wantedDocuments) documents wanted at once")
        }
        let waiting = publisher.wants.reduce(0) { $0 + $1.count }
        guard waiting + keys.count <= Limits.wantedWaitingDocuments else {
            throw SyncError(.creditExceeded, "too many documents wanted before any was answered")
        }
        guard !keys.isEmpty else { return }
        publisher.wants.append(keys)
        readNextStates()
    }

    mutating func readNextStates() {
        guard !publisher.isReadingStates, let first = publisher.wants.first else { return }
        publisher.isReadingStates = true
        actions.append(.readStates(Array(first.prefix(Limits.statesPerRead))))
    }

    mutating func answerStates(
        _ states: [(key: DocumentKey, state: [UInt8]?)], at position: LogPosition?
    ) {
        guard publisher.isReadingStates else { return }
        publisher.isReadingStates = false
        var batch: [(key: DocumentKey, state: [UInt8]?)] = []
        var size = 0
        var count = 0
        // What is read beyond the bound is asked for again.
        for item in states where publisher.answeredBytes + size < Limits.answerBytes {
            count += 1
            // What the grant hides is answered like what does not exist. A peer answers with what it offered
            // itself.
            let mayRead = configuration.role == .peer || access.allows(item.key)
            let state = mayRead ? item.state : nil
            // One that a later session may go on with is a message without anything that may be another
            // then: where the log was read is told before it.
            let isAlone = version >= 3 && (state?.count ?? 0) > Limits.firstBurstBytes
            if isAlone, !batch.isEmpty || position != nil { send(.states(batch, at: position)) }
            if isAlone { batch = [] }
            batch.append((item.key, state))
            size += state?.count ?? 0
            guard isAlone || size >= configuration.batchBytes else { continue }
            send(.states(batch, at: isAlone ? nil : position))
            batch = []
            publisher.answeredBytes += size
            size = 0
        }
        finishAnswer(batch, size, count, position)
        readNextStates()
    }

    /// Sends the rest of what was read, and goes on to the next want when this one is answered as far as it
    /// may be.
    private mutating func finishAnswer(
        _ batch: [(key: DocumentKey, state: [UInt8]?)], _ size: Int, _ count: Int, _ position: LogPosition?
    ) {
        publisher.answeredBytes += size
        guard !publisher.wants.isEmpty else { return }
        publisher.wants[0].removeFirst(min(count, publisher.wants[0].count))
        let isPart = !publisher.wants[0].isEmpty && publisher.answeredBytes >= Limits.answerBytes
        if !batch.isEmpty || isPart { send(.states(batch, at: position, isPart: isPart)) }
        guard isPart || publisher.wants[0].isEmpty else { return }
        publisher.wants.removeFirst()
        publisher.answeredBytes = 0
    }
}
