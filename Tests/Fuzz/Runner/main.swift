import FuzzTargets

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

// `fuzz --list` names the targets; `fuzz TARGET [libFuzzer's options] [corpus…]` fuzzes one of them. Built
// without -DFUZZING it replays the files it is given, which is how a debugger gets at a crasher.
// `fuzz --reached FILES…` says what sessions come to by inputs of the target `session`.

/// libFuzzer calls back without a context, so the chosen target stands here. Written once before the driver
/// starts, on the one thread there is.
nonisolated(unsafe) private var chosen = FuzzTarget.all[0]

#if FUZZING
    @_silgen_name("LLVMFuzzerRunDriver")
    private func runDriver(
        _ count: UnsafeMutablePointer<Int32>,
        _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
        _ test: @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
    ) -> Int32
#endif

private func fail(_ message: String) -> Never {
    print("fuzz: \(message)")
    exit(2)
}

private func read(_ path: String) -> [UInt8] {
    guard let file = fopen(path, "rb") else { fail("cannot read \(path)") }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    let length = fread(&bytes, 1, bytes.count, file)
    return Array(bytes.prefix(length))
}

let names = FuzzTarget.all.map(\.name)
guard CommandLine.argc > 1 else { fail("usage: fuzz --list | fuzz \(names.joined(separator: "|")) …") }
if CommandLine.arguments[1] == "--list" {
    print(names.joined(separator: "\n"))
    exit(0)
}
#if !FUZZ_TOKENS_ONLY
    if CommandLine.arguments[1] == "--reached" {
        var reached: [String: Int] = [:]
        for path in CommandLine.arguments.dropFirst(2) {
            for thing in reachedBySession(read(path)) { reached[thing, default: 0] += 1 }
        }
        for (thing, count) in reached.sorted(by: { $0.key < $1.key }) { print("\(count)\t\(thing)") }
        exit(0)
    }
#endif
guard let target = FuzzTarget.all.first(where: { $0.name == CommandLine.arguments[1] }) else {
    fail("no target \(CommandLine.arguments[1])")
}
chosen = target

#if FUZZING
    // libFuzzer reads its own arguments: ours goes, a bound on the length comes.
    var arguments: [UnsafeMutablePointer<CChar>?] =
        [strdup(CommandLine.arguments[0]), strdup("-max_len=\(target.maximumLengthBytes)")]
    arguments += CommandLine.arguments.dropFirst(2).map { strdup($0) }
    var count = Int32(arguments.count)
    arguments.append(nil)
    let status = arguments.withUnsafeMutableBufferPointer { buffer -> Int32 in
        guard var start = buffer.baseAddress else { return 2 }
        return runDriver(&count, &start) { bytes, length in
            chosen.run(Array(UnsafeBufferPointer(start: bytes, count: length)))
            return 0
        }
    }
    exit(status)
#else
    for path in CommandLine.arguments.dropFirst(2) {
        target.run(read(path))
    }
#endif
