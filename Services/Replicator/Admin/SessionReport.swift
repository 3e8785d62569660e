import CRDT

/// What an operator is told of one running session.
package struct SessionReport: Sendable {
    /// Its number in this process.
    package let number: UInt64
    /// Who is at the other end.
    package let userID: String
    /// The peer's key, nil for one without.
    package let peerKey: String?
    /// When it began, Unix milliseconds.
    package let sinceMilliseconds: UInt64
    /// Distinct queries it follows.
    package let queries: Int
    /// What waits in it.
    package let load: Load
    /// The offset up to which the live stream was taken by it; what is behind the head lags. Subscriptions
    /// that are catching up (`Load.catchingUp`) have not got what lies before it.
    package let offset: Offset

    /// What waits in a session.
    package struct Load: Sendable {
        /// Frames' bytes that wait to leave, for the socket or for the peer's credit.
        package let unsentBytes: Int
        /// Subscriptions whose documents are still on their way.
        package let catchingUp: Int

        package init(unsentBytes: Int, catchingUp: Int) {
            self.unsentBytes = unsentBytes
            self.catchingUp = catchingUp
        }
    }

    /// As JSON; `head` is the log's, `instance` where it runs.
    func value(head: Offset, at instance: String) -> Value {
        [
            "session": .string("\(instance)-\(number)"), "number": .int(Int64(clamping: number)),
            "userID": .string(userID),
            "peerKey": peerKey.map { .string($0) } ?? .null,
            "sinceMilliseconds": .int(Int64(clamping: sinceMilliseconds)), "queries": .int(Int64(queries)),
            "unsentBytes": .int(Int64(load.unsentBytes)), "catchingUp": .int(Int64(load.catchingUp)),
            "offset": .int(Int64(clamping: offset.rawValue)),
            "lag": .int(Int64(min(head, offset).distance(to: head))),
        ]
    }
}
