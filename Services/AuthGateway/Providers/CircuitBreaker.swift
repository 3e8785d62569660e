/// Keeps logins from waiting for a dead webhook, and lets nobody shut a webhook that answers others.
///
/// - *Address*: one that failed `Limits.webhookFailures` times without an answer of its own rests for
///   `Limits.webhookRest`. Somebody whose logins make the webhook fail shuts out himself.
/// - *Webhook*: counts as silent after `Limits.webhookSilence` without an answer to anybody, if by then
///   `Limits.silentAddresses` addresses have failed. Any answer, also a refusal, ends that. Meanwhile an
///   address that has not failed is let through as a probe, `Limits.webhookProbes` at a time, and of the
///   others one every `Limits.webhookProbePause`.
///
/// A value; its owner guards it. At most `Limits.countedSources` addresses are remembered.
struct CircuitBreaker: Sendable {
    private struct Failures: Sendable {
        var count: Int
        var last: ContinuousClock.Instant
    }

    /// Addresses whose last login got no answer.
    private var failing: [String: Failures] = [:]
    /// The first failure since the last answer to anybody.
    private var silentSince: ContinuousClock.Instant?
    /// Addresses that failed since then, as many as matter.
    private var silentFor: Set<String> = []
    /// Probes of addresses without failures, in flight.
    private var probes: Set<UInt64> = []
    private var lastProbe: ContinuousClock.Instant?
    private var lastTicket: UInt64 = 0

    /// Leave to call the webhook; its end must be reported with one of the methods below.
    struct Ticket: Sendable {
        fileprivate let number: UInt64
        fileprivate let source: String
    }

    /// Admits a login from an address; nil if it should not call the webhook now.
    mutating func admit(_ source: String, at now: ContinuousClock.Instant) -> Ticket? {
        let known = failing[source].flatMap { now - $0.last < Limits.webhookRest ? $0 : nil }
        lastTicket += 1
        let ticket = Ticket(number: lastTicket, source: source)
        if let known, known.count >= Limits.webhookFailures { return nil }
        guard isSilent(at: now) else { return ticket }
        if known == nil, probes.count < Limits.webhookProbes {
            probes.insert(ticket.number)
            return ticket
        }
        if let lastProbe, now - lastProbe < Limits.webhookProbePause { return nil }
        lastProbe = now
        return ticket
    }

    /// True if the webhook has answered nobody for so long that it counts as dead.
    func isSilent(at now: ContinuousClock.Instant) -> Bool {
        guard let silentSince else { return false }
        return silentFor.count >= Limits.silentAddresses && now - silentSince >= Limits.webhookSilence
    }

    /// Records an answer of any kind.
    mutating func hasAnswered(_ ticket: Ticket) {
        probes.remove(ticket.number)
        failing[ticket.source] = nil
        (silentSince, silentFor, lastProbe) = (nil, [], nil)
    }

    /// Records a call without an answer.
    mutating func hasFailed(_ ticket: Ticket, at now: ContinuousClock.Instant) {
        probes.remove(ticket.number)
        let known = failing[ticket.source].flatMap { now - $0.last < Limits.webhookRest ? $0.count : nil }
        if failing[ticket.source] == nil, failing.count >= Limits.countedSources { forget(now) }
        failing[ticket.source] = Failures(count: (known ?? 0) + 1, last: now)
        silentSince = silentSince ?? now
        if silentFor.count < Limits.silentAddresses { silentFor.insert(ticket.source) }
    }

    /// Records a call that the client gave up, through no fault of the webhook.
    mutating func hasLeft(_ ticket: Ticket) { probes.remove(ticket.number) }

    /// Makes room: drops addresses that have rested, and if that is not enough the older half.
    private mutating func forget(_ now: ContinuousClock.Instant) {
        failing = failing.filter { now - $0.value.last < Limits.webhookRest }
        guard failing.count >= Limits.countedSources else { return }
        let kept = failing.sorted { $0.value.last > $1.value.last }.prefix(Limits.countedSources / 2)
        failing = Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) })
    }
}
