import CRDT

/// The presence that a server knows: the peers of its sessions by their own records, and peers without a
/// session by the records that sessions pass on. Pure: time comes with each call.
///
/// A session's own record counts while the session runs. A record of another peer ends with its age, and
/// when the peer has a session itself. Bounds: `Limits.presenceOfSession` for each session,
/// `Limits.presenceOfDatabase` for all.
public struct PresenceTable: Sendable {
    /// A peer, as the board has it.
    public struct Peer: Sendable, Equatable {
        /// Its key.
        public var peerKey: String
        /// Its record; nil if it has said nothing.
        public var record: PresenceRecord?
        /// True while it has a session here.
        public var hasSession: Bool
    }

    private struct Session: Sendable {
        var peerKey: String?
        var record: PresenceRecord?
        /// The peers whose records it has brought, as long as these live.
        var others: Set<String> = []
        var checks = Limits.presenceChecks.burst
        var refilledAt: Duration
    }

    private struct Other: Sendable {
        var record: PresenceRecord
        var bornAt: Duration
        var session: UInt64
    }

    private let isValid: @Sendable (SignedRecord, String) -> Bool
    private let life: Duration
    private var sessions: [UInt64: Session] = [:]
    private var others: [String: Other] = [:]
    private var expiredAt: Duration?

    /// An empty board; `life` is the age at which a record ends.
    public init(
        life: Duration = PresenceGossip.Settings().life,
        isValid: @escaping @Sendable (SignedRecord, String) -> Bool
    ) {
        self.life = life
        self.isValid = isValid
    }

    /// A session tells of a peer. `peerKey` is the key that it has proven; nil if its token names none.
    public mutating func received(
        _ carried: PresenceNews.Carried, from number: UInt64, peerKey: String?, at now: Duration
    ) {
        // Taken out, so that its set is not copied.
        var session = sessions.removeValue(forKey: number) ?? Session(peerKey: peerKey, refilledAt: now)
        let more = Int(clamping: (now - session.refilledAt).wholeMilliseconds / 1_000)
        if more > 0 {
            session.checks = min(
                session.checks + more * Limits.presenceChecks.eachSecond, Limits.presenceChecks.burst)
            session.refilledAt = now
        }
        defer { sessions[number] = session }
        guard let record = PresenceRecord(decoding: carried.record.content) else { return }
        guard session.peerKey.map({ $0 == record.peerKey }) ?? (session.record == nil) else {
            return take(record, carried, number, &session, now)
        }
        // The session has proven its own peer; other records need a signature.
        guard session.peerKey != nil || isSigned(carried.record, by: record.peerKey, &session) else { return }
        session.peerKey = record.peerKey
        session.record = record.isLeaving ? nil : record
        others[record.peerKey] = nil
    }

    private mutating func take(
        _ record: PresenceRecord, _ carried: PresenceNews.Carried, _ number: UInt64,
        _ session: inout Session, _ now: Duration
    ) {
        let age = Duration.milliseconds(Int64(clamping: carried.ageMilliseconds))
        guard age < life, session.checks > 0 else { return }
        expireSoon(now)
        let known = others[record.peerKey]
        if session.others.count >= Limits.presenceOfSession {
            session.others = session.others.filter { others[$0]?.session == number }
        }
        guard known.map({ record.rank.isNewer(than: $0.record.rank) }) ?? true,
            known != nil || others.count < Limits.presenceOfDatabase,
            session.others.contains(record.peerKey) || session.others.count < Limits.presenceOfSession,
            isSigned(carried.record, by: record.peerKey, &session)
        else { return }
        guard !record.isLeaving else { return others[record.peerKey] = nil }
        session.others.insert(record.peerKey)
        others[record.peerKey] = Other(record: record, bornAt: now - age, session: number)
    }

    /// Checks a signature, as long as the session may have more of them checked.
    private func isSigned(_ record: SignedRecord, by peerKey: String, _ session: inout Session) -> Bool {
        guard session.checks > 0 else { return false }
        session.checks -= 1
        return isValid(record, peerKey)
    }

    /// Looks through all records once a second, however many come.
    private mutating func expireSoon(_ now: Duration) {
        guard expiredAt.map({ now - $0 >= Limits.presenceLook }) ?? true else { return }
        expiredAt = now
        expire(now)
    }

    private mutating func expire(_ now: Duration) {
        others = others.filter { now - $0.value.bornAt < life }
    }

    /// A session has ended.
    public mutating func left(_ number: UInt64) { sessions[number] = nil }

    /// The peers that are there, by key, and their connections. A connection is one that both ends name, or
    /// the only end that has said anything.
    /// - Parameter running: the keys of all sessions that run, also of those that have said nothing.
    public mutating func graph(
        running: [String], at now: Duration
    ) -> (peers: [Peer], connections: [PresenceGraph.Connection]) {
        expire(now)
        var peers: [String: Peer] = [:]
        for (key, other) in others {
            peers[key] = Peer(peerKey: key, record: other.record, hasSession: false)
        }
        for key in running { peers[key] = Peer(peerKey: key, record: nil, hasSession: true) }
        for session in sessions.values {
            guard let key = session.peerKey else { continue }
            if let known = peers[key]?.record, let record = session.record, peers[key]?.hasSession == true,
                known.rank.isNewer(than: record.rank)
            {
                continue
            }
            peers[key] = Peer(
                peerKey: key, record: session.record ?? peers[key]?.record, hasSession: true)
        }
        var connections: Set<PresenceGraph.Connection> = []
        for (key, peer) in peers {
            for link in peer.record?.links ?? [] where link.peer != key {
                let other = peers[link.peer]
                guard other?.record == nil || other?.record?.names(key, link.kind) == true else { continue }
                connections.insert(PresenceGraph.Connection(key, link.peer, link.kind))
            }
        }
        for connection in connections {
            for key in [connection.first, connection.second] where peers[key] == nil {
                peers[key] = Peer(peerKey: key, record: nil, hasSession: false)
            }
        }
        return (peers.values.sorted { $0.peerKey < $1.peerKey }, connections.sorted())
    }
}
