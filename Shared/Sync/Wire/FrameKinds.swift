extension Frame {
    /// True for a frame that carries documents or operations unasked, and so consumes credit. States were
    /// asked for one by one, and their receiver may be unable to store anything (and so to give credit)
    /// before it has them.
    var isData: Bool {
        switch self {
        case .catchUp, .operations, .upload, .holdings, .held: true
        default: false
        }
    }

    /// True for a frame that keeps its place after data that waits: a position must not overtake the changes
    /// that it stands for.
    var waitsItsTurn: Bool {
        switch self {
        case .hello, .credit, .want, .states, .close, .chunk, .acknowledged, .refused, .subscriptionRefused,
            .reconciled, .list, .granted, .renewal, .deferred, .taken, .presence, .certificate:
            false
        default: true
        }
    }

    var name: String {
        switch self {
        case .hello: "hello"
        case .subscribe: "subscribe"
        case .unsubscribe: "unsubscribe"
        case .subscriptionRefused: "subscriptionRefused"
        case .catchUp: "catchUp"
        case .operations: "operations"
        case .progress: "progress"
        case .upload: "upload"
        case .acknowledged: "acknowledged"
        case .want: "want"
        case .states: "states"
        case .credit: "credit"
        case .chunk: "chunk"
        case .refused: "refused"
        case .close: "close"
        case .holdings: "holdings"
        case .reconciled: "reconciled"
        case .list: "list"
        case .held: "held"
        case .granted: "granted"
        case .renewal: "renewal"
        case .deferred: "deferred"
        case .taken: "taken"
        case .presence: "presence"
        case .certificate: "certificate"
        }
    }
}
