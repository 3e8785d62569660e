/// Keeps logins from waiting for a dead webhook: after `Limits.webhookFailures` failures in a row no login
/// calls it for `Limits.webhookRest`. Then one login at a time probes it.
///
/// A value; its owner guards it.
struct CircuitBreaker: Sendable {
    private var failures = 0
    private var closedUntil: ContinuousClock.Instant?
    private var isProbing = false

    /// Returns whether the webhook may be called now. If so, the caller must report the end of the call.
    mutating func isOpen(at now: ContinuousClock.Instant) -> Bool {
        guard failures >= Limits.webhookFailures else { return true }
        guard !isProbing, closedUntil.map({ now >= $0 }) ?? true else { return false }
        isProbing = true
        return true
    }

    /// Records an answer of any kind.
    mutating func hasAnswered() { self = CircuitBreaker() }

    /// Records a call without an answer.
    mutating func hasFailed(at now: ContinuousClock.Instant) {
        failures += 1
        isProbing = false
        if failures >= Limits.webhookFailures { closedUntil = now + Limits.webhookRest }
    }

    /// Records a call that the client gave up, through no fault of the webhook.
    mutating func hasLeft() { isProbing = false }
}
