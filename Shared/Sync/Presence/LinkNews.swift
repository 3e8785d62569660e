/// The news that one link of a gossip is owed. It has names only: records are read when they are sent.
struct LinkNews: Sendable {
    let neighbour: PresenceGossip.Neighbour
    /// Keys of peers whose records the other side may lack, and those that are given back to their author.
    private var lacking: Set<String> = []
    private var returned: Set<String> = []
    private var wanted: Set<UInt64> = []
    private var wantedCertificates: Set<[UInt8]> = []
    /// Certificates that the other side wants: those that are not here yet are sent when they come.
    private var owedCertificates: Set<[UInt8]> = []
    private var hasMoreCertificates = false
    var owesDigests = false
    /// The next time for digests; nil for a server.
    var digestsAt: Duration?
    /// The time at which the news are offered; nil while there are none, or they are offered already.
    private(set) var offersAt: Duration?
    private var isOffered = false
    private var checks = Limits.presenceChecks.burst
    private var refilledAt: Duration
    private var complaints: Set<String> = []

    init(_ neighbour: PresenceGossip.Neighbour, _ now: Duration) {
        self.neighbour = neighbour
        refilledAt = now
    }

    var isServer: Bool { neighbour.kind == nil }

    mutating func hasNews(dueAt time: Duration) {
        if !isOffered { offersAt = min(offersAt ?? time, time) }
    }

    mutating func add(_ key: String, dueAt time: Duration) {
        lacking.insert(key)
        hasNews(dueAt: time)
    }

    mutating func remove(_ key: String) { lacking.remove(key) }

    mutating func giveBack(_ key: String, dueAt time: Duration) {
        guard !isServer else { return }
        returned.insert(key)
        hasNews(dueAt: time)
    }

    mutating func want(_ name: UInt64, dueAt time: Duration) {
        guard !isServer, wanted.count < Limits.presenceRecords else { return }
        wanted.insert(name)
        hasNews(dueAt: time)
    }

    mutating func want(certificate hash: [UInt8], dueAt time: Duration) {
        guard !isServer else { return }
        wantedCertificates.insert(hash)
        hasNews(dueAt: time)
    }

    mutating func owe(_ hash: [UInt8], isHere: Bool, dueAt time: Duration) {
        guard owedCertificates.count < Limits.presenceRecords else { return }
        owedCertificates.insert(hash)
        if isHere { hasNews(dueAt: time) }
    }

    /// A certificate has come that the other side may wait for.
    mutating func came(_ hash: [UInt8], dueAt time: Duration) {
        if owedCertificates.contains(hash) { hasNews(dueAt: time) }
    }

    /// Returns whether the news are to be offered now.
    mutating func makeOffer(_ now: Duration) -> Bool {
        guard let offersAt, offersAt <= now else { return false }
        self.offersAt = nil
        isOffered = true
        return true
    }

    mutating func takeDigests() -> Bool {
        defer { owesDigests = false }
        return owesDigests
    }

    /// The next record to send, and whether it is given back.
    mutating func next() -> (key: String, isReturn: Bool)? {
        if let key = returned.popFirst() { return (key, true) }
        return lacking.popFirst().map { ($0, false) }
    }

    mutating func takeRest(
        _ news: inout PresenceNews, _ shelf: CertificateShelf, _ bytes: inout Int
    ) {
        news.wanted = wanted.sorted()
        news.wantedCertificates = wantedCertificates.sorted { $0.lexicographicallyPrecedes($1) }
        (wanted, wantedCertificates) = ([], [])
        hasMoreCertificates = false
        for hash in owedCertificates {
            guard let der = shelf.der(hash) else { continue }
            guard bytes < Limits.presenceFrameBytes else {
                hasMoreCertificates = true
                break
            }
            owedCertificates.remove(hash)
            news.certificates.append(der)
            bytes += der.count
        }
    }

    /// The news were sent; the rest that did not fit is offered next.
    mutating func sent(at now: Duration) {
        isOffered = false
        if !lacking.isEmpty || !returned.isEmpty || hasMoreCertificates { hasNews(dueAt: now) }
    }

    mutating func refill(_ now: Duration) {
        let passed = Int(clamping: (now - refilledAt).wholeMilliseconds / 1_000)
        guard passed > 0 else { return }
        checks = min(checks + passed * Limits.presenceChecks.eachSecond, Limits.presenceChecks.burst)
        refilledAt = now
    }

    /// Returns whether a signature may be checked for this link, and counts it.
    mutating func spendCheck() -> Bool {
        guard checks > 0 else { return false }
        checks -= 1
        return true
    }

    /// Returns whether the reason is a new one.
    mutating func complain(_ reason: String) -> Bool { complaints.insert(reason).inserted }
}

/// Certificates of peers by hash, and what is verified in them.
struct CertificateShelf: Sendable {
    private struct Entry: Sendable {
        var der: [UInt8]
        var metadata: String?
    }
    private var entries: [[UInt8]: Entry] = [:]
    private var order: [[UInt8]] = []
    private var askedAt: [[UInt8]: Duration] = [:]

    func has(_ hash: [UInt8]) -> Bool { entries[hash] != nil }
    func der(_ hash: [UInt8]) -> [UInt8]? { entries[hash]?.der }
    func metadata(of hash: [UInt8]?) -> String? { hash.flatMap { entries[$0]?.metadata } }

    /// Keeps a certificate; the oldest goes where there are too many.
    mutating func put(_ der: [UInt8], as hash: [UInt8], metadata: String?) {
        askedAt[hash] = nil
        if entries[hash] == nil { order.append(hash) }
        entries[hash] = Entry(der: der, metadata: metadata)
        while order.count > Limits.presenceCertificates { entries[order.removeFirst()] = nil }
    }

    /// Returns whether a certificate is to be asked for, and notes that it is.
    mutating func mayAsk(for hash: [UInt8], at now: Duration) -> Bool {
        guard entries[hash] == nil else { return false }
        if let asked = askedAt[hash], now - asked < Limits.presenceCertificatePause { return false }
        if askedAt.count >= Limits.presenceRecords { askedAt = [:] }
        askedAt[hash] = now
        return true
    }

    mutating func forgive(_ hash: [UInt8]?) { if let hash { askedAt[hash] = nil } }
}
