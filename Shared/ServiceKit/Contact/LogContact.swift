import Synchronization

/// Contact of this process with the log: whether everything that was in the system database a moment ago is
/// known here, revocations above all.
///
/// Only an answer is contact. The log's head was read, the answer came, and everything up to it is folded;
/// then contact is confirmed as of the moment in which the read began. `SystemDatabase.keepContact` does this
/// every `beat`, also while nobody writes, so a connection that is half open is no contact either.
///
/// Health, authentication and admin credentials of every service ask this one object. After `Bounds.contact`
/// without contact, health fails, so that a load balancer looks elsewhere. After `Bounds.grace` every
/// credential is refused with `SRV-0602`, because it may have been revoked. The next confirmation ends both.
///
/// The lock guards the moment.
public final class LogContact: Sendable {
    /// The two times without contact.
    public struct Bounds: Sendable, Equatable {
        /// Time after which health fails.
        public var contact = Limits.contact
        /// Time after which credentials are refused; not less than `contact`.
        public var grace = Limits.contactGrace

        /// The times of `Limits`.
        public init() {}

        /// The given times.
        public init(contact: Duration, grace: Duration) {
            precondition(.zero < contact && contact <= grace, "credentials outlast a failing health")
            (self.contact, self.grace) = (contact, grace)
        }
    }

    /// State of the contact at a moment.
    public enum State: Sendable, Equatable {
        /// There is contact.
        case held
        /// Health fails; credentials are still accepted.
        case missed
        /// Credentials are refused too.
        case lost
    }

    /// The times without contact and their effects.
    public let bounds: Bounds
    private let last = Mutex<ContinuousClock.Instant?>(nil)
    private let clock: @Sendable () -> ContinuousClock.Instant

    /// - Parameter clock: the clock, which must go on while the machine is suspended; a test's own.
    public init(
        _ bounds: Bounds = Bounds(),
        clock: @escaping @Sendable () -> ContinuousClock.Instant = { ContinuousClock.now }
    ) {
        self.bounds = bounds
        self.clock = clock
    }

    /// The present moment; the one to confirm is that before a read.
    public var now: ContinuousClock.Instant { clock() }

    /// Records that everything in the log at a moment is known here.
    public func confirm(asOf moment: ContinuousClock.Instant) {
        last.withLock { last in last = max(last ?? moment, moment) }
    }

    /// Time since the last confirmed moment; nil before the first.
    public var silence: Duration? { last.withLock { $0 }.map { max(.zero, now - $0) } }

    /// The state now; `lost` before the first confirmation.
    public var state: State {
        guard let silence else { return .lost }
        return silence < bounds.contact ? .held : silence < bounds.grace ? .missed : .lost
    }

    /// Interval of reading the log's head: a few reads fit into `Bounds.contact`, so that one lost answer
    /// is not a lost contact.
    public var beat: Duration { min(Limits.contactBeat, bounds.contact / 4) }

    /// - Throws: `SRV-0602` if credentials are refused now.
    public func require() throws(ServiceError) {
        guard state == .lost else { return }
        throw ServiceError(
            .contactLost,
            "this instance has lost contact with the operation log, so it cannot tell whether credentials "
                + "were revoked; try again shortly, or at another instance")
    }

    /// The check for health: failing unless contact is held.
    var health: HealthCheck {
        guard state != .held else { return .ok }
        let seconds = silence.map { "for \($0.components.seconds) s" } ?? "yet"
        return .failing("no contact with the operation log \(seconds)")
    }
}
