import CRDT
import Exchange

// States on request: what was asked for document by document. They consume no credit, because their receiver
// may be unable to store anything before it has them; so each answer is bounded (`Limits.answerBytes`), and
// for what does not fit its receiver asks again.

extension Session {
    mutating func serveStates(_ keys: [DocumentKey], _ held: [DocumentVersion]) throws(SyncError) {
        guard keys.count <= Limits.wantedDocuments, held.count <= keys.count else {
            throw SyncError(.malformedFrame, "more than \(Limits.wantedDocuments) documents wanted at once")
        }
        guard held.allSatisfy({ (try? VersionVector(decoding: $0.vector)) != nil }) else {
            throw SyncError(.malformedFrame, "the vector of a document does not decode")
        }
        let waiting = publisher.wants.reduce(0) { $0 + $1.keys.count }
        guard waiting + keys.count <= Limits.wantedWaitingDocuments else {
            throw SyncError(.creditExceeded, "too many documents wanted before any was answered")
        }
        let size = held.reduce(0) { $0 + $1.size }
        guard publisher.wants.reduce(size, { $0 + $1.heldBytes }) <= Limits.wantedWaitingBytes else {
            throw SyncError(.creditExceeded, "too much is said of documents before any was answered")
        }
        guard !keys.isEmpty else { return }
        publisher.wants.append(Publisher.Want(keys: keys, held: held, heldBytes: size))
        readNextStates()
    }

    mutating func readNextStates() {
        guard !publisher.isReadingStates, let first = publisher.wants.first else { return }
        publisher.isReadingStates = true
        publisher.wants[0].readFrom = publisher.head
        let keys = Array(first.keys.prefix(Limits.statesPerRead))
        let named = first.held.isEmpty ? [] : Set(keys)
        actions.append(.readStates(keys, held: first.held.filter { named.contains($0.key) }))
    }

    mutating func answerStates(
        _ states: [(key: DocumentKey, state: EncodedState?)], at position: LogPosition?,
        _ gone: [DocumentVersion]
    ) {
        guard publisher.isReadingStates else { return }
        publisher.isReadingStates = false
        let gone = Dictionary(gone.map { ($0.key, $0) }) { _, later in later }
        var batch: [(key: DocumentKey, state: EncodedState?)] = []
        var told: [DocumentVersion] = []
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
            if mayRead, let item = gone[item.key] { told.append(item) }
            if isAlone, !batch.isEmpty || !told.isEmpty || position != nil {
                send(.states(batch, at: position, gone: told))
            }
            if isAlone { (batch, told) = ([], []) }
            batch.append((item.key, state))
            size += state?.count ?? 0
            guard isAlone || size >= configuration.batchBytes else { continue }
            send(.states(batch, at: isAlone ? nil : position, gone: told))
            (batch, told) = ([], [])
            publisher.answeredBytes += size
            size = 0
        }
        publisher.answeredBytes += size
        finishAnswer(batch, told, count, position)
        readNextStates()
    }

    /// Sends the rest of what was read, and goes on to the next want when this one is answered as far as it
    /// may be.
    private mutating func finishAnswer(
        _ batch: [(key: DocumentKey, state: EncodedState?)], _ gone: [DocumentVersion], _ count: Int,
        _ position: LogPosition?
    ) {
        guard !publisher.wants.isEmpty else { return }
        publisher.wants[0].keys.removeFirst(min(count, publisher.wants[0].keys.count))
        let isLast = publisher.wants[0].keys.isEmpty
        let isPart = !isLast && publisher.answeredBytes >= Limits.answerBytes
        if !batch.isEmpty || isPart { send(.states(batch, at: position, isPart: isPart, gone: gone)) }
        guard isPart || isLast else { return }
        publisher.wants.removeFirst()
        publisher.answeredBytes = 0
    }
}
