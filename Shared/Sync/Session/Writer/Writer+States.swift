import CRDT

extension Writer {
    /// The way to the exchange of subscriptions and uploads.
    enum Phase: Sendable {
        case greeting
        /// The store compares its history with the server's.
        case comparing
        /// The server's log was restored: it takes back what it lacks.
        case giving(HoldingsGiver)
        /// A repair comes first.
        case linedUp
        /// The store notes the server's head: everything that comes is later.
        case noting
        case exchanging

        /// The state's name, for logs and traps.
        var name: String {
            switch self {
            case .greeting: "greeting"
            case .comparing: "comparing histories"
            case .giving: "giving holdings back"
            case .linedUp: "lined up"
            case .noting: "noting the server's head"
            case .exchanging: "exchanging"
            }
        }
    }

    enum Read: Sendable {
        case idle
        /// Operations are being read, about so many bytes; `hasMore` if their actor has written since.
        case reading(bytes: Int, hasMore: Bool)
    }
}

extension FlowControl {
    /// A large operation is a message of its own: a later session may go on after the part that came of it.
    mutating func sendUpload(_ operations: [[UInt8]]) {
        var together: [[UInt8]] = []
        for bytes in operations {
            let isLarge = bytes.count > Limits.firstBurstBytes
            if isLarge, !together.isEmpty {
                send(.upload(together))
                together = []
            }
            together.append(bytes)
            if isLarge {
                send(.upload(together))
                together = []
            }
        }
        if !together.isEmpty { send(.upload(together)) }
    }
}
