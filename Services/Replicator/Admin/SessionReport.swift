import CRDT

/// One running session, as reported to an operator.
package struct SessionReport: Sendable {
    /// Its number in this process.
    package let number: UInt64
    /// The user at the other end.
    package let userID: String
    /// The peer's key, nil for one without.
    package let peerKey: String?
    /// The start of the session, Unix milliseconds.
    package let sinceMilliseconds: UInt64
    /// Distinct queries that it follows.
    package let queries: Int
    /// Its backlog.
    package let load: Load
    /// The offset up to which the session has taken the live stream; its distance from the head is the lag.
    /// Subscriptions that are catching up (`Load.catchingUp`) may lack earlier changes.
    package let offset: Offset

    /// The backlog of a session.
    package struct Load: Sendable {
        /// Bytes of unsent frames, waiting for the socket or for the peer's credit.
        package let unsentBytes: Int
        /// Subscriptions whose documents are still on their way.
        package let catchingUp: Int

        package init(unsentBytes: Int, catchingUp: Int) {
            self.unsentBytes = unsentBytes
            self.catchingUp = catchingUp
        }
    }

    /// As JSON; `head` is the log's, `names` those of the instance where it runs.
    func value(head: Offset, at names: SessionNames) -> ObjectValue {
        let value: Value = [
            "session": .string(names.name(of: number)),
            "number": .int(Int64(clamping: names.number(of: number))),
            "userID": .string(userID),
            "peerKey": peerKey.map { .string($0) } ?? .null,
            "sinceMilliseconds": .int(Int64(clamping: sinceMilliseconds)), "queries": .int(Int64(queries)),
            "unsentBytes": .int(Int64(load.unsentBytes)), "catchingUp": .int(Int64(load.catchingUp)),
            "offset": .int(Int64(clamping: offset.rawValue)),
            "lag": .int(Int64(min(head, offset).distance(to: head))),
        ]
        return value.objectValue ?? ObjectValue()
    }
}
