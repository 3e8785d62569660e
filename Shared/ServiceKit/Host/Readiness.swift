/// One reason why an instance cannot serve at the moment, for a load balancer and for people.
///
/// Health (`/health`) tells whether everything works; readiness (`/health/ready`) whether requests should be
/// sent here. A damaged attachment, or one database out of many that cannot be folded, fails health only:
/// another instance would answer no better.
public struct Unreadiness: Sendable, Equatable, Encodable {
    /// The part that is not ready.
    public var part: String
    /// A stable code.
    public var code: String
    /// For a person; public, so without secrets.
    public var message: String

    /// A reason of a part.
    public init(part: String, code: String, message: String) {
        (self.part, self.code, self.message) = (part, code, message)
    }

    init(_ part: String, _ code: ServiceErrorCode, _ message: String) {
        self.init(part: part, code: code.rawValue, message: message)
    }

    /// The reasons of a part that folds databases from the log: none while one of them works.
    /// - Parameters:
    ///   - failures: for each open database, whether it cannot be folded.
    ///   - lag: the lags of the open databases.
    public static func ofFolds(
        _ part: String, failures: [Bool], lag: LagWatch
    ) -> [Unreadiness] {
        if !failures.isEmpty, failures.allSatisfy({ $0 }) {
            return [
                Unreadiness(part, .notFolded, "no open database can be folded; see the service's log")
            ]
        }
        let ages = lag.readings().map(\.age)
        if let least = ages.min(), least >= Limits.readyLag {
            let seconds = least.components.seconds
            return [Unreadiness(part, .foldBehind, "every open database is behind the log, by \(seconds) s")]
        }
        return []
    }

    /// The reason of a log that takes no writes.
    public static func ofLog(_ part: String, code: String) -> Unreadiness {
        Unreadiness(part: part, code: code, message: "the log takes no writes")
    }

    /// The reason of a projection that cannot be opened.
    public static func ofProjection(_ part: String) -> Unreadiness {
        Unreadiness(part, .projectionUnusable, "a projection cannot be opened; see the service's log")
    }
}
