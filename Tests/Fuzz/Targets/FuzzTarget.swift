/// One fuzzer: what is done with arbitrary bytes, and has to end well. A broken promise traps; libFuzzer
/// keeps the bytes, and the tests replay them.
public struct FuzzTarget: Sendable {
    /// The name on the command line and of the folder of crashers.
    public let name: String
    /// The longest input that is worth its time, in bytes.
    public let maximumLengthBytes: Int
    /// Does everything with the bytes that bytes of strangers go through.
    public let run: @Sendable ([UInt8]) -> Void

    /// Every target of this build.
    public static let all: [FuzzTarget] = {
        var all: [FuzzTarget] = []
        #if FUZZ_BYTES
            all += bytes
        #endif
        #if FUZZ_TOKENS
            all += tokens
        #endif
        return all
    }()
}

/// Traps with its message in release builds too.
func require(_ holds: Bool, _ promise: @autoclosure () -> String) {
    if !holds { fatalError("FUZZ: \(promise())") }
}
