/// Decides which peers of a network are dialed, from hints of where they are. A state machine without
/// sockets, clocks and randomness; `Discovery` brings the hints and performs the actions.
///
/// A *spot* is an address that something has named: a beacon, or the application.
/// Nothing of a hint is believed: it only says where to dial. So pauses and blocks are kept for an address,
/// and never for the peer that a hint claims to be there, whom a forger could otherwise keep out. A *target*
/// is a spot that was chosen: it is dialed, or linked.
///
/// Invariants: no more targets than `outgoing`, and one for each peer. A target that is being dialed stays,
/// whoever connects from the other side (M32 of the contract: two links of one pair). `Limits.spots` bounds
/// the memory, `Limits.newSpots` the work. Durations are times since one fixed moment.
struct LinkChooser: Sendable {
    /// The wishes of the application.
    struct Settings: Sendable, Equatable {
        /// Hints with another tag are of no concern.
        var tag: UInt64 = 0
        /// The kinds of hints that count.
        var hears: Set<Way> = []
        /// Addresses that the application knows of; they are dialed like those of a hint.
        var candidates: Set<MeshAddress> = []
        /// Links that this side dials.
        var outgoing = Limits.chosenLinks
        /// The time that a beacon counts.
        var beaconLife = Limits.beaconInterval * Limits.beaconLives
        /// The time between two looks for a better choice.
        var churnInterval = Limits.churnInterval
        /// A link younger than this stays.
        var leastAge = Limits.churnAge
        /// The pause after the first failure.
        var cooldown = Limits.firstDialPause
        /// The pause after failures that another try does not mend.
        var blockTime = Limits.blockTime
    }

    /// The kinds of hints that networks bring.
    enum Way: Sendable { case beacon, service }

    /// The claim of a beacon or of a service.
    struct Hint: Sendable, Equatable {
        var tag: UInt64
        var peer: PeerMark
        var boot: UInt64
        /// Links that the peer still takes; nil if the hint does not say it.
        var free: Int?
        var way = Way.beacon
    }

    /// The present links, as the table of links has them.
    struct Links: Sendable, Equatable {
        /// An address that is dialed.
        struct Dial: Sendable, Equatable {
            /// The peer that its link has proven to lead to.
            var peer: PeerMark?
            var state = State.trying
            /// The reason why its last link ended; nil if it is of no concern.
            var reason: String?
        }
        enum State: Sendable, Equatable {
            /// Nothing is known yet, or it is about to be dialed again after a short break.
            case trying
            case open
            /// `isFinal`: another try will fail in the same way.
            case failed(isFinal: Bool)
            case denied
            /// Another link of the same peer stays.
            case double
        }
        /// All peers at open links, whoever dialed.
        var linked: Set<PeerMark> = []
        var dials: [MeshAddress: Dial] = [:]
    }

    enum Event: Sendable {
        case set(Settings)
        case heard(Hint, MeshAddress)
        case links(Links)
        /// The links between peers, as far as they are known.
        case graph([PeerMark: Set<PeerMark>])
        /// A time of `wakesAt` has come.
        case elapsed
    }

    enum Action: Sendable, Equatable {
        /// From now on exactly these addresses are to be dialed and kept.
        case choose(Set<MeshAddress>)
        /// A sentence for the log.
        case warn(String)
    }

    struct Spot: Sendable, Equatable {
        /// The claimed peer; nil for an address that the application named.
        var peer: PeerMark?
        var boot: UInt64 = 0
        var free = 1
        var heardUntil: Duration?
        /// The kinds of hints that have named it.
        var ways: Set<Way> = []
        var isCandidate = false
        var failures = 0
        var finalFailures = 0
        var denials = 0
        var restsUntil = Duration.zero
        /// The reason of the last failure or denial since a link was open.
        var reason: String?

        /// True if the settings allow the hint that named it.
        var isAllowed: Bool { isCandidate || heardUntil != nil }

        func isNamed(at now: Duration) -> Bool {
            isCandidate || (heardUntil.map { now < $0 } ?? false)
        }
    }

    struct Target: Sendable, Equatable {
        var peer: PeerMark?
        var openSince: Duration?
        /// Ascending in the order of choices.
        let number: UInt64
    }

    let own: PeerMark
    /// The random bytes of this start of the peer.
    private let boot: UInt64
    private(set) var settings = Settings()
    var spots: [MeshAddress: Spot] = [:]
    var targets: [MeshAddress: Target] = [:]
    var links = Links()
    var graph: [PeerMark: Set<PeerMark>] = [:]
    var dice = SeededRandom(state: 0)
    /// True once a hint of another peer came.
    private(set) var hasHeard = false
    private(set) var newSpots = Allowance(most: Limits.newSpots)
    private var changedSpots = Allowance(most: Limits.changedSpots)
    /// Hints that were looked at beyond a comparison, since the start.
    private(set) var considered: UInt64 = 0
    var newTargets = Allowance(most: Limits.newTargets)
    private var hasWarned = false
    private var churnsAt: Duration?
    private var chosen: Set<MeshAddress> = []
    var choices: UInt64 = 0

    /// A chooser that knows nobody. `own` is this peer, `boot` the random bytes of its start.
    init(own: PeerMark, boot: UInt64) {
        self.own = own
        self.boot = boot
    }

    // MARK: Events

    /// - Parameters:
    ///   - now: never less than before.
    ///   - random: 64 random bits.
    mutating func receive(_ event: Event, at now: Duration, random: UInt64) -> [Action] {
        if case .heard(let hint, let address) = event {
            if isNothingNew(hint, address, now) { return [] }
            considered += 1
        }
        dice.state ^= random
        var actions: [Action] = []
        switch event {
        case .set(let settings): apply(settings, now)
        case .heard(let hint, let address):
            guard place(hint, address, now, &actions) else { break }
            spots[address]?.heardUntil = now + settings.beaconLife
            spots[address]?.ways.insert(hint.way)
        case .links(let links): take(links, now)
        case .graph(let graph): self.graph = graph
        case .elapsed: break
        }
        expire(now)
        churnIfDue(now)
        fill(now)
        let wanted = Set(targets.keys)
        if wanted != chosen {
            chosen = wanted
            actions.append(.choose(wanted))
        }
        return actions
    }

    private mutating func apply(_ new: Settings, _ now: Duration) {
        let isOtherTag = new.tag != settings.tag
        settings = new
        churnsAt = min(churnsAt ?? now + new.churnInterval, now + new.churnInterval)
        for address in new.candidates where spots[address] == nil { spots[address] = Spot() }
        for address in spots.keys {
            spots[address]?.isCandidate = new.candidates.contains(address)
            spots[address]?.ways.formIntersection(isOtherTag ? [] : new.hears)
            if spots[address]?.ways.isEmpty ?? false { spots[address]?.heardUntil = nil }
        }
        spots = spots.filter { $0.value.isAllowed }
        targets = targets.filter { spots[$0.key] != nil }
        for extra in targets.sorted(by: { $0.value.number < $1.value.number }).dropFirst(new.outgoing) {
            targets[extra.key] = nil
        }
        if new.hears.isEmpty { hasHeard = false }
    }

    /// Returns whether a hint changes nothing, or is one too many: by far the most frequent event, of which a
    /// flood has thousands a second. It costs a look into a table. A known address counts for longer.
    mutating func isNothingNew(_ hint: Hint, _ address: MeshAddress, _ now: Duration) -> Bool {
        guard settings.hears.contains(hint.way), hint.tag == settings.tag, !isOwn(hint.peer, hint.boot) else {
            return true
        }
        guard let spot = spots[address], spot.peer == hint.peer else {
            // The first one too many is told to the log.
            return hasWarned && !newSpots.hasAny(at: now)
        }
        let isKnown =
            spot.heardUntil != nil && spot.boot == hint.boot && spot.free == hint.free ?? spot.free
            && spot.ways.contains(hint.way)
        guard isKnown || !changedSpots.take(at: now) else { return false }
        spots[address]?.heardUntil = now + settings.beaconLife
        return true
    }

    /// Returns whether a hint is this peer's own. The mark alone does not say so: a copy of the store has it
    /// too, and a dial finds out and tells both.
    func isOwn(_ peer: PeerMark, _ boot: UInt64) -> Bool { peer == own && boot == self.boot }

    /// Notes a hint.
    /// - Returns: false if it is one too many.
    private mutating func place(
        _ hint: Hint, _ address: MeshAddress, _ now: Duration, _ actions: inout [Action]
    ) -> Bool {
        hasHeard = true
        if let known = spots[address], known.peer == hint.peer {
            if known.boot != hint.boot {
                // It was started again: its last failures say nothing of this start.
                spots[address]?.restsUntil = min(known.restsUntil, now + Limits.firstReconnectPause)
            }
            spots[address]?.boot = hint.boot
            spots[address]?.free = hint.free ?? known.free
            return true
        }
        guard newSpots.take(at: now) else {
            if !hasWarned {
                actions.append(
                    .warn("more than \(Limits.newSpots) unknown peers a second are named: most are ignored"))
            }
            hasWarned = true
            return false
        }
        guard targets[address] == nil else { return false }
        var spot = spots[address] ?? Spot()
        spot.peer = hint.peer
        spot.boot = hint.boot
        spot.free = hint.free ?? 1
        guard makeRoom(for: hint.peer, unless: spots[address] != nil, now) else { return false }
        spots[address] = spot
        return true
    }

    /// Removes a spot if there are too many, of all or of one peer: one that has failed, else any.
    private mutating func makeRoom(for peer: PeerMark, unless isThere: Bool, _ now: Duration) -> Bool {
        if isThere { return true }
        let same = spots.filter { $0.value.peer == peer }
        let crowd =
            same.count >= Limits.spotsOfPeer ? same : spots.count >= Limits.spots ? spots : [:]
        guard !crowd.isEmpty else { return true }
        let free = crowd.filter { targets[$0.key] == nil && !$0.value.isCandidate }
        let failed = free.filter { $0.value.failures > 0 }
        let going = (failed.isEmpty ? free : failed).keys.sorted()
        guard !going.isEmpty else { return false }
        spots[going[dice.below(going.count)]] = nil
        return true
    }

    private mutating func drop(_ address: MeshAddress) {
        spots[address] = nil
        targets[address] = nil
    }

    private mutating func take(_ links: Links, _ now: Duration) {
        self.links = links
        for address in targets.keys.sorted() {
            guard let dial = links.dials[address], let spot = spots[address] else { continue }
            if dial.state != .open { targets[address]?.openSince = nil }
            switch dial.state {
            case .trying: break
            case .open:
                guard let peer = dial.peer, spot.peer == nil || spot.peer == peer else {
                    rest(address, .failed(isFinal: true), nil, now)
                    continue
                }
                if targets[address]?.openSince == nil { targets[address]?.openSince = now }
                targets[address]?.peer = peer
                spots[address]?.peer = peer
                spots[address]?.reason = nil
                spots[address]?.failures = 0
                spots[address]?.finalFailures = 0
                spots[address]?.denials = 0
            case .failed, .denied, .double: rest(address, dial.state, dial.reason, now)
            }
        }
    }

    /// A target gives its place to others, for a while.
    private mutating func rest(
        _ address: MeshAddress, _ state: Links.State, _ reason: String?, _ now: Duration
    ) {
        targets[address] = nil
        guard var spot = spots[address] else { return }
        spot.reason = state == .double ? nil : reason
        var pause = settings.cooldown
        if case .failed(let isFinal) = state {
            spot.failures += 1
            spot.finalFailures = isFinal ? spot.finalFailures + 1 : 0
            pause = doubled(pause, spot.failures, Limits.longestDialPause)
            if spot.finalFailures >= Limits.finalFailures {
                spot.finalFailures = 0
                pause = settings.blockTime
            }
        } else if state == .denied {
            spot.denials += 1
            pause = doubled(pause, spot.denials, Limits.longestDenialPause)
        }
        spot.restsUntil = now + dice.jittered(pause)
        spots[address] = spot
    }

    private func doubled(_ first: Duration, _ times: Int, _ most: Duration) -> Duration {
        min(first * (1 << min(max(times - 1, 0), 16)), max(most, first))
    }

    private mutating func expire(_ now: Duration) {
        for (address, spot) in spots where !spot.isNamed(at: now) && targets[address]?.openSince == nil {
            drop(address)
        }
    }

    private mutating func churnIfDue(_ now: Duration) {
        guard let due = churnsAt, due <= now else { return }
        churnsAt = now + settings.churnInterval
        churn(now)
    }

    /// The earliest time at which something is to be done without another event; nil for none.
    func wakesAt(after now: Duration) -> Duration? {
        guard !settings.hears.isEmpty || !settings.candidates.isEmpty else { return nil }
        let hasRoom = targets.count < settings.outgoing
        var times: [Duration] = []
        for (address, spot) in spots where targets[address]?.openSince == nil {
            if let until = spot.heardUntil, !spot.isCandidate { times.append(until) }
            if hasRoom, targets[address] == nil, spot.restsUntil > now { times.append(spot.restsUntil) }
        }
        if hasRoom, !newTargets.hasAny(at: now) { times.append(now + .seconds(1)) }
        if !hasRoom, let churnsAt { times.append(churnsAt) }
        return times.min()
    }
}
