import CRDT
import Exchange

/// Answers requests for the states of single documents (`want`): a part of the publisher, and of a writer
/// that gives a restored log back what it lacks.
///
/// Answers consume no credit, because their receiver may be unable to store anything before it has them. So
/// each answer is bounded (`Limits.answerBytes`), and its receiver asks again for the rest; the number of
/// wants that wait is bounded, and so are their bytes.
struct StateAnswers: Sendable {
    private enum Read: Sendable {
        case idle
        /// The first want's next documents are being read; the states are from this position of the stream
        /// or later. Nil at a peer.
        case reading(from: LogPosition?)
    }

    /// Documents whose states were asked for and not read, and the asker's versions of them.
    private struct Want: Sendable {
        var keys: [DocumentKey]
        let held: [DocumentVersion]
        let heldBytes: Int
    }

    private var read = Read.idle
    /// In order.
    private var wants: [Want] = []
    /// Bytes of the answer to the first one so far.
    private var answeredBytes = 0

    /// The stream's position when the read under way began; nil if there is none.
    var readFrom: LogPosition? { if case .reading(let position) = read { position } else { nil } }

    /// The number of wants that are not answered.
    var count: Int { wants.count }

    var isReading: Bool { if case .reading = read { true } else { false } }

    /// The other side asks. `head` is the stream's position.
    mutating func want(
        _ keys: [DocumentKey], _ held: [DocumentVersion], head: LogPosition?, _ flow: inout FlowControl
    ) throws(SyncError) {
        guard keys.count <= Limits.wantedDocuments, held.count <= keys.count else {
            throw SyncError(.malformedFrame, "more than \(Limits.wantedDocuments) documents wanted at once")
        }
        guard held.allSatisfy({ (try? VersionVector(decoding: $0.vector)) != nil }) else {
            throw SyncError(.malformedFrame, "the vector of a document does not decode")
        }
        let waiting = wants.reduce(0) { $0 + $1.keys.count }
        guard waiting + keys.count <= Limits.wantedWaitingDocuments else {
            throw SyncError(.creditExceeded, "too many documents wanted before any was answered")
        }
        let size = held.reduce(0) { $0 + $1.size }
        guard wants.reduce(size, { $0 + $1.heldBytes }) <= Limits.wantedWaitingBytes else {
            throw SyncError(.creditExceeded, "too much is said of documents before any was answered")
        }
        guard !keys.isEmpty else { return }
        wants.append(Want(keys: keys, held: held, heldBytes: size))
        readNext(head, &flow)
    }

    private mutating func readNext(_ head: LogPosition?, _ flow: inout FlowControl) {
        guard case .idle = read, let first = wants.first else { return }
        read = .reading(from: head)
        let keys = Array(first.keys.prefix(Limits.statesPerRead))
        let named = first.held.isEmpty ? [] : Set(keys)
        flow.perform(.readStates(keys, held: first.held.filter { named.contains($0.key) }))
    }

    /// The driver has read the states of the first want's next documents, as of `position`. A document that
    /// may not be read is answered like one that does not exist.
    mutating func answer(
        _ states: [(key: DocumentKey, state: EncodedState?)], at position: LogPosition?,
        gone: [DocumentVersion], mayRead: (DocumentKey) -> Bool, head: LogPosition?,
        _ flow: inout FlowControl
    ) {
        precondition(isReading, "no states were being read")
        read = .idle
        let gone = Dictionary(gone.map { ($0.key, $0) }) { _, later in later }
        var batch: [(key: DocumentKey, state: EncodedState?)] = []
        var told: [DocumentVersion] = []
        var size = 0
        var count = 0
        // States beyond the bound are asked for again.
        for item in states where answeredBytes + size < Limits.answerBytes {
            count += 1
            let mayRead = mayRead(item.key)
            let state = mayRead ? item.state : nil
            // A state that a later session may continue is a message without anything that may be another
            // then: the position of the read is told before it.
            let isAlone = (state?.count ?? 0) > Limits.firstBurstBytes
            if mayRead, let item = gone[item.key] { told.append(item) }
            if isAlone, !batch.isEmpty || !told.isEmpty || position != nil {
                flow.send(.states(batch, at: position, gone: told))
            }
            if isAlone { (batch, told) = ([], []) }
            batch.append((item.key, state))
            size += state?.count ?? 0
            guard isAlone || size >= flow.batchBytes else { continue }
            flow.send(.states(batch, at: isAlone ? nil : position, gone: told))
            (batch, told) = ([], [])
            answeredBytes += size
            size = 0
        }
        answeredBytes += size
        finish(batch, told, count, position, &flow)
        readNext(head, &flow)
    }

    /// Sends the rest of what was read, and goes on to the next want if this one is answered as far as it may
    /// be.
    private mutating func finish(
        _ batch: [(key: DocumentKey, state: EncodedState?)], _ gone: [DocumentVersion], _ count: Int,
        _ position: LogPosition?, _ flow: inout FlowControl
    ) {
        guard !wants.isEmpty else { preconditionFailure("states were read for nobody") }
        wants[0].keys.removeFirst(min(count, wants[0].keys.count))
        let isLast = wants[0].keys.isEmpty
        let isPart = !isLast && answeredBytes >= Limits.answerBytes
        if !batch.isEmpty || isPart { flow.send(.states(batch, at: position, isPart: isPart, gone: gone)) }
        guard isPart || isLast else { return }
        wants.removeFirst()
        answeredBytes = 0
    }

    func checkInvariants() {
        let waiting = wants.reduce(0) { $0 + $1.keys.count }
        precondition(
            waiting <= Limits.wantedWaitingDocuments, "\(waiting) documents that the other side wants wait")
        precondition(isReading == !wants.isEmpty, "wants wait, and nobody reads")
    }
}
