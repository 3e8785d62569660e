import CRDT

/// Spreads the presence of peers over their links: each writes a signed record of its own, and passes on the
/// records of others. A state machine without clock, randomness and keys: a driver brings events and the
/// time, and performs actions.
///
/// Invariants: of each peer one record is held, the latest. A record that went is remembered for ten minutes,
/// and nothing that is not newer than it enters. A record's age only grows, wherever it goes, so it ends
/// everywhere. A record is passed on once. Nothing waits for a link but names: what is sent is written when
/// the link may send, so a slow link gets the latest record of each peer, and no queue grows.
///
/// Bounds: `Limits.presenceRecords` records and memories, `Limits.presenceChecks` signatures of each link.
/// All times are durations since one fixed moment; none of them is compared with another peer's.
public struct PresenceGossip: Sendable {
    /// Keys and certificates, which the driver has.
    public struct Trust: Sendable {
        /// Signs the content of an own record.
        public var sign: @Sendable (_ content: [UInt8]) -> [UInt8]
        /// Returns whether a peer's key has signed this content.
        public var isValid: @Sendable (_ record: SignedRecord, _ peerKey: String) -> Bool
        /// The short name of a peer.
        public var name: @Sendable (_ peerKey: String) -> UInt64
        /// The hash of a certificate.
        public var hash: @Sendable (_ certificate: [UInt8]) -> [UInt8]
        /// The metadata in a certificate of this peer; nil unless its authority has issued it.
        public var metadata: @Sendable (_ certificate: [UInt8], _ peerKey: String) -> String?

        /// Keys and certificates of these functions.
        public init(
            sign: @escaping @Sendable ([UInt8]) -> [UInt8],
            isValid: @escaping @Sendable (SignedRecord, String) -> Bool,
            name: @escaping @Sendable (String) -> UInt64, hash: @escaping @Sendable ([UInt8]) -> [UInt8],
            metadata: @escaping @Sendable ([UInt8], String) -> String?
        ) {
            self.sign = sign
            self.isValid = isValid
            self.name = name
            self.hash = hash
            self.metadata = metadata
        }
    }

    /// The pace of the gossip.
    public struct Settings: Sendable, Equatable {
        /// The time after which a record is written again, and digests are sent.
        public var keepAlive = Duration.seconds(30)
        /// The age at which a record ends.
        public var life = Duration.seconds(60)
        /// False to know and tell neighbours only.
        public var usesMultihop = true

        /// The defaults.
        public init() {}
    }

    /// The other end of a link.
    public struct Neighbour: Sendable, Equatable {
        /// Its key; empty for a server.
        public var peerKey: String
        /// The kind of the link; nil for a server's session.
        public var kind: PresenceRecord.Kind?

        /// A small peer.
        public init(peerKey: String, kind: PresenceRecord.Kind) {
            self.peerKey = peerKey
            self.kind = kind
        }

        private init() { peerKey = "" }

        /// A server: it takes records, and tells none.
        public static var server: Neighbour { Neighbour() }
    }

    /// The input.
    public enum Event: Sendable {
        /// Another pace.
        case settings(Settings)
        /// The own facts, and the own certificate; nil for none.
        case facts(PresenceRecord.Facts, certificate: [UInt8]?)
        /// The store was started: its count of starts and the random bytes of this one.
        case began(starts: UInt64, start: UInt64)
        /// A link is open, with the record of the other side's greeting.
        case linked(UInt64, Neighbour, SignedRecord?)
        /// It has ended.
        case unlinked(UInt64)
        /// News came over a link.
        case received(UInt64, PresenceNews)
        /// The link that was offered something may send now.
        case ready(UInt64)
        /// A time of `wakesAt` has come.
        case elapsed
        /// This peer leaves all its links.
        case leaving
    }

    /// The output.
    public enum Action: Sendable, Equatable {
        /// There is something to send over a link: answer with `ready` when documents leave room for it.
        case offer(UInt64)
        /// Send this now.
        case send(UInt64, PresenceNews)
        /// The graph may be another one.
        case changed
        /// A sentence for the log; told once for each link and cause.
        case warn(String)
    }

    struct Held: Sendable {
        var record: PresenceRecord
        var signed: SignedRecord
        /// The time at which its age was zero: before the fixed moment, for an old one.
        var bornAt: Duration
    }

    let trust: Trust
    let ownKey: String
    let ownName: UInt64
    private(set) var settings = Settings()
    private(set) var facts = PresenceRecord.Facts()
    private(set) var rank: PresenceRank
    private(set) var own: Held?
    var links: [UInt64: LinkNews] = [:]
    private(set) var records: [String: Held] = [:]
    /// Records that ended or left, with the time until which they are remembered.
    private(set) var remembered: [String: (held: Held, until: Duration)] = [:]
    /// Keys by short name, of `records` and `remembered`.
    private(set) var names: [UInt64: String] = [:]
    var certificates = CertificateShelf()
    private var publishesAt: Duration?
    private var publishedAt: Duration?
    private var mayJumpAt = Duration.zero
    private var hasWarnedOfCopy = false

    /// A peer without links. `start` are random bytes, until its store says how often it was started.
    public init(peerKey: String, start: UInt64, trust: Trust) {
        ownKey = peerKey
        ownName = trust.name(peerKey)
        rank = PresenceRank(starts: 0, start: start, version: 0)
        self.trust = trust
    }

    // MARK: Events

    /// Handles one event. `now` is never less than before.
    public mutating func receive(_ event: Event, at now: Duration) -> [Action] {
        var actions: [Action] = []
        switch event {
        case .settings(let new): settings = new
        case .facts(let new, let certificate): set(new, certificate, now, &actions)
        case .began(let starts, let start):
            if (starts, start) != (rank.starts, rank.start), starts >= rank.starts {
                rank = PresenceRank(starts: starts, start: start, version: rank.version)
                publishSoon(now)
            }
        case .linked(let id, let neighbour, let record): linked(id, neighbour, record, now, &actions)
        case .unlinked(let id):
            guard let link = links.removeValue(forKey: id) else { break }
            if !link.isServer { changedLinks(now, &actions) }
        case .received(let id, let news): received(id, news, now, &actions)
        case .ready(let id): ready(id, now, &actions)
        case .elapsed: break
        case .leaving: leave(now, &actions)
        }
        elapse(now, &actions)
        return actions
    }

    private mutating func set(
        _ new: PresenceRecord.Facts, _ certificate: [UInt8]?, _ now: Duration, _ actions: inout [Action]
    ) {
        var new = new
        new.certificateHash = certificate.map { trust.hash($0) }
        if let certificate, let hash = new.certificateHash {
            certificates.put(certificate, as: hash, metadata: trust.metadata(certificate, ownKey))
        }
        guard new != facts else { return }
        facts = new
        publishSoon(now)
        actions.append(.changed)
    }

    private mutating func publishSoon(_ now: Duration) {
        let next = max(now, publishedAt.map { $0 + Limits.presencePace } ?? now)
        publishesAt = min(publishesAt ?? next, next)
    }

    private mutating func linked(
        _ id: UInt64, _ neighbour: Neighbour, _ record: SignedRecord?, _ now: Duration,
        _ actions: inout [Action]
    ) {
        if publishedAt == nil { publish(now) }
        var link = LinkNews(neighbour, now)
        if neighbour.kind == nil {
            link.add(ownKey, dueAt: now)
            for (key, held) in records where !held.record.facts.isConnectedToServer {
                link.add(key, dueAt: now)
            }
        } else {
            // Each side tells all of what it has by digests, and itself at once.
            link.owesDigests = true
            link.add(ownKey, dueAt: now)
            link.digestsAt = now + settings.keepAlive
        }
        links[id] = link
        guard neighbour.kind != nil else { return }
        if let record { take(PresenceNews.Carried(record: record, ageMilliseconds: 0), id, now, &actions) }
        changedLinks(now, &actions)
    }

    private mutating func changedLinks(_ now: Duration, _ actions: inout [Action]) {
        publishSoon(now)
        actions.append(.changed)
    }

    // MARK: The own record

    var ownLinks: [PresenceRecord.Connection] {
        let all = Set(
            links.values.compactMap { link in
                link.neighbour.kind.map { PresenceRecord.Connection(peer: link.neighbour.peerKey, kind: $0) }
            })
        return Array(all.sorted().prefix(Limits.presenceLinks))
    }

    /// The record that a greeting carries, written now if it says something else than the last one.
    public mutating func greeting(at now: Duration) -> SignedRecord {
        if own == nil || publishesAt != nil { publish(now) }
        guard let own else { preconditionFailure("a record was written") }
        return own.signed
    }

    private mutating func publish(_ now: Duration, isLeaving: Bool = false) {
        rank.version += 1
        var record = PresenceRecord(
            peerKey: ownKey, rank: rank, facts: facts, protocolVersion: Limits.meshVersion,
            links: isLeaving ? [] : ownLinks)
        record.isLeaving = isLeaving
        let isNews = own.map { $0.record.facts != record.facts || $0.record.links != record.links } ?? true
        let content = record.encoded()
        own = Held(
            record: record, signed: SignedRecord(content: content, signature: trust.sign(content)),
            bornAt: now)
        publishedAt = now
        publishesAt = nil
        // A server knows by its session that this peer is there.
        for id in links.keys where isNews || links[id]?.isServer == false {
            links[id]?.add(ownKey, dueAt: now + Limits.presenceCollecting)
        }
    }

    private mutating func leave(_ now: Duration, _ actions: inout [Action]) {
        publish(now, isLeaving: true)
        guard let own else { return }
        var news = PresenceNews()
        news.records = [PresenceNews.Carried(record: own.signed, ageMilliseconds: 0)]
        for id in links.keys.sorted() where links[id]?.isServer == false {
            actions.append(.send(id, news))
            links[id] = nil
        }
        publishSoon(now)
        actions.append(.changed)
    }

    /// Somebody has a record of this peer that this start has not written: the store was put back to an
    /// earlier state, or copied. Later records have to count more.
    private mutating func heardOwn(
        _ record: PresenceRecord, _ signed: SignedRecord, _ now: Duration, _ actions: inout [Action]
    ) {
        guard record.rank.isNewer(than: rank), now >= mayJumpAt, trust.isValid(signed, ownKey) else { return }
        mayJumpAt = now + Limits.presenceJump
        let (starts, isTooGreat) = record.rank.starts.addingReportingOverflow(1)
        guard !isTooGreat else { return }
        rank = PresenceRank(starts: starts, start: rank.start, version: 0)
        publishSoon(now)
        guard !hasWarnedOfCopy else { return }
        hasWarnedOfCopy = true
        actions.append(
            .warn(
                "others know a later presence of this peer: its store was put back to an earlier state, or"
                    + " a copy of it runs"))
    }

    // MARK: News of others

    private mutating func received(
        _ id: UInt64, _ news: PresenceNews, _ now: Duration, _ actions: inout [Action]
    ) {
        guard let link = links[id], !link.isServer else { return }
        links[id]?.refill(now)
        for carried in news.records.prefix(Limits.presenceRecords) { take(carried, id, now, &actions) }
        if !news.digests.isEmpty { compare(news.digests.prefix(Limits.presenceRecords), id, now) }
        for name in news.wanted.prefix(Limits.presenceRecords) {
            if name == ownName {
                links[id]?.add(ownKey, dueAt: now)
            } else if let key = names[name], isTold(key) {
                links[id]?.add(key, dueAt: now)
            }
        }
        for hash in news.wantedCertificates.prefix(Limits.presenceRecords) where hash.count == 32 {
            links[id]?.owe(hash, isHere: certificates.has(hash), dueAt: now)
        }
        for certificate in news.certificates.prefix(Limits.presenceRecords) {
            guard links[id]?.spendCheck() ?? false else { break }
            let hash = trust.hash(certificate)
            let owner = records.values.first { $0.record.facts.certificateHash == hash }?.record.peerKey
            guard let owner, !certificates.has(hash) else { continue }
            certificates.put(certificate, as: hash, metadata: trust.metadata(certificate, owner))
            for other in links.keys { links[other]?.came(hash, dueAt: now) }
            actions.append(.changed)
        }
    }

    /// Takes a record, if it is one, is newer, and its author's.
    private mutating func take(
        _ carried: PresenceNews.Carried, _ id: UInt64, _ now: Duration, _ actions: inout [Action]
    ) {
        guard let neighbour = links[id]?.neighbour else { return }
        guard let record = PresenceRecord(decoding: carried.record.content) else {
            return complain(id, "a presence record that is damaged or too large was ignored", &actions)
        }
        if record.peerKey == ownKey { return heardOwn(record, carried.record, now, &actions) }
        let isNeighbour = record.peerKey == neighbour.peerKey
        guard settings.usesMultihop || isNeighbour else { return }
        if let known = known(record.peerKey), !record.rank.isNewer(than: known.rank) {
            if record.rank == known.rank {
                links[id]?.remove(record.peerKey)
            } else if isNeighbour {
                // Its author has to learn that others know a later one, and would not take this.
                links[id]?.giveBack(record.peerKey, dueAt: now)
            }
            return
        }
        let age = Duration.milliseconds(Int64(clamping: carried.ageMilliseconds))
        guard age < settings.life else { return }
        guard links[id]?.spendCheck() ?? false else {
            return complain(id, "more presence records came than can be checked", &actions)
        }
        guard trust.isValid(carried.record, record.peerKey) else {
            return complain(id, "a presence record that its peer has not signed was ignored", &actions)
        }
        let held = Held(record: record, signed: carried.record, bornAt: now - age)
        if record.isLeaving {
            forget(held, now)
        } else {
            guard makeRoom(for: record.peerKey, isNeighbour: isNeighbour) else {
                return complain(id, "more peers than a graph can have are there", &actions)
            }
            remembered[record.peerKey] = nil
            records[record.peerKey] = held
        }
        names[trust.name(record.peerKey)] = record.peerKey
        actions.append(.changed)
        askForCertificate(of: record, id, now)
        guard settings.usesMultihop else { return }
        for (other, link) in links where other != id {
            if link.isServer ? record.facts.isConnectedToServer : isTold(record, to: link) { continue }
            links[other]?.add(record.peerKey, dueAt: now + Limits.presenceCollecting)
        }
        links[id]?.remove(record.peerKey)
    }

    /// Returns whether the author itself tells the other side: both say that they are linked. Digests bring
    /// what does not come that way after all.
    private func isTold(_ record: PresenceRecord, to link: LinkNews) -> Bool {
        let peer = link.neighbour.peerKey
        return record.links.contains { $0.peer == peer }
            && records[peer]?.record.links.contains { $0.peer == record.peerKey } ?? false
    }

    private mutating func complain(_ id: UInt64, _ reason: String, _ actions: inout [Action]) {
        guard links[id]?.complain(reason) ?? false else { return }
        actions.append(.warn("\(reason); it came from \(links[id]?.neighbour.peerKey ?? "")"))
    }

    private func known(_ key: String) -> PresenceRecord? {
        records[key]?.record ?? remembered[key]?.held.record
    }

    /// Returns whether a record of the peer is passed on: one that ended is not, one that left is.
    private func isTold(_ key: String) -> Bool {
        records[key] != nil || remembered[key]?.held.record.isLeaving ?? false
    }

    /// Another peer needs a place: one that nothing leads to goes for it. False if there is none.
    private mutating func makeRoom(for key: String, isNeighbour: Bool) -> Bool {
        guard records[key] == nil, records.count >= Limits.presenceRecords else { return true }
        let reached = Set(graph.peers.map(\.peerKey))
        let idle = records.filter { !reached.contains($0.key) }.min { $0.value.bornAt < $1.value.bornAt }
        guard let gone = idle ?? (isNeighbour ? records.min { $0.value.bornAt < $1.value.bornAt } : nil)
        else { return false }
        records[gone.key] = nil
        if remembered[gone.key] == nil { names[trust.name(gone.key)] = nil }
        return true
    }

    private mutating func askForCertificate(of record: PresenceRecord, _ id: UInt64, _ now: Duration) {
        guard let hash = record.facts.certificateHash, certificates.mayAsk(for: hash, at: now) else { return }
        links[id]?.want(certificate: hash, dueAt: now)
    }

    private mutating func compare(
        _ digests: ArraySlice<PresenceNews.Digest>, _ id: UInt64, _ now: Duration
    ) {
        var told: Set<String> = []
        for digest in digests {
            if digest.peer == ownName {
                told.insert(ownKey)
                if digest.rank.isNewer(than: rank) { links[id]?.want(digest.peer, dueAt: now) }
                if let own, own.record.rank.isNewer(than: digest.rank) { links[id]?.add(ownKey, dueAt: now) }
                continue
            }
            guard settings.usesMultihop else { continue }
            guard let key = names[digest.peer], let known = known(key) else {
                links[id]?.want(digest.peer, dueAt: now)
                continue
            }
            told.insert(key)
            if digest.rank.isNewer(than: known.rank) {
                links[id]?.want(digest.peer, dueAt: now)
            } else if known.rank.isNewer(than: digest.rank), isTold(key) {
                links[id]?.add(key, dueAt: now)
            }
        }
        guard settings.usesMultihop else { return }
        for key in records.keys where !told.contains(key) { links[id]?.add(key, dueAt: now) }
    }

    // MARK: Time

    private mutating func elapse(_ now: Duration, _ actions: inout [Action]) {
        for (key, held) in records where now - held.bornAt >= settings.life {
            records[key] = nil
            forget(held, now)
            actions.append(.changed)
        }
        for (key, memory) in remembered where memory.until <= now {
            remembered[key] = nil
            if records[key] == nil { names[trust.name(key)] = nil }
        }
        let isDue = publishesAt.map { $0 <= now } ?? false
        let isStale = publishedAt.map { now - $0 >= settings.keepAlive } ?? false
        if isDue || isStale, !links.isEmpty { publish(now) }
        for id in links.keys.sorted() {
            if let time = links[id]?.digestsAt, time <= now {
                links[id]?.owesDigests = true
                links[id]?.hasNews(dueAt: now)
                links[id]?.digestsAt = now + settings.keepAlive
            }
            if links[id]?.makeOffer(now) ?? false { actions.append(.offer(id)) }
        }
    }

    private mutating func forget(_ held: Held, _ now: Duration) {
        let key = held.record.peerKey
        records[key] = nil
        certificates.forgive(held.record.facts.certificateHash)
        if remembered.count >= Limits.presenceRecords, remembered[key] == nil,
            let oldest = remembered.min(by: { $0.value.until < $1.value.until })?.key
        {
            remembered[oldest] = nil
            if records[oldest] == nil { names[trust.name(oldest)] = nil }
        }
        remembered[key] = (held, now + Limits.presenceMemory)
    }

    /// The earliest time at which something is to be done without another event; nil for none.
    public var wakesAt: Duration? {
        var times: [Duration] = records.values.map { $0.bornAt + settings.life }
        times += links.values.flatMap { [$0.digestsAt, $0.offersAt].compactMap { $0 } }
        if !links.isEmpty, let publishesAt { times.append(publishesAt) }
        if !links.isEmpty, let publishedAt { times.append(publishedAt + settings.keepAlive) }
        return times.min()
    }
}

extension Duration {
    var wholeMilliseconds: UInt64 {
        UInt64(clamping: components.seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000)
    }
}
