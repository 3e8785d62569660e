import CRDT
import HTTPTypes
import Identity
import Synchronization

/// Holds databases and their users to their limits (`DatabaseLimits`), each process by itself.
///
/// - *Requests and bytes a second* fill a bucket that has room for `Limits.limitBurst`. A request needs one
///   place of the one and a filled byte of the other. Bytes are paid for when they are there, so a large body
///   leaves a debt, `Limits.limitDebt` at most, and the requests after it wait. Frames of sessions pay too,
///   and wait themselves.
/// - *Sessions* are counted from their upgrade to their end, also where no limit is set: it may be set later.
///
/// The lock guards the uses. Uses without a session are forgotten when there are many.
public final class UsageMeter: Sendable {
    /// A database, or one user of it.
    private struct Subject: Hashable {
        var database: DatabaseID
        var user: String?
    }

    /// A rate: what is left of the bucket, and what was used lately.
    private struct Pace {
        /// Nil for a full bucket.
        var left: Double?
        var filledAt: ContinuousClock.Instant
        var count: Double = 0
        var countedSince: ContinuousClock.Instant
        var latest: Double = 0

        init(_ now: ContinuousClock.Instant) { (filledAt, countedSince) = (now, now) }

        /// - Parameter rate: nil without a limit: the bucket is full when there is one again, and nobody pays
        ///   for what was used meanwhile.
        mutating func fill(_ rate: Double?, _ now: ContinuousClock.Instant) {
            guard let rate else { return left = nil }
            let room = max(1, rate * (Limits.limitBurst / .seconds(1)))
            left = min(room, (left ?? room) + rate * ((now - filledAt) / .seconds(1)))
            filledAt = now
        }

        /// Seconds until one may be taken; nil if it may be now.
        mutating func wait(_ rate: Double?, _ now: ContinuousClock.Instant) -> Double? {
            fill(rate, now)
            guard let rate, let left, left < 1 else { return nil }
            return (1 - left) / rate
        }

        mutating func take(_ amount: Double, _ now: ContinuousClock.Instant) {
            if let left { self.left = left - amount }
            turn(now)
            count += amount
        }

        /// Used in a second, over the last whole window.
        mutating func turn(_ now: ContinuousClock.Instant) {
            let passed = now - countedSince
            guard passed >= Limits.limitWindow else { return }
            latest = count / (passed / .seconds(1))
            (count, countedSince) = (0, now)
        }
    }

    private struct Use {
        var requests: Pace
        var bytes: Pace
        var sessions = 0

        init(_ now: ContinuousClock.Instant) { (requests, bytes) = (Pace(now), Pace(now)) }

        mutating func used(_ kind: LimitKind, _ now: ContinuousClock.Instant) -> Double {
            requests.turn(now)
            bytes.turn(now)
            switch kind {
            case .requestsPerSecond: return requests.latest
            case .bytesPerSecond: return bytes.latest
            case .sessions: return Double(sessions)
            }
        }
    }

    private let uses = Mutex<[Subject: Use]>([:])
    private let now: @Sendable () -> ContinuousClock.Instant

    /// - Parameter now: the clock; another one in tests.
    public init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) { self.now = now }

    /// Counts a request.
    /// - Throws: `SRV-0432` with the time to wait; then it counts nothing.
    public func admit(_ identity: Identity, under limits: DatabaseLimits?) throws(LimitReached) {
        guard let limits else { return }
        let now = now()
        let refusal = uses.withLock { uses -> LimitReached? in
            let subjects = Self.subjects(identity, limits)
            for (subject, bounds) in subjects {
                var use = Self.use(subject, &uses, now)
                defer { uses[subject] = use }
                let (requests, bytes) = (bounds.requestsPerSecond, bounds.bytesPerSecond)
                if let wait = use.requests.wait(requests.map(Double.init), now), let requests {
                    return LimitReached(.requestsPerSecond, subject.user != nil, requests, wait)
                }
                if let wait = use.bytes.wait(bytes.map(Double.init), now), let bytes {
                    return LimitReached(.bytesPerSecond, subject.user != nil, bytes, wait)
                }
            }
            for (subject, _) in subjects { uses[subject]?.requests.take(1, now) }
            return nil
        }
        if let refusal { throw refusal.counted() }
    }

    /// Pays for bytes of an admitted request, or of a session's frame.
    /// - Parameter longest: the debt that the bytes may leave, as the time until it is paid. Nobody refuses
    ///   the next frame of a session: a debt without a bound would grow with their number, and keep requests
    ///   out long after the last frame. The next request after a large one has to wait.
    /// - Returns: the time until no debt is left; a request need not wait for it, since the next one does.
    @discardableResult
    public func pay(
        _ bytes: Int, by identity: Identity, under limits: DatabaseLimits,
        owingAtMost longest: Duration = Limits.limitDebt
    ) -> Duration {
        let now = now()
        return uses.withLock { uses in
            var debt = Duration.zero
            for (subject, bounds) in Self.subjects(identity, limits) {
                var use = Self.use(subject, &uses, now)
                let rate = bounds.bytesPerSecond.map(Double.init)
                // The bucket as it is now, before the debt.
                use.bytes.fill(rate, now)
                let before = use.bytes.left
                use.bytes.take(Double(bytes), now)
                if let rate, let before, let left = use.bytes.left {
                    // A larger debt stays.
                    let owed = max(left, min(before, -rate * (longest / .seconds(1))))
                    use.bytes.left = owed
                    debt = max(debt, .seconds(max(0, -owed) / rate))
                }
                uses[subject] = use
            }
            return debt
        }
    }

    /// Counts a session, until its place is given back.
    /// - Throws: `SRV-0432` if there are as many as may be.
    public func begin(_ identity: Identity, under limits: DatabaseLimits?) throws(LimitReached) -> Place {
        let (database, now) = (identity.databaseID, now())
        let subjects = [Subject(database: database), Subject(database: database, user: identity.userID)]
        let refusal = uses.withLock { uses -> LimitReached? in
            for (subject, bounds) in limits.map({ Self.subjects(identity, $0) }) ?? [] {
                guard let most = bounds.sessions, uses[subject]?.sessions ?? 0 >= most else { continue }
                return LimitReached(.sessions, subject.user != nil, most, Limits.limitedSessionSeconds)
            }
            for subject in subjects {
                var use = Self.use(subject, &uses, now)
                use.sessions += 1
                uses[subject] = use
            }
            return nil
        }
        if let refusal { throw refusal.counted() }
        return Place { [weak self] in
            self?.uses.withLock { uses in
                for subject in subjects { uses[subject]?.sessions -= 1 }
            }
        }
    }

    /// A session's place among those of its database and user.
    public final class Place: Sendable {
        private let giveBack: Mutex<(@Sendable () -> Void)?>

        init(_ giveBack: @escaping @Sendable () -> Void) { self.giveBack = Mutex(giveBack) }
        deinit { leave() }

        /// Gives it back, once.
        public func leave() {
            giveBack.withLock { body in
                defer { body = nil }
                return body
            }?()
        }
    }

    // MARK: Figures

    /// The use of a limit; of a limit of users, the use of the one who is nearest to it.
    struct Reading {
        var database: DatabaseID
        var isUser: Bool
        var kind: LimitKind
        var used: Double
        var most: Int64
        var share: Double { used / Double(most) }
    }

    func readings(_ all: some Collection<DatabaseLimits>) -> [Reading] {
        let now = now()
        return uses.withLock { uses in
            let users = Dictionary(grouping: uses.keys.filter { $0.user != nil }, by: \.database)
            var readings: [Reading] = []
            for limits in all {
                let whole = [(Subject(database: limits.databaseID), limits.whole)]
                let own = (users[limits.databaseID] ?? []).map { ($0, limits.limits(of: $0.user ?? "")) }
                for kind in LimitKind.allCases {
                    for (subjects, isUser) in [(whole, false), (own, true)] {
                        let found = subjects.compactMap { subject, bounds -> Reading? in
                            guard let most = bounds[kind] else { return nil }
                            let used = uses[subject]?.used(kind, now) ?? 0
                            return Reading(
                                database: limits.databaseID, isUser: isUser, kind: kind, used: used,
                                most: most)
                        }
                        if let nearest = found.max(by: { $0.share < $1.share }) { readings.append(nearest) }
                    }
                }
            }
            return readings
        }
    }

    /// Tells the use of all limits, of the first `Limits.watchedDatabases` databases that have some, and of
    /// the nearest to its limit of all others.
    func measure(_ all: [DatabaseLimits]) {
        let sorted = all.sorted { $0.databaseID < $1.databaseID }
        let first = readings(sorted.prefix(Limits.watchedDatabases)).map { ($0.database.text, $0) }
        let others = Dictionary(grouping: readings(sorted.dropFirst(Limits.watchedDatabases))) {
            "\($0.isUser) \($0.kind)"
        }
        let rest = others.values.compactMap { group in
            group.max { $0.share < $1.share }.map { ("other", $0) }
        }
        let series = (first + rest).map { name, reading in
            let labels = [
                ("database", name), ("of", reading.isUser ? "user" : "database"),
                ("limit", reading.kind.rawValue),
            ]
            return (labels: labels, reading: reading)
        }
        Measured.replace("mimeo_limit_used", series.map { ($0.labels, $0.reading.used) })
        Measured.replace("mimeo_limit_most", series.map { ($0.labels, Double($0.reading.most)) })
    }

    // MARK: Uses

    private static func subjects(
        _ identity: Identity, _ limits: DatabaseLimits
    ) -> [(Subject, UsageLimits)] {
        let (database, user) = (identity.databaseID, identity.userID)
        return [
            (Subject(database: database), limits.whole),
            (Subject(database: database, user: user), limits.limits(of: user)),
        ]
    }

    private static func use(
        _ subject: Subject, _ uses: inout [Subject: Use], _ now: ContinuousClock.Instant
    ) -> Use {
        if let known = uses[subject] { return known }
        if uses.count >= Limits.limitedSubjects {
            uses = uses.filter {
                $0.value.sessions > 0 || now - $0.value.requests.countedSince < .seconds(60)
            }
        }
        if uses.count >= Limits.limitedSubjects { uses = uses.filter { $0.value.sessions > 0 } }
        return Use(now)
    }
}

/// 429: a database, or one user of it, has reached one of its limits.
public struct LimitReached: HTTPReportable, Equatable {
    private let kind: LimitKind
    private let isUser: Bool
    private let most: Int64
    private let seconds: Int64

    init(_ kind: LimitKind, _ isUser: Bool, _ most: Int64, _ wait: Double) {
        (self.kind, self.isUser, self.most) = (kind, isUser, most)
        seconds = Int64(wait.rounded(.up))
    }

    fileprivate func counted() -> LimitReached {
        Measured.count(
            "mimeo_limit_refused_total", [("of", isUser ? "user" : "database"), ("limit", kind.rawValue)])
        return self
    }

    /// 429.
    public var httpStatus: HTTPResponse.Status { .tooManyRequests }
    /// `SRV-0432`.
    public var publicCode: String { ServiceErrorCode.limitReached.rawValue }
    /// Names the limit and the database or user that has it.
    public var publicMessage: String {
        let what =
            switch kind {
            case .requestsPerSecond: "\(most) requests a second"
            case .bytesPerSecond: "\(most) bytes a second"
            case .sessions: "\(most) sessions"
            }
        return "this \(isUser ? "user" : "database") has its limit of \(what); try again after Retry-After"
    }
    /// The seconds to wait.
    public var httpHeaders: HTTPFields { [.retryAfter: "\(max(1, seconds))"] }
    /// The limit's name.
    public var publicMembers: ObjectValue {
        ObjectValue([
            (key: "limit", value: .string(kind.rawValue)),
            (key: "of", value: .string(isUser ? "user" : "database")),
        ])
    }
}
