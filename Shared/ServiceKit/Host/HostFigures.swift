import Synchronization

/// The gauges of a host's parts, for a part that keeps readings of them. The host binds it to its parts.
public final class HostGauges: Sendable {
    private let figures = Mutex<HostFigures?>(nil)

    init() {}

    func bind(_ figures: HostFigures) { self.figures.withLock { $0 = figures } }

    /// Sets the gauges that are read only when somebody asks, unless they are new.
    public func measure() async { await figures.withLock { $0 }?.measure() }
}

/// Readiness and metrics of a host, asked of its parts.
final class HostFigures: Sendable {
    private let parts: [any ServicePart]
    private let drain: HostDrain?
    private let measured = Mutex<ContinuousClock.Instant?>(nil)

    init(parts: [any ServicePart], drain: HostDrain?) { (self.parts, self.drain) = (parts, drain) }

    /// The reasons why no request should be sent here.
    func reasons() async -> [Unreadiness] {
        var reasons: [Unreadiness] = []
        for part in parts { reasons += await part.readiness() }
        if drain?.isDraining == true {
            reasons.append(Unreadiness("host", .stopping, "the process is about to stop"))
        }
        return reasons
    }

    /// Sets the gauges that are read only when somebody asks, unless they are new. The bytes that clients
    /// hold are read each time: they change within seconds, and reading them costs nothing.
    func measure() async {
        ProcessFigures.measureBudgets()
        let isDue = measured.withLock { measured in
            if let measured, ContinuousClock.now - measured < Limits.measureInterval { return false }
            measured = .now
            return true
        }
        guard isDue else { return }
        ProcessFigures.measure()
        for part in parts { await part.measure() }
        Measured.set("mimeo_ready", await reasons().isEmpty ? 1 : 0)
    }
}
