import TestSupport
import Testing

@testable import CRDT

/// As `HostileBytesTests`, over fields of every kind.
@Suite("Hostile bytes of every kind")
struct HostileKindsTests {
    @Test(
        "damaged documents throw or encode to themselves, and read in place what they hold",
        arguments: Depth.cases(fast: 30, deep: 300)
    )
    func documents(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        let valid = (0..<6).map { _ in random.kindDocument().document.encoded().bytes }
        for _ in 0..<300 {
            let bytes = EncodedState(random.damaged(valid))
            let decoded = try? Document(decoding: bytes)
            #expect(decoded.map { $0.encoded() == bytes } ?? true, "seed \(seed): \(bytes)")
            bytes.withUnsafeBytes { raw in
                let root = try? DocumentReader(raw).root
                let value = try? root?.value()
                #expect(decoded.map { $0.value == value } ?? true, "seed \(seed): \(bytes)")
                for key in ["a", "b", "c"] {
                    let conflicts = try? root?.field(key)?.conflicts()
                    #expect(decoded.map { $0.conflicts(at: [key]) == conflicts ?? [] } ?? true)
                }
            }
        }
    }

    @Test(
        "damaged deltas throw or encode to themselves, and apply without a trap",
        arguments: Depth.cases(fast: 30, deep: 300))
    func deltas(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        let made = (0..<6).map { _ in random.kindDocument() }
        for _ in 0..<300 {
            let bytes = EncodedDelta(random.damaged(made.map(\.delta.bytes)))
            let (document, stamp, _) = random.pick(made)
            guard let delta = try? Delta(decoding: bytes, stamp: stamp) else { continue }
            #expect(delta.encoded() == bytes, "seed \(seed): \(bytes)")
            let after = document.applied(delta)
            #expect(try Document(decoding: after.encoded()) == after, "seed \(seed): \(bytes)")
            #expect(after.vector.covers(document.vector))
            let moved = delta.restamped(Stamp(time: 200, actor: ActorID(7)), on: document, admitted: 1)
            #expect(try Delta(decoding: moved.encoded(), stamp: moved.stamp) == moved, "seed \(seed)")
            let anew = document.raised(to: after.vector, by: Stamp(time: 300, actor: ActorID(8)))
            #expect(try Document(decoding: anew.encoded()) == anew, "seed \(seed): \(bytes)")
        }
    }

    @Test(
        "states that still decode merge without a trap, into a state",
        arguments: Depth.cases(fast: 30, deep: 300))
    func merging(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        let valid = (0..<4).map { _ in random.kindDocument().document }
        for _ in 0..<300 {
            let bytes = EncodedState(random.damaged(valid.map { $0.encoded().bytes }))
            guard let decoded = try? Document(decoding: bytes) else { continue }
            let merged = random.pick(valid).merged(decoded)
            #expect(try Document(decoding: merged.encoded()) == merged, "seed \(seed): \(bytes)")
        }
    }
}
