import CRDT
import Exchange

/// Gives a server that has lost its log's end back what a peer holds (rules 14, 18 and 20).
///
/// The server starts it, having seen that its log does not have the position the peer has seen: it was
/// restored. The peer lists what it holds; the server asks for the states of which it has less, takes them
/// to the log, and ends the reconcile. The peer subscribes and uploads after that, so that its operations
/// find their bases.
///
/// Bounds: pages are data and consume credit; the server asks for `Limits.statesPerRead` documents at a time.
struct Reconciler: Sendable {
    enum Step: Sendable, Equatable {
        case idle
        /// The documents of the first page are being compared with the log's.
        case comparing
        /// Their states are being asked for and appended.
        case asking
    }

    /// Whether a reconcile is under way, on either side.
    var isActive = false
    /// A peer: whether a page is being read, and the last document that was listed.
    var isReading = false
    var last: DocumentKey?
    /// Whether the last page has come or gone.
    var isListed = false
    /// A server: pages that wait, the first one being worked on.
    var pages: [(candidates: [DocumentVersion], size: Int, isLast: Bool)] = []
    var step = Step.idle
    /// Documents of the first page that the server lacks and has not asked for.
    var lacking: [DocumentKey] = []
    /// Documents asked for, and states that are being appended.
    var asked: Set<DocumentKey> = []
    var appending = 0
    /// The position up to which the log has what was taken.
    var position: LogPosition?
    /// What stands for the rights by which something was not taken; at a peer also before a reconcile and
    /// behind it: then the last one's.
    var declined: [UInt8]?
    /// A peer: rights have changed since they were judged, and it goes on to the end of the handshake.
    var areRightsNewer = false

    /// Something was not taken by these rights. Where it was others before, none are the ones by which all of
    /// it was judged, so under any it is asked again.
    mutating func note(_ declined: [UInt8]?) {
        guard let declined else { return }
        self.declined = self.declined ?? declined == declined ? declined : []
    }
}

// MARK: The peer's half

extension Session {
    mutating func list() {
        guard configuration.role == .peer, reconciler.isActive, !reconciler.isReading,
            !reconciler.isListed, canSendData
        else { return }
        reconciler.isReading = true
        actions.append(.readHoldings(after: reconciler.last))
    }

    mutating func listed(_ candidates: [DocumentVersion], isLast: Bool) {
        guard reconciler.isReading, phase == .open else { return }
        reconciler.isReading = false
        reconciler.isListed = isLast
        reconciler.last = candidates.last?.key ?? reconciler.last
        send(.holdings(candidates, isLast: isLast))
        list()
    }

    mutating func reconciled(_ position: LogPosition, _ declined: [UInt8]?) throws(SyncError) {
        guard reconciler.isActive, reconciler.isListed else { throw unexpected("reconciled") }
        let areRightsNewer = reconciler.areRightsNewer
        reconciler = Reconciler()
        reconciler.declined = declined
        reconciler.areRightsNewer = areRightsNewer
        uploader.serverHead = position
        beginExchange()
    }
}

extension Session {
    /// This peer's rights have changed.
    mutating func granted() throws(SyncError) {
        guard uploader.hasBegun else { return reconciler.areRightsNewer = true }
        try offerAnew()
        askAgain()
    }

    /// What a restored log was not given for want of rights is judged anew at a handshake (0039).
    func offerAnew() throws(SyncError) {
        guard reconciler.declined != nil else { return }
        throw SyncError(.goingAway, "rights have changed, and a restored log lacks what this peer holds")
    }
}

// MARK: The server's half

extension Session {
    mutating func receivedHoldings(
        _ candidates: [DocumentVersion], isLast: Bool, _ size: Int
    ) throws(SyncError) {
        guard reconciler.isActive, !reconciler.isListed else { throw unexpected("holdings") }
        guard candidates.count <= Limits.heldDocuments else {
            throw SyncError(.malformedFrame, "more than \(Limits.heldDocuments) documents on one page")
        }
        for candidate in candidates where (try? VersionVector(decoding: candidate.vector)) == nil {
            throw SyncError(.malformedFrame, "the vector of a document does not decode")
        }
        reconciler.isListed = isLast
        reconciler.pages.append((candidates, size, isLast))
        compareNext()
    }

    private mutating func compareNext() {
        guard reconciler.step == .idle, let page = reconciler.pages.first else { return }
        reconciler.step = .comparing
        actions.append(.compareHoldings(page.candidates))
    }

    mutating func lacking(_ keys: [DocumentKey], _ declined: [UInt8]?) {
        guard reconciler.step == .comparing else { return }
        reconciler.note(declined)
        reconciler.step = .asking
        reconciler.lacking = keys
        askForHoldings()
    }

    /// Asks for the next few documents, or ends the page when there are none left.
    private mutating func askForHoldings() {
        guard reconciler.step == .asking, reconciler.asked.isEmpty, reconciler.appending == 0 else { return }
        let keys = Array(reconciler.lacking.prefix(Limits.statesPerRead))
        guard keys.isEmpty else {
            reconciler.lacking.removeFirst(keys.count)
            reconciler.asked = Set(keys)
            return send(.want(keys))
        }
        let page = reconciler.pages.removeFirst()
        reconciler.step = .idle
        returnCredit(page.size)
        guard page.isLast else { return compareNext() }
        let (position, declined) = (reconciler.position, reconciler.declined)
        reconciler = Reconciler()
        if let position { send(.reconciled(position, declined: declined)) }
    }

    mutating func receivedHeld(
        _ states: [(key: DocumentKey, state: EncodedState?)], isPart: Bool
    ) throws(SyncError) {
        for item in states where reconciler.asked.remove(item.key) == nil {
            throw unexpected("a state that was not asked for")
        }
        if isPart {
            reconciler.lacking += reconciler.asked
            reconciler.asked = []
        }
        let given = states.compactMap { item in item.state.map { (key: item.key, state: $0) } }
        guard !given.isEmpty else { return askForHoldings() }
        reconciler.appending += 1
        actions.append(.admitStates(given))
    }

    mutating func statesAdmitted(_ position: LogPosition, _ declined: [UInt8]?) {
        guard reconciler.appending > 0 else { return }
        reconciler.note(declined)
        reconciler.position = position
        reconciler.appending -= 1
        askForHoldings()
    }
}
