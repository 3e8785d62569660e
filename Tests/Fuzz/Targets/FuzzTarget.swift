/// One fuzzer: what is done with arbitrary bytes, and has to end well. A broken promise traps; libFuzzer
/// keeps the bytes, and the tests replay them.
public struct FuzzTarget: Sendable {
    /// The name on the command line and of the folder of crashers.
    public let name: String
    /// The longest input that is worth its time, in bytes.
    public let maximumLengthBytes: Int
    /// Does everything with the bytes that bytes of strangers go through.
    public let run: @Sendable ([UInt8]) -> Void

    /// Every target.
    public static let all: [FuzzTarget] = [
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
    ]
}

/// Traps with its message in release builds too.
func require(_ holds: Bool, _ promise: @autoclosure () -> String) {
    if !holds { fatalError("FUZZ: \(promise())") }
}
