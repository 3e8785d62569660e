import Foundation
import TestSupport

/// How much of a test of faults this run takes (see `Depth`).
public enum FaultRun {
    /// The seeds of a test that makes `cutsEach` power cuts for each.
    public static func seeds(cutsEach: Int) -> Range<UInt64> {
        Depth.seeds(fast: max(1, 24 / cutsEach), deep: max(1, 2_000 / cutsEach))
    }

    /// True if a sweep takes every call and every variant.
    public static let isExhaustive = Depth.current == .deep

    /// Returns whether this run takes a variant of a sweep. A deep run takes all; any other takes those that
    /// its seed draws: half of the plain ones, an eighth of the others.
    public static func takes(_ place: Int, isPlain: Bool) -> Bool {
        if isExhaustive { return true }
        var dice = SplitMix64(seed: Depth.seed &+ UInt64(place))
        return dice.below(isPlain ? 2 : 8) == 0
    }

    /// The call that a sweep lets fail after this one: the next one, or in a sample one up to twice as far,
    /// drawn from this run's seed.
    public static func call(after call: Int) -> Int {
        guard !isExhaustive, call > 2 else { return call + 1 }
        var dice = SplitMix64(seed: Depth.seed &+ UInt64(call))
        return call + call / 2 + dice.below(call)
    }
}

/// Runs the body with a disk of its own in a fresh folder, in memory where the system has a place for it:
/// what a power cut takes is decided by the disk, not by what is below it.
public func withFaultDisk<Result>(
    seed: UInt64, isolation: isolated (any Actor)? = #isolation,
    _ body: (FaultDisk, URL) async throws -> Result
) async throws -> Result {
    let (disk, folder) = try makeFaultDisk(seed: seed)
    defer { try? FileManager.default.removeItem(at: folder) }
    return try await body(disk, folder)
}

/// As above, for a body that does not suspend.
public func withFaultDisk<Result>(seed: UInt64, _ body: (FaultDisk, URL) throws -> Result) throws -> Result {
    let (disk, folder) = try makeFaultDisk(seed: seed)
    defer { try? FileManager.default.removeItem(at: folder) }
    return try body(disk, folder)
}

private func makeFaultDisk(seed: UInt64) throws -> (FaultDisk, URL) {
    let memory = URL(fileURLWithPath: "/dev/shm", isDirectory: true)
    let isThere = FileManager.default.isWritableFile(atPath: memory.path)
    let name = "mimeo-disk-\(String(UInt64.random(in: .min ... .max), radix: 16))"
    let folder = (isThere ? memory : FileManager.default.temporaryDirectory)
        .appendingPathComponent(name, isDirectory: true)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    return (FaultDisk(folder: folder, seed: seed), folder)
}
