import Foundation

/// How much of a test of faults is run: a little in every run of the tests, as much as one likes on demand.
public enum FaultRun {
    /// Power cuts per test: `MIMEO_CUTS`, else 300.
    public static let cuts = number("MIMEO_CUTS") ?? 300
    /// The first seed: `MIMEO_SEED` repeats what a failure named.
    public static let firstSeed = UInt64(number("MIMEO_SEED") ?? 1)

    /// The seeds of a test that makes `cuts` cuts for each.
    public static func seeds(cutsEach cuts: Int) -> Range<UInt64> {
        firstSeed..<firstSeed + UInt64(max(1, Self.cuts / cuts))
    }

    /// Whether a sweep takes every call and every variant: `MIMEO_SWEEP=all`.
    public static let isExhaustive = ProcessInfo.processInfo.environment["MIMEO_SWEEP"] == "all"

    /// The call that a sweep lets fail after this one. Beyond the first ones, hundreds of pages go the same
    /// way, and some of them are enough.
    public static func call(after call: Int) -> Int {
        isExhaustive || call < 25 ? call + 1 : call + call / 4
    }

    private static func number(_ name: String) -> Int? {
        ProcessInfo.processInfo.environment[name].flatMap { Int($0) }
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
