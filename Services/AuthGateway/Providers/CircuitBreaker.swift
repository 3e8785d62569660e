/// Keeps logins from waiting for a webhook that is dead: after some failures in a row nobody asks it for a
/// while, and then one login at a time tries whether it is back.
///
/// A value; whoever owns it guards it.
struct CircuitBreaker: Sendable {
    private var failures = 0
    private var closedUntil: ContinuousClock.Instant?
    private var isProbing = false

    /// Whether the webhook may be asked now; who was let through says later how it went.
    mutating func isOpen(at now: ContinuousClock.Instant) -> Bool {
        guard failures >= Limits.webhookFailures else { return true }
        guard !isProbing, closedUntil.map({ now >= $0 }) ?? true else { return false }
        isProbing = true
        return true
    }

    /// It answered, whatever it said.
    mutating func hasAnswered() { self = CircuitBreaker() }

    /// It did not answer.
    mutating func hasFailed(at now: ContinuousClock.Instant) {
        failures += 1
        isProbing = false
        if failures >= Limits.webhookFailures { closedUntil = now + Limits.webhookRest }
    }

    /// Who was let through went away without an answer, through no fault of the webhook.
    mutating func hasLeft() { isProbing = false }
}
