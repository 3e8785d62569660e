import CRDT
import Exchange

/// Takes a peer's operations to the log, in the order in which they came; with it the documents that a
/// restored log lacks (`HoldingsTaker`), and newer access tokens, because uploads after a token are judged
/// by it.
///
/// Invariants: one append is under way at most, so that the log keeps the order; an acknowledgement is sent
/// only after the append was answered, when the operations are durable. Bounds: uploads that wait take
/// credit; one token is checked and one waits, the latest.
struct Admitter: Sendable {
    enum Event: Sendable {
        // Frames:
        case upload([[UInt8]], size: Int)
        case renewal(token: String)
        case holdings(HoldingsPage, size: Int)
        case states([(key: DocumentKey, state: EncodedState?)], isPart: Bool)
        // Answers of the driver:
        case appended([Acknowledgement], offset: Offset)
        case refused([Acknowledgement], [Refusal], offset: Offset)
        case deferred([Acknowledgement], [Deferral], [Refusal], offset: Offset)
        case renewed
        case lacking([DocumentKey], declined: [UInt8]?)
        case statesAdmitted(LogPosition, declined: [UInt8]?)
        // Messages:
        case greeted(head: LogPosition, isBehind: Bool, takesLinks: Bool, defers: Bool)
        case answersSkipped(through: Offset)
        case progressTold(size: Int)
    }

    /// The append under way.
    private enum Append: Sendable {
        case idle
        case appending(size: Int)
        /// Acknowledged; the publisher tells how far the stream is before the credit goes back.
        case acknowledged
    }

    /// The check of a newer access token.
    private enum TokenCheck: Sendable {
        case idle
        /// `next` came meanwhile.
        case checking(next: String?)
    }

    private var append = Append.idle
    private var tokens = TokenCheck.idle
    /// Uploads that wait for the append under way, or for a token to be checked.
    private var waiting = Queue<(operations: [[UInt8]], size: Int)>()
    /// Actors of which an operation was refused: later ones of their sequence have nothing to stand on, and
    /// the writer sends them again under another actor.
    private var stopped: Set<ActorID> = []
    /// True if the peer knows of operations that wait for their base.
    private var defers = false
    /// Actors with such an operation: later ones wait with it, until it comes again.
    private var deferred: [ActorID: SequenceNumber] = [:]
    /// The offset through which the stream passed answers to this peer over: an acknowledgement up to there
    /// names no offset, so that the peer asks for them.
    private var skippedThrough: Offset = 0
    /// Nil unless the peer gives back documents that a restored log lacks, or gives those that links brought.
    private var taker: HoldingsTaker?
    /// The position that a list of documents of links ends with at least; nil where none is taken.
    private var linksFrom: LogPosition?

    mutating func handle(_ event: Event, _ flow: inout FlowControl) throws(SyncError) -> [Message] {
        let before = flow.traced(name)
        defer { flow.trace(.admitter, from: before, to: name) }
        switch event {
        case .upload(let operations, let size):
            guard !operations.isEmpty else {
                throw SyncError(.malformedFrame, "an upload without operations")
            }
            waiting.append((operations, size))
            return try appendNext(&flow)
        case .appended(let acknowledgements, let offset):
            return appended(acknowledgements, [], offset, &flow)
        case .refused(let acknowledgements, let refusals, let offset):
            return try refused(acknowledgements, refusals, offset, &flow)
        case .deferred(let acknowledgements, let deferrals, let refusals, let offset):
            return try wait(acknowledgements, deferrals, refusals, offset, &flow)
        case .progressTold(let size):
            guard case .acknowledged = append else {
                preconditionFailure("no upload was answered; the admitter is \(name)")
            }
            append = .idle
            flow.returnCredit(size)
            return try appendNext(&flow)
        case .renewal(let token):
            try check(token, &flow)
        case .renewed:
            return try renewed(&flow)
        case .greeted(let head, let isBehind, let takesLinks, let defers):
            self.defers = defers
            if isBehind { taker = HoldingsTaker(position: head, isReturn: true) }
            if takesLinks { linksFrom = head }
        case .answersSkipped(let offset):
            skippedThrough = offset
        case .holdings(let page, let size):
            if taker == nil, let linksFrom { taker = HoldingsTaker(position: linksFrom, isReturn: false) }
            guard taker != nil else { throw .unexpected("holdings") }
            try taker?.listed(page, size, &flow)
        case .states(let states, let isPart):
            guard taker != nil || states.isEmpty else { throw .unexpected("a state that was not asked for") }
            try taker?.received(states, isPart: isPart, &flow)
            endTaking()
        case .lacking(let keys, let declined):
            precondition(taker != nil, "nothing was compared; the admitter is \(name)")
            taker?.compared(keys, declined, &flow)
            endTaking()
        case .statesAdmitted(let position, let declined):
            precondition(taker != nil, "no states were admitted; the admitter is \(name)")
            taker?.admitted(position, declined, &flow)
            endTaking()
        }
        return []
    }

    private mutating func endTaking() { if taker?.isDone ?? false { taker = nil } }

    // MARK: Appending

    /// Appends what waits, unless a token before it is being checked.
    private mutating func appendNext(_ flow: inout FlowControl) throws(SyncError) -> [Message] {
        while case .idle = append, case .idle = tokens, !waiting.isEmpty {
            var next = waiting.removeFirst()
            // Uploads that wait together are appended together: appending is mostly waiting for the disk.
            while next.size < Limits.appendedBytes, let more = waiting.first {
                next = (next.operations + more.operations, next.size + more.size)
                waiting.removeFirst()
            }
            var operations: [[UInt8]] = []
            for bytes in next.operations where try mayTake(bytes) { operations.append(bytes) }
            guard !operations.isEmpty else {
                flow.returnCredit(next.size)
                continue
            }
            append = .appending(size: next.size)
            // Behind a refused operation there may be nothing left to append.
            let isMore = !waiting.isEmpty && stopped.isEmpty && deferred.isEmpty
            flow.perform(.append(operations, isMore: isMore, defers: defers))
            return [.appendBegan]
        }
        return []
    }

    /// Returns whether nothing before an uploaded operation speaks against it. One whose header cannot be
    /// read, or whose sequence no log can store, cannot be refused by its name.
    private mutating func mayTake(_ bytes: [UInt8]) throws(SyncError) -> Bool {
        let header: OperationHeader
        do {
            header = try OperationHeader.peek(bytes)
        } catch {
            throw SyncError(.malformedOperation, "an operation does not decode: \(error)")
        }
        guard header.sequence.rawValue <= UInt64(Int64.max) else {
            throw SyncError(.malformedOperation, "the sequence of an operation exceeds 63 bits")
        }
        if let awaited = deferred[header.actor] {
            guard header.sequence <= awaited else { return false }
            if header.sequence == awaited { deferred[header.actor] = nil }
        }
        return !stopped.contains(header.actor)
    }

    private mutating func appended(
        _ acknowledgements: [Acknowledgement], _ refusals: [Refusal], _ offset: Offset,
        _ flow: inout FlowControl
    ) -> [Message] {
        guard case .appending(let size) = append else {
            preconditionFailure("nothing was being appended; the admitter is \(name)")
        }
        append = .acknowledged
        if !acknowledgements.isEmpty {
            flow.send(.acknowledged(acknowledgements, offset: offset <= skippedThrough ? 0 : offset))
        }
        for refusal in refusals { flow.send(.refused(refusal)) }
        return [.appendEnded(through: offset), .progressTold(size: size)]
    }

    /// Operations wait for their bases, and others are refused.
    private mutating func wait(
        _ acknowledgements: [Acknowledgement], _ deferrals: [Deferral], _ refusals: [Refusal],
        _ offset: Offset, _ flow: inout FlowControl
    ) throws(SyncError) -> [Message] {
        precondition(defers, "nothing may wait; the admitter is \(name)")
        for item in deferrals { deferred[item.actor] = item.sequence }
        guard deferred.count <= Limits.stoppedActors else {
            throw SyncError(.creditExceeded, "operations of too many actors wait for their bases")
        }
        let messages = try refused(acknowledgements, refusals, offset, &flow)
        for item in deferrals { flow.send(.deferred(item)) }
        return messages
    }

    private mutating func refused(
        _ acknowledgements: [Acknowledgement], _ refusals: [Refusal], _ offset: Offset,
        _ flow: inout FlowControl
    ) throws(SyncError) -> [Message] {
        for refusal in refusals { stopped.insert(refusal.actor) }
        guard stopped.count <= Limits.stoppedActors else {
            throw SyncError(.creditExceeded, "operations of too many actors were refused")
        }
        let messages = appended(acknowledgements, refusals, offset, &flow)
        // These say that the two sides see different histories: only another handshake can tell which.
        if let fatal = refusals.first(where: \.error.isOfHistory) { throw fatal.error }
        return messages
    }

    // MARK: Newer tokens

    private mutating func check(_ token: String, _ flow: inout FlowControl) throws(SyncError) {
        guard token.utf8.count <= Limits.accessTokenBytes else {
            throw SyncError(.tokenRefused, "a token of \(token.utf8.count) bytes is not read")
        }
        if case .checking = tokens { return tokens = .checking(next: token) }
        tokens = .checking(next: nil)
        flow.perform(.checkToken(token))
    }

    private mutating func renewed(_ flow: inout FlowControl) throws(SyncError) -> [Message] {
        guard case .checking(let next) = tokens else {
            preconditionFailure("no token was being checked; the admitter is \(name)")
        }
        tokens = .idle
        if let next { try check(next, &flow) }
        return try appendNext(&flow)
    }
}

// MARK: Invariants

extension Admitter {
    /// The name of its state, for logs and traps.
    var name: String {
        let tokens =
            switch tokens {
            case .idle: ""
            case .checking: ", checking a token"
            }
        let taking = taker.map { ", \($0.name)" } ?? ""
        return
            switch append
        {
        case .idle: "idle\(tokens)\(taking)"
        case .appending: "appending\(tokens)\(taking)"
        case .acknowledged: "acknowledged\(tokens)\(taking)"
        }
    }

    /// The number of uploads that wait.
    var waitingUploads: Int { waiting.count }

    /// Returns whether the driver may answer now.
    func expects(_ answer: Answer) -> Bool {
        switch answer {
        case .append: if case .appending = append { true } else { false }
        case .token: if case .checking = tokens { true } else { false }
        default: taker?.expects(answer) ?? false
        }
    }

    /// Traps on a state that contradicts itself.
    func checkInvariants() {
        if case .acknowledged = append { preconditionFailure("an append whose end was not told on") }
        precondition(stopped.count <= Limits.stoppedActors, "\(stopped.count) actors are stopped")
        precondition(deferred.count <= Limits.stoppedActors, "\(deferred.count) actors wait")
        if case .idle = append, case .idle = tokens {
            precondition(waiting.isEmpty, "uploads wait for nothing; the admitter is \(name)")
        }
        taker?.checkInvariants()
    }
}

extension SyncError {
    /// True if the log's history of the actor is not the one that the upload follows.
    fileprivate var isOfHistory: Bool {
        [SyncErrorCode.sequenceGap, .actorConflict].contains { utf8Equal($0.rawValue, code) }
    }
}
