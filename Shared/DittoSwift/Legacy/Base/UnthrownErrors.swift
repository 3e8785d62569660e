import Logging
import Synchronization

/// Errors of calls that cannot throw: they go to the log, at most one of a kind per second.
final class UnthrownErrors: Sendable {
    private struct Kind: Hashable {
        let call: String
        let code: String
    }

    private struct Told {
        var last: ContinuousClock.Instant
        var left = 0
    }

    private let logger: Logger
    /// The calls and codes are few, so this stays small.
    private let told = Mutex<[Kind: Told]>([:])

    init(_ logger: Logger) { self.logger = logger }

    /// Logs an error with its code. `call` is the function as an application knows it.
    func report(_ call: String, _ error: any Error) { tell(.error, "\(call) failed", call, error) }

    /// Logs a warning with a code: the call does something else than it says.
    func warn(_ call: String, _ error: SDKError) {
        tell(.warning, "\(call) does more than asked", call, error)
    }

    private func tell(_ level: Logger.Level, _ title: String, _ call: String, _ error: any Error) {
        let (code, message) = Self.parts(of: error)
        let kind = Kind(call: call, code: code)
        let now = ContinuousClock.now
        let left: Int? = told.withLock { told in
            guard let before = told[kind], now - before.last < Limits.unthrownErrorPause else {
                defer { told[kind] = Told(last: now) }
                return told[kind]?.left ?? 0
            }
            told[kind]?.left += 1
            return nil
        }
        guard let left else { return }
        var metadata: Logger.Metadata = ["code": "\(code)", "error": "\(message)"]
        if left > 0 { metadata["similar"] = "\(left)" }
        logger.log(level: level, "\(title)", metadata: metadata)
    }

    /// The code and the message of any error.
    private static func parts(of error: any Error) -> (code: String, message: String) {
        guard let error = error as? DittoSwiftError else {
            let failure = Failure(error)
            return (failure.code, failure.message)
        }
        // A public error's message begins with its code, and perhaps a place in the statement.
        let text = error.errorDescription ?? "\(error)"
        let code = text.prefix { $0 != ":" && $0 != " " }
        return (String(code), String(text.dropFirst(code.count).drop { $0 == ":" || $0 == " " }))
    }
}
