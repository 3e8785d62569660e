import Synchronization

/// Counts failed logins by where they come from and whom they ask, and keeps both away for a while when there
/// are too many: guessing takes long, and who logs in with what is right is not hindered by others' mistakes.
///
/// Windows of fixed length; a source that is not known costs nothing, and at most `Limits.countedSources` are
/// known, the oldest forgotten first. The lock guards the table.
final class AttemptLimiter: Sendable {
    /// Who is counted.
    enum Source: Hashable, Sendable {
        case address(String)
        case provider(database: String, name: String)
        case admin(String)

        var limit: Int {
            switch self {
            case .address, .admin: Limits.failuresPerAddress
            case .provider: Limits.failuresPerProvider
            }
        }
    }

    private struct Window {
        var began: ContinuousClock.Instant
        var failures: Int
    }

    private let windows = Mutex<[Source: Window]>([:])
    private let now: @Sendable () -> ContinuousClock.Instant

    init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) { self.now = now }

    /// - Throws: `AUTH-0410`.
    func admit(_ sources: Source...) throws(AuthGatewayError) {
        let now = now()
        for source in sources {
            guard let window = windows.withLock({ $0[source] }), window.failures >= source.limit else {
                continue
            }
            let left = Limits.attemptWindow - (now - window.began)
            guard left > .zero else { continue }
            throw AuthGatewayError(
                .tooManyAttempts, "too many logins have failed; wait before the next one",
                retryAfterSeconds: left.components.seconds + 1)
        }
    }

    /// An attempt has failed.
    func failed(_ sources: Source...) {
        let now = now()
        windows.withLock { windows in
            for source in sources {
                if let window = windows[source], now - window.began < Limits.attemptWindow {
                    windows[source]?.failures += 1
                    continue
                }
                if windows.count >= Limits.countedSources { Self.forget(&windows, now) }
                windows[source] = Window(began: now, failures: 1)
            }
        }
    }

    /// Makes room: those whose time is over, or the older half.
    private static func forget(_ windows: inout [Source: Window], _ now: ContinuousClock.Instant) {
        windows = windows.filter { now - $0.value.began < Limits.attemptWindow }
        guard windows.count >= Limits.countedSources else { return }
        let kept = windows.sorted { $0.value.began > $1.value.began }.prefix(Limits.countedSources / 2)
        windows = Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) })
    }
}
