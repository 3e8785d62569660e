import TestSupport
import Testing

@testable import CRDT

/// Short histories of a few replicas over fields of every kind: what any of them does is one delta, what
/// deltas give states give, and what covers the same is the same, byte for byte.
@Suite("Histories of every kind")
struct KindHistoryTests {
    private struct Sent {
        let delta: Delta
        let after: Document
    }

    @Test("deltas and states agree, in any order", arguments: Depth.cases(fast: 60, deep: 600))
    func histories(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        for _ in 0..<8 { try history(&random, seed) }
    }

    private func history(_ random: inout SplitMix64, _ seed: Int) throws {
        var replicas = Array(repeating: Document(), count: 3)
        var sent: [Sent] = []
        var seen: [VersionVector: [UInt8]] = [:]
        for round in 1...18 {
            let index = random.below(3)
            if random.chance(55) {
                let after = try write(&random, replicas[index], round, index, seed)
                if let after { sent.append(after) }
                replicas[index] = after?.after ?? replicas[index]
            } else if random.chance(60), !sent.isEmpty {
                replicas[index] = try deliver(random.pick(sent), to: replicas[index], seed)
            } else {
                replicas[index].merge(replicas[random.below(3)])
            }
            let bytes = replicas[index].encoded().bytes
            let known = seen.updateValue(bytes, forKey: replicas[index].vector)
            #expect(known == nil || known == bytes, "equal vectors, seed \(seed), round \(round)")
            try checkRoundTrip(replicas[index], bytes, seed)
        }
        try checkLaws(replicas, seed)
    }

    private func write(
        _ random: inout SplitMix64, _ document: Document, _ round: Int, _ index: Int, _ seed: Int
    ) throws -> Sent? {
        let stamp = Stamp(time: UInt64(round), actor: ActorID(UInt64(index) + 1))
        var after = document
        var pending: DocumentEditor.Pending?
        let steps = random.kindSteps()
        for step in steps {
            var editor = DocumentEditor(document: after, pending: pending, stamp: stamp)
            try step.perform(on: &editor)
            after = try Document(decoding: editor.document.encoded())
            pending = editor.pending
        }
        guard let delta = pending?.delta(stamp: stamp) else {
            #expect(after == document, "seed \(seed), \(steps)")
            return nil
        }
        let decoded = try Delta(decoding: delta.encoded(), stamp: stamp)
        #expect(decoded == delta && decoded.encoded() == delta.encoded(), "seed \(seed), \(steps)")
        var applied = document
        #expect(applied.apply(decoded) == .applied)
        #expect(applied == after, "seed \(seed), \(steps)")
        #expect(applied.vector == document.vector.union(delta.resultingVector))
        return Sent(delta: decoded, after: after)
    }

    private func deliver(_ sent: Sent, to document: Document, _ seed: Int) throws -> Document {
        var after = document
        let joined = document.merged(sent.after)
        switch after.apply(sent.delta) {
        case .applied:
            // A delta that only brings a seed has no base: it adds the seed, and nothing of what its sender
            // had.
            var seedAlone = Document()
            if !sent.delta.writesStamp { _ = seedAlone.apply(sent.delta) }
            let expected = sent.delta.writesStamp ? joined : document.merged(seedAlone)
            #expect(after == expected, "seed \(seed)")
        case .duplicate: #expect(after == document)
        case .baseMissing:
            #expect(after == document)
            after = joined
        }
        return after
    }

    private func checkRoundTrip(_ document: Document, _ bytes: [UInt8], _ seed: Int) throws {
        #expect(try Document(decoding: EncodedState(bytes)) == document, "seed \(seed)")
        try bytes.withUnsafeBytes { raw in
            let reader = try DocumentReader(raw)
            #expect(try reader.root.value() == document.value, "seed \(seed)")
            #expect(reader.isLive == document.isLive, "seed \(seed)")
            for key in ["a", "b", "c"] {
                let field = try reader.root.field(key)
                let slot = document.root[key].flatMap { $0.isVisible ? $0 : nil }
                #expect(field?.newestKind == slot?.newestKind, "seed \(seed)")
                #expect(try field?.conflicts() ?? [] == document.conflicts(at: [key]), "seed \(seed)")
                for kind in FieldKind.allCases {
                    #expect(try field?.value(kind) == slot?.value(of: kind), "seed \(seed)")
                }
            }
        }
    }

    private func checkLaws(_ replicas: [Document], _ seed: Int) throws {
        let (a, b, c) = (replicas[0], replicas[1], replicas[2])
        #expect(a.merged(b) == b.merged(a), "seed \(seed)")
        #expect(a.merged(b).merged(c) == a.merged(b.merged(c)), "seed \(seed)")
        #expect(a.merged(a) == a)
        #expect(a.merged(b).merged(b) == a.merged(b), "seed \(seed)")
    }
}
