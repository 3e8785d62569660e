import DQL

/// The caller's part in waiting for the server: a thread that waits computes nothing, so others may compute
/// meanwhile, and nobody may want the answer any more.
public protocol ServerWait: Sendable {
    /// Runs a body that waits for the server.
    /// - Parameter body: gets a check, which it asks now and then why to stop; nil means go on.
    func waiting<Result>(
        _ body: (_ interruption: @escaping () -> Interruption?) throws -> Result
    ) throws -> Result
}

/// SQL that we made of a statement failed on the server, so the statement runs again without it.
struct PushFailure: Error {
    let error: PostgresError
}
