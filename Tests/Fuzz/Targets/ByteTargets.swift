extension FuzzTarget {
    /// The targets that need nothing but the project's own sources.
    static let bytes: [FuzzTarget] = [
        FuzzTarget(name: "document", maximumLengthBytes: 4_096, run: fuzzDocument),
        FuzzTarget(name: "delta", maximumLengthBytes: 4_096, run: fuzzDelta),
        FuzzTarget(name: "operation", maximumLengthBytes: 4_096, run: fuzzOperation),
        FuzzTarget(name: "cbor", maximumLengthBytes: 4_096, run: fuzzCBOR),
        FuzzTarget(name: "json", maximumLengthBytes: 4_096, run: fuzzJSON),
        FuzzTarget(name: "dql", maximumLengthBytes: 4_096, run: fuzzStatementText),
        FuzzTarget(name: "legacy", maximumLengthBytes: 4_096, run: fuzzLegacyQuery),
        FuzzTarget(name: "execute", maximumLengthBytes: 1_024, run: fuzzExecution),
        FuzzTarget(name: "frame", maximumLengthBytes: 4_096, run: fuzzFrame),
        FuzzTarget(name: "session", maximumLengthBytes: 8_192, run: fuzzSession),
        FuzzTarget(name: "webhook", maximumLengthBytes: 4_096, run: fuzzWebhookAnswer),
    ]
}
