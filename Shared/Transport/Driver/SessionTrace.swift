import Logging
import Sync

extension Session.Configuration {
    /// Has each change of state of the session and its machines logged at `trace`, as "session state" with
    /// the machine, the states' names and what names the session. Costs nothing if the logger drops that
    /// level.
    public mutating func trace(
        to logger: Logger, naming metadata: @autoclosure () -> Logger.Metadata = [:]
    ) {
        guard logger.logLevel <= .trace else { return }
        var logger = logger
        for (key, value) in metadata() { logger[metadataKey: key] = value }
        trace = { [logger] transition in
            logger.trace(
                "session state",
                metadata: [
                    "machine": "\(transition.machine)", "from": "\(transition.from)",
                    "to": "\(transition.to)",
                ])
        }
    }
}
