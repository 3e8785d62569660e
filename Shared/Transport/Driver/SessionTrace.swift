import Logging
import Sync

extension Session.Configuration {
    /// Has each change of state of the session's machines logged at `trace`, as "session state" with the
    /// machine and the states' names. Costs nothing if the logger drops that level.
    public mutating func trace(to logger: Logger) {
        guard logger.logLevel <= .trace else { return }
        trace = { transition in
            logger.trace(
                "session state",
                metadata: [
                    "machine": "\(transition.machine)", "from": "\(transition.from)",
                    "to": "\(transition.to)",
                ])
        }
    }
}
