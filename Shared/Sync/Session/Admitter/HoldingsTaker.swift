import CRDT
import Exchange

/// Takes back from a peer what a restored log has lost (rules 14, 18 and 20): a part of the admitter.
///
/// The server begins it when its log lacks the position that the peer has seen. The peer lists its holdings;
/// the server asks for the states of which it has less, takes them to the log, and ends with `reconciled`.
/// Only then does the peer subscribe and upload, so that its operations find their bases.
///
/// The states of one page of links are appended together, as one operation: a peer lists on one page what
/// links have brought in a transaction, and a reader of the log sees all of it or nothing. A restored log
/// takes each state as it comes, so that a link that breaks soon gets on.
///
/// Bounds: pages are data and consume credit; `Limits.statesPerRead` documents are asked for at a time. No
/// more is asked for once the states that wait for the rest of their page have `Limits.givenBytes`.
struct HoldingsTaker: Sendable {
    private enum Step: Sendable {
        /// Waits for a page.
        case idle
        /// The documents of the first page are being compared with the log's.
        case comparing
        /// Their states are being asked for and appended.
        case asking(Asking)
        /// `reconciled` is sent.
        case done
    }

    private struct Asking: Sendable {
        /// Documents of the page that the log lacks and that were not asked for.
        var lacking: [DocumentKey]
        /// Documents asked for.
        var asked: Set<DocumentKey> = []
        /// States that have come and wait for others of their page.
        var given: [(key: DocumentKey, state: EncodedState)] = []
        var givenBytes = 0
        /// Appends of states under way.
        var appending = 0
    }

    private var step = Step.idle
    /// Pages that wait; the first one is being worked on.
    private var pages: [(page: HoldingsPage, size: Int)] = []
    /// True if the last page has come.
    private var isListed = false
    /// The position up to which the log has the taken documents.
    private var position: LogPosition
    /// The fingerprint of the rights under which something was not taken.
    private var declined = DeclinedRights()

    /// True if the log was restored; false if the peer gives what links brought.
    private let isReturn: Bool

    /// Takes holdings to a log that is at this position.
    init(position: LogPosition, isReturn: Bool) {
        self.position = position
        self.isReturn = isReturn
    }

    var isDone: Bool { if case .done = step { true } else { false } }

    /// A page has come.
    mutating func listed(_ page: HoldingsPage, _ size: Int, _ flow: inout FlowControl) throws(SyncError) {
        guard !isListed else { throw .unexpected("holdings") }
        guard page.candidates.count <= Limits.heldDocuments else {
            throw SyncError(.malformedFrame, "more than \(Limits.heldDocuments) documents on one page")
        }
        for candidate in page.candidates where (try? VersionVector(decoding: candidate.vector)) == nil {
            throw SyncError(.malformedFrame, "the vector of a document does not decode")
        }
        isListed = page.isLast
        pages.append((page, size))
        if case .idle = step { compareNext(&flow) }
    }

    private mutating func compareNext(_ flow: inout FlowControl) {
        step = .idle
        guard let next = pages.first else { return }
        step = .comparing
        flow.perform(.compareHoldings(next.page.candidates))
    }

    /// The log lacks these documents of the page.
    mutating func compared(_ keys: [DocumentKey], _ rights: [UInt8]?, _ flow: inout FlowControl) {
        guard case .comparing = step else { preconditionFailure("no page was compared; it is \(name)") }
        declined.note(rights)
        ask(Asking(lacking: keys), &flow)
    }

    /// Asks for the next few documents, appends what has come, or ends the page if none are left.
    private mutating func ask(_ asking: Asking, _ flow: inout FlowControl) {
        var asking = asking
        step = .asking(asking)
        guard asking.asked.isEmpty, asking.appending == 0 else { return }
        let keys = Array(asking.lacking.prefix(Limits.statesPerRead))
        if keys.isEmpty || asking.givenBytes >= Limits.givenBytes, !asking.given.isEmpty {
            return append(asking, &flow)
        }
        guard keys.isEmpty else {
            asking.lacking.removeFirst(keys.count)
            asking.asked = Set(keys)
            step = .asking(asking)
            return flow.send(.want(keys))
        }
        let page = pages.removeFirst()
        flow.returnCredit(page.size)
        guard page.page.isLast else { return compareNext(&flow) }
        step = .done
        flow.send(.reconciled(position, declined: declined.rights))
    }

    /// Appends the states that have come.
    private mutating func append(_ asking: Asking, _ flow: inout FlowControl) {
        var asking = asking
        let given = asking.given
        (asking.given, asking.givenBytes) = ([], 0)
        asking.appending += 1
        step = .asking(asking)
        flow.perform(.admitStates(given, isReturn: isReturn))
    }

    /// States have come for documents that were asked for; `isPart` if others of them will not come.
    mutating func received(
        _ states: [(key: DocumentKey, state: EncodedState?)], isPart: Bool, _ flow: inout FlowControl
    ) throws(SyncError) {
        guard case .asking(var asking) = step else {
            guard states.isEmpty else { throw .unexpected("a state that was not asked for") }
            return
        }
        for item in states where asking.asked.remove(item.key) == nil {
            throw .unexpected("a state that was not asked for")
        }
        if isPart {
            asking.lacking += asking.asked
            asking.asked = []
        }
        for case (let key, let state?) in states {
            asking.given.append((key, state))
            asking.givenBytes += state.count
        }
        if isReturn, !asking.given.isEmpty { append(asking, &flow) } else { ask(asking, &flow) }
    }

    /// States are in the log, up to this position.
    mutating func admitted(_ position: LogPosition, _ rights: [UInt8]?, _ flow: inout FlowControl) {
        guard case .asking(var asking) = step, asking.appending > 0 else {
            preconditionFailure("no states were admitted; it is \(name)")
        }
        declined.note(rights)
        self.position = position
        asking.appending -= 1
        ask(asking, &flow)
    }
}

extension HoldingsTaker {
    var name: String {
        switch step {
        case .idle: "waiting for holdings"
        case .comparing: "comparing holdings"
        case .asking: "taking holdings"
        case .done: "holdings taken"
        }
    }

    func expects(_ answer: Answer) -> Bool {
        switch (answer, step) {
        case (.holdingsComparison, .comparing): true
        case (.admission, .asking(let asking)): asking.appending > 0
        default: false
        }
    }

    func checkInvariants() {
        precondition(!isDone, "it goes with its last page")
        if case .idle = step { precondition(pages.isEmpty, "a page waits for nothing") }
        if case .asking(let asking) = step {
            precondition(!asking.asked.isEmpty || asking.appending > 0, "it asks for nothing")
        }
    }
}

/// The fingerprint of the rights under which a server did not take something.
struct DeclinedRights: Sendable {
    private(set) var rights: [UInt8]?

    /// Something was not taken under these rights. If others declined before, no rights judged all of it, so
    /// that it is asked again under any.
    mutating func note(_ declined: [UInt8]?) {
        guard let declined else { return }
        rights = rights ?? declined == declined ? declined : []
    }
}
