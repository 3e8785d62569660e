import Exchange

/// Numbers a link, from its dial or its acceptance on; never reused.
public typealias LinkID = UInt64

/// The decisions about links: which address is dialed when, which of two links of one pair stays, who may
/// stay at all. A state machine without sockets, clocks and randomness; `Mesh` performs its actions.
///
/// A link is *opening* until its other side has greeted, *waiting* while an older link of the same peer ends,
/// *asking* while the application decides, then *open*, and *closing* after its reason was told. It leaves
/// the table with `ended`, exactly once for each link in every case.
///
/// Invariants: one link of a peer at most is open. An address has one link at most. A dial is never cancelled
/// because of an incoming connection. All durations are times since one fixed moment.
struct LinkTable: Sendable {
    /// The application's wishes.
    struct Settings: Sendable, Equatable {
        /// Addresses that are dialed always.
        var addresses: Set<MeshAddress> = []
        /// Listeners whose connections are taken.
        var listeners: Set<Int> = []
        /// Only peers of the same group stay linked.
        var syncGroup: UInt32 = 0
        /// The first pause after a failed dial, but for the early ones.
        var retryInterval = Limits.firstDialPause
        /// The time without any success after which dialing counts as failed.
        var failureWindow = Limits.dialFailureWindow
    }

    /// The origin of a link.
    enum Origin: Sendable, Equatable {
        case dialed(MeshAddress)
        case accepted(listener: Int)
    }

    /// A start of a peer's store: how often it was started, and the random bytes of this start.
    struct Boot: Sendable, Equatable {
        var count: UInt64
        var nonce: UInt64
    }

    /// The other side of a link, once it has proven its key and greeted.
    struct Remote: Sendable, Equatable {
        var peerKey: String
        var boot: Boot
        /// The time at which the certificate of one of both sides ends.
        var endsAt: Duration?
    }

    enum Event: Sendable {
        case set(Settings)
        case accepted(LinkID, listener: Int)
        /// The other side has proven this key; it has not greeted yet.
        case proven(LinkID, peerKey: String)
        case greeted(LinkID, Remote)
        /// A certificate was renewed: the link ends at this time.
        case renewed(LinkID, endsAt: Duration)
        /// The application's decision, both ways.
        case answered(LinkID, allows: Bool)
        /// Everything of the link has ended.
        case ended(LinkID, SyncError)
        /// A time of `wakesAt` has come.
        case elapsed
    }

    enum Action: Sendable, Equatable {
        case dial(LinkID, MeshAddress)
        /// Ask the application, if it wants to be asked.
        case ask(LinkID)
        /// The link may sync.
        case open(LinkID)
        /// Tell the other side why, and end the link.
        case close(LinkID, SyncError)
        /// A sentence for the log.
        case warn(String)
    }

    struct Link: Sendable, Equatable {
        enum Phase: Sendable, Equatable {
            case opening(deadline: Duration)
            /// Until all older links of the peer have ended; at `deadline` they are closed.
            case waiting(deadline: Duration)
            case asking(deadline: Duration)
            case open(since: Duration)
            case closing
        }
        let id: LinkID
        let origin: Origin
        var phase: Phase
        var remote: Remote?
        /// The key that the other side has proven by TLS: known before its greeting.
        var provenKey: String?

        /// The key of the other side, as far as it is known.
        var peerKey: String? { remote?.peerKey ?? provenKey }
    }

    /// An address that is dialed.
    struct Dial: Sendable, Equatable {
        var nextAt: Duration
        var link: LinkID?
        /// Failures in a row, and denials in a row.
        var failures = 0
        var denials = 0
        /// The failures in this row that an early pause followed.
        var early = 0
        /// True once a peer has answered here.
        var hasAnswered = false
        /// The peer that another link leads to as well: then this address rests while that link is there.
        var coveredBy: String?
        /// The peer that the last link led to, while it rests because of another link of that peer.
        var doubleOf: String?
        var lastError: SyncError?
    }

    let own: Remote
    private(set) var settings = Settings()
    private(set) var links: [LinkID: Link] = [:]
    private(set) var dials: [MeshAddress: Dial] = [:]
    private(set) var lastLink: LinkID = 0
    /// The first failure since the last success; nil while there was none.
    private var failingSince: Duration?
    private var hasSucceeded = false
    /// The failure of dialing was due: `failingSince` wakes nobody any more.
    private var hasTold = false
    /// The keys of which the log knows that they run twice, at most `Limits.knownPeers`.
    private var toldCopies: Set<String> = []

    /// A table without links. `own` is this peer.
    init(own: Remote) { self.own = own }

    // MARK: Events

    /// - Parameters:
    ///   - now: never less than before.
    ///   - random: 64 random bits, by which pauses differ.
    mutating func receive(_ event: Event, at now: Duration, random: UInt64) -> [Action] {
        var actions: [Action] = []
        switch event {
        case .set(let settings): apply(settings, now, &actions)
        case .accepted(let id, let listener): accept(id, listener, now, &actions)
        case .proven(let id, let key): links[id]?.provenKey = key
        case .greeted(let id, let remote): greeted(id, remote, now, &actions)
        case .renewed(let id, let end): links[id]?.remote?.endsAt = end
        case .answered(let id, let allows): answered(id, allows, now, &actions)
        case .ended(let id, let reason): ended(id, reason, now, random, &actions)
        case .elapsed: break
        }
        elapse(now, &actions)
        return actions
    }

    /// The number of the next link: for one that was accepted.
    mutating func nextLink() -> LinkID {
        lastLink += 1
        return lastLink
    }

    private mutating func apply(_ new: Settings, _ now: Duration, _ actions: inout [Action]) {
        let isOtherGroup = new.syncGroup != settings.syncGroup
        settings = new
        for address in new.addresses where dials[address] == nil { dials[address] = Dial(nextAt: now) }
        dials = dials.filter { new.addresses.contains($0.key) }
        for link in sorted {
            let isAllowed =
                switch link.origin {
                case .dialed(let address): new.addresses.contains(address)
                case .accepted(let listener): new.listeners.contains(listener)
                }
            if isAllowed, !isOtherGroup { continue }
            close(link.id, SyncError(.goingAway, "this link is not configured any more"), &actions)
        }
        for address in dials.keys where isOtherGroup {
            dials[address]?.failures = 0
            dials[address]?.early = 0
            if dials[address]?.link == nil { dials[address]?.nextAt = now }
        }
    }

    private mutating func accept(
        _ id: LinkID, _ listener: Int, _ now: Duration, _ actions: inout [Action]
    ) {
        let opening = sorted.filter { link in
            guard case .opening = link.phase, case .accepted = link.origin else { return false }
            return true
        }
        links[id] = Link(
            id: id, origin: .accepted(listener: listener),
            phase: .opening(deadline: now + Limits.greetingTime))
        guard settings.listeners.contains(listener) else {
            return close(id, SyncError(.goingAway, "the dialed peer does not listen any more"), &actions)
        }
        // Drop the oldest: real peers greet at once; others would block the slots.
        if opening.count >= Limits.openingLinks, let oldest = opening.first {
            close(oldest.id, SyncError(.unavailable, "too many connections have not greeted"), &actions)
        }
    }

    private mutating func greeted(
        _ id: LinkID, _ remote: Remote, _ now: Duration, _ actions: inout [Action]
    ) {
        guard let link = links[id], case .opening = link.phase else { return }
        links[id]?.remote = remote
        for address in dials.keys where dials[address]?.doubleOf == remote.peerKey {
            dials[address]?.doubleOf = nil
            if dials[address]?.link == nil { dials[address]?.coveredBy = remote.peerKey }
        }
        guard remote.peerKey != own.peerKey else { return closeToSelf(id, remote, &actions) }
        let others = sorted.filter { $0.id != id && $0.remote?.peerKey == remote.peerKey }
        var isStaying = true
        for other in others where other.phase != .closing && isStaying {
            guard let known = other.remote else { continue }
            if known.boot == remote.boot {
                isStaying = decide(link, other, now, &actions)
            } else if remote.boot.count > known.boot.count {
                close(other.id, SyncError(.doubleLink, "the peer was started again"), &actions)
            } else {
                isStaying = false
                closeCopy(id, remote, &actions)
            }
        }
        let incoming = links.values.filter { $0.isOpen && $0.isAccepted }.count
        if isStaying, link.isAccepted, incoming >= Limits.incomingLinks, others.isEmpty {
            isStaying = false
            let reason = SyncError(.unavailable, "the dialed peer takes no more than \(incoming) links")
            close(id, reason, &actions)
        }
        guard isStaying else { return }
        proceed(id, now, &actions)
    }

    /// Chooses one of two links of the same start of a peer. The peer with the smaller key decides, so that
    /// both sides keep the same one; the other side waits a little, and decides only if it is not told.
    /// - Returns: false if the newer link is closed.
    private mutating func decide(
        _ newer: Link, _ older: Link, _ now: Duration, _ actions: inout [Action]
    ) -> Bool {
        guard let key = newer.remote?.peerKey ?? older.remote?.peerKey, own.peerKey < key else {
            return true
        }
        // The one that this side dialed stays; of two by one side the newer.
        let newerStays = newer.isAccepted == older.isAccepted || !newer.isAccepted
        let reason = SyncError(.doubleLink, "another link of the same two peers stays")
        close(newerStays ? older.id : newer.id, reason, &actions)
        return newerStays
    }

    /// Nobody has chosen: the newer link stays, since the other side may not know of the older any more.
    private mutating func replaceOlder(_ link: Link, _ now: Duration, _ actions: inout [Action]) {
        links[link.id]?.phase = .waiting(deadline: now + Limits.doubleLinkPatience)
        for older in sorted where older.id < link.id && older.remote?.peerKey == link.remote?.peerKey {
            close(older.id, SyncError(.doubleLink, "a newer link of the peer stays"), &actions)
        }
    }

    private mutating func closeToSelf(_ id: LinkID, _ remote: Remote, _ actions: inout [Action]) {
        guard remote.boot == own.boot else { return closeCopy(id, remote, &actions) }
        close(id, SyncError(.doubleLink, "this address leads to the peer itself"), &actions)
    }

    private mutating func closeCopy(_ id: LinkID, _ remote: Remote, _ actions: inout [Action]) {
        close(
            id,
            SyncError(.sameStore, "two running stores have one peer key: one is a copy of the other"),
            &actions)
        tellCopy(remote.peerKey, &actions)
    }

    /// Tells the log of a key that runs twice: once, because both copies go on dialing.
    private mutating func tellCopy(_ key: String, _ actions: inout [Action]) {
        guard toldCopies.count < Limits.knownPeers, toldCopies.insert(key).inserted else { return }
        let code = SyncErrorCode.sameStore.rawValue
        let text =
            key == own.peerKey
            ? "another running store has this one's key: one is a copy, give it a directory of its own"
            : "a peer runs twice with the key \(key): its store was copied; no link with it"
        actions.append(.warn("\(code): \(text)"))
    }

    /// Goes on with a greeted link, once no older link of its peer is left.
    private mutating func proceed(_ id: LinkID, _ now: Duration, _ actions: inout [Action]) {
        guard let key = links[id]?.remote?.peerKey else { return }
        let isAlone = !links.values.contains { $0.id < id && $0.remote?.peerKey == key }
        guard isAlone else {
            if case .waiting? = links[id]?.phase { return }
            links[id]?.phase = .waiting(deadline: now + Limits.doubleLinkPatience)
            return
        }
        links[id]?.phase = .asking(deadline: now + Limits.requestTime)
        actions.append(.ask(id))
    }

    private mutating func answered(
        _ id: LinkID, _ allows: Bool, _ now: Duration, _ actions: inout [Action]
    ) {
        guard let link = links[id], case .asking = link.phase else { return }
        guard allows else {
            return close(id, SyncError(.linkDenied, "the application denies this connection"), &actions)
        }
        links[id]?.phase = .open(since: now)
        hasSucceeded = true
        failingSince = nil
        if case .dialed(let address) = link.origin { dials[address]?.lastError = nil }
        actions.append(.open(id))
    }

    private mutating func close(_ id: LinkID, _ reason: SyncError, _ actions: inout [Action]) {
        guard let link = links[id], link.phase != .closing else { return }
        links[id]?.phase = .closing
        if case .dialed(let address) = link.origin { dials[address]?.lastError = reason }
        actions.append(.close(id, reason))
    }

    // MARK: Ends and pauses

    private mutating func ended(
        _ id: LinkID, _ reason: SyncError, _ now: Duration, _ random: UInt64, _ actions: inout [Action]
    ) {
        guard let link = links.removeValue(forKey: id) else { return }
        if case .dialed(let address) = link.origin, dials[address]?.link == id {
            rest(address, link, reason, now, random)
        }
        // The other side has closed it, for this store's sake.
        if link.phase != .closing, reason.code == SyncErrorCode.sameStore.rawValue {
            tellCopy(own.peerKey, &actions)
        }
        guard let key = link.peerKey else { return }
        let isGone = !links.values.contains { $0.peerKey == key }
        let next = now + jittered(Limits.firstReconnectPause, random)
        for address in dials.keys where isGone && dials[address]?.coveredBy == key {
            dials[address]?.coveredBy = nil
            dials[address]?.nextAt = next
        }
        for waiting in sorted where waiting.remote?.peerKey == key {
            if case .waiting = waiting.phase { proceed(waiting.id, now, &actions) }
        }
    }

    /// Sets an address's next dial after its link has ended.
    private mutating func rest(
        _ address: MeshAddress, _ link: Link, _ reason: SyncError, _ now: Duration, _ random: UInt64
    ) {
        guard var dial = dials[address] else { return }
        defer { dials[address] = dial }
        dial.link = nil
        if link.peerKey != nil { dial.hasAnswered = true }
        // A reason of our own counts: the other side only says that the link is gone.
        let reason = link.phase == .closing ? dial.lastError ?? reason : reason
        dial.lastError = reason
        let code = SyncErrorCode(rawValue: reason.code)
        let key = link.peerKey
        // A link with itself has two ends here, and neither stays.
        let isCovered =
            key != nil && key != own.peerKey
            && links.values.contains { $0.phase != .closing && $0.peerKey == key }
        if code == .doubleLink, isCovered {
            dial.coveredBy = key
            return
        }
        if code == .doubleLink {
            // In the clear the other link's peer is known with its greeting only: then this address rests.
            dial.doubleOf = key
            dial.nextAt = now + jittered(Limits.longestDialPause, random)
            return
        }
        if code == .linkDenied {
            dial.denials += 1
            let pause = doubled(Limits.firstDialPause, dial.denials, Limits.longestDenialPause)
            dial.nextAt = now + jittered(pause, random)
            return
        }
        dial.denials = 0
        if case .open(let since) = link.phase, now - since >= Limits.shortestSession, reason.isPassing {
            (dial.failures, dial.early) = (0, 0)
            dial.nextAt = now + jittered(Limits.firstReconnectPause, random)
            return
        }
        dial.failures += 1
        failingSince = failingSince ?? now
        if code == .unavailable, !dial.hasAnswered, dial.early < Limits.earlyDialPauses.count {
            let pause = min(Limits.earlyDialPauses[dial.early], settings.retryInterval)
            dial.early += 1
            dial.nextAt = now + jittered(pause, random)
            return
        }
        let pause = doubled(settings.retryInterval, dial.failures - dial.early, Limits.longestDialPause)
        dial.nextAt = now + jittered(pause, random)
    }

    private func doubled(_ first: Duration, _ times: Int, _ most: Duration) -> Duration {
        min(first * (1 << min(max(times - 1, 0), 16)), max(most, first))
    }

    /// Between four fifths of a pause and the whole.
    private func jittered(_ pause: Duration, _ random: UInt64) -> Duration {
        pause * (0.8 + 0.2 * Double(random >> 11) / Double(1 << 53))
    }

    private mutating func elapse(_ now: Duration, _ actions: inout [Action]) {
        hasTold = failingSince.map { now - $0 >= settings.failureWindow } ?? false
        for link in sorted {
            switch link.phase {
            case .opening(let deadline) where deadline <= now:
                close(link.id, SyncError(.unavailable, "no greeting came in time"), &actions)
            case .asking(let deadline) where deadline <= now:
                close(
                    link.id, SyncError(.linkDenied, "the application did not answer in time"), &actions)
            case .waiting(let deadline) where deadline <= now:
                replaceOlder(link, now, &actions)
            case .open:
                guard let end = link.remote?.endsAt, end <= now else { continue }
                close(link.id, SyncError(.expired, "a certificate of this link has ended"), &actions)
            default: break
            }
        }
        for address in dials.keys.sorted() {
            guard let dial = dials[address], dial.isIdle, dial.nextAt <= now else { continue }
            let id = nextLink()
            // Connecting and greeting have their time each.
            let deadline = now + Limits.connectTime + Limits.greetingTime
            links[id] = Link(id: id, origin: .dialed(address), phase: .opening(deadline: deadline))
            dials[address]?.link = id
            dials[address]?.doubleOf = nil
            actions.append(.dial(id, address))
        }
    }
}

extension LinkTable {
    private var sorted: [Link] { links.values.sorted { $0.id < $1.id } }

    /// The earliest time at which something is to be done without another event; nil for none.
    var wakesAt: Duration? {
        var times: [Duration] = dials.values.filter(\.isIdle).map(\.nextAt)
        if let failingSince, !hasTold { times.append(failingSince + settings.failureWindow) }
        for link in links.values {
            switch link.phase {
            case .opening(let deadline), .waiting(let deadline), .asking(let deadline): times.append(deadline)
            case .open: if let end = link.remote?.endsAt { times.append(end) }
            case .closing: break
            }
        }
        return times.min()
    }

    /// The condition of dialing, without listening: true with a link, or after one; false once everything
    /// has failed for `failureWindow`; nil before either.
    func isReaching(at now: Duration) -> Bool? {
        if links.values.contains(where: \.isOpen) { return true }
        if let failingSince, now - failingSince >= settings.failureWindow { return false }
        return hasSucceeded ? true : nil
    }
}

extension LinkTable.Dial {
    fileprivate var isIdle: Bool { link == nil && coveredBy == nil }
}

extension LinkTable.Link {
    var isOpen: Bool { if case .open = phase { true } else { false } }
    var isAccepted: Bool { if case .accepted = origin { true } else { false } }
}

extension SyncError {
    /// True if the link ended for a reason that is over with the link: it was lost, or the other side left.
    fileprivate var isPassing: Bool { self == SessionPump.lost || remedy == .reconnect }
}
