import Foundation
import TestSupport
import Testing

@testable import CRDT

/// Damaged and invented bytes: a typed error or a value, never a trap, and what decodes is canonical.
@Suite("Hostile bytes")
struct HostileBytesTests {
    static let seeds = 0..<40

    @Test(
        "damaged documents throw or encode to themselves, and reading them in place never traps",
        arguments: seeds)
    func documents(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        let valid = (0..<4).map { _ in random.document(rounds: 5).encoded().bytes }
        for _ in 0..<300 {
            let bytes = EncodedState(random.damaged(valid))
            let decoded = try? Document(decoding: bytes)
            #expect(decoded.map { $0.encoded() == bytes } ?? true, "seed \(seed): \(bytes)")
            bytes.withUnsafeBytes { raw in
                let reader = try? DocumentReader(raw)
                let inPlace = try? reader?.root.value()
                #expect(decoded.map { $0.value == inPlace } ?? true, "seed \(seed): \(bytes)")
            }
        }
    }

    @Test("damaged documents that still decode merge without a trap", arguments: seeds)
    func mergingDamaged(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed) + 1_000)
        let valid = (0..<2).map { _ in random.document(rounds: 5).encoded().bytes }
        let original = try Document(decoding: EncodedState(valid[0]))
        for _ in 0..<300 {
            guard let foreign = try? Document(decoding: EncodedState(random.damaged(valid))) else { continue }
            var left = original
            left.merge(foreign)
            var right = foreign
            right.merge(original)
            #expect(left.vector == right.vector)
            #expect(try Document(decoding: left.encoded()) == left)
            #expect(try Document(decoding: right.encoded()) == right)
        }
    }

    @Test(
        "damaged deltas throw or encode to themselves, and touch only what their base covers",
        arguments: seeds)
    func deltas(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        let document = random.document()
        let deltas = (0..<4).map { _ in random.delta(on: document) }
        for _ in 0..<300 {
            let bytes = EncodedDelta(random.damaged(deltas.map { $0.encoded().bytes }))
            let stamp = random.pick(deltas).stamp
            guard let delta = try? Delta(decoding: bytes, stamp: stamp) else { continue }
            #expect(delta.encoded() == bytes, "seed \(seed): \(bytes)")
            var after = document
            let outcome = after.apply(delta)
            #expect(outcome == .applied || after == document)
            let lost = document.facts.subtracting(after.facts)
            #expect(lost.allSatisfy { delta.base.covers($0.stamp) }, "seed \(seed): \(bytes)")
            #expect(after.facts.subtracting(document.facts).allSatisfy { $0.stamp == stamp })
            #expect(try Document(decoding: after.encoded()) == after)
        }
    }

    @Test("damaged operations and vectors throw or encode to themselves", arguments: seeds)
    func operations(_ seed: Int) {
        var random = SplitMix64(seed: UInt64(seed))
        let valid = (0..<4).map { _ in random.operation().encoded() }
        let vectors = (0..<4).map { _ in random.document().vector.encoded() }
        for _ in 0..<300 {
            let bytes = random.damaged(valid)
            let decoded = try? Operation(decoding: bytes)
            #expect(decoded.map { $0.encoded() == bytes } ?? true, "seed \(seed): \(bytes)")
            #expect(decoded == nil || (try? OperationHeader.peek(bytes)) != nil)
            let vector = random.damaged(vectors)
            #expect((try? VersionVector(decoding: vector)).map { $0.encoded() == vector } ?? true)
        }
    }

    @Test("damaged CBOR and JSON throw or give a value that survives", arguments: seeds)
    func texts(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        let values = (0..<6).map { _ in random.value(depth: 4) }
        for _ in 0..<300 {
            if let value = try? CBOR.decode(random.damaged(values.map { CBOR.encode($0) })) {
                #expect(try CBOR.decode(CBOR.encode(value)) == value)
            }
            let texts = values.map { Array(JSONText.print($0).utf8) }
            if let value = try? JSONText.parse(random.damaged(texts)) {
                #expect(try JSONText.parse(JSONText.print(value)) == value)
            }
        }
    }

    @Test("random bytes never trap", arguments: seeds)
    func noise(_ seed: Int) {
        var random = SplitMix64(seed: UInt64(seed))
        for _ in 0..<500 {
            var bytes = random.bytes(count: random.below(64))
            if random.chance(80), bytes.count > 1 { bytes.replaceSubrange(0..<2, with: [1, 0]) }
            let stamp = Stamp(time: random.next(), actor: ActorID(random.next()))
            let document = try? Document(decoding: EncodedState(bytes))
            #expect(document.map { $0.encoded().bytes == bytes } ?? true)
            let delta = try? Delta(decoding: EncodedDelta(bytes), stamp: stamp)
            #expect(delta.map { $0.encoded().bytes == bytes } ?? true)
            let operation = try? Operation(decoding: bytes)
            #expect(operation.map { $0.encoded() == bytes } ?? true)
            _ = try? CBOR.decode(bytes)
            _ = try? JSONText.parse(bytes)
            _ = try? DocumentID(canonical: bytes)
            bytes.withUnsafeBytes { raw in _ = try? DocumentReader(raw).root.value() }
        }
    }

    @Test("an announced count beyond the bytes at hand is refused, not allocated", arguments: [3, 5, 9])
    func announcedCounts(_ width: Int) {
        let huge = Array(repeating: UInt8(0xFF), count: width - 1) + [0x7F]
        let code = { (body: () throws -> Void) -> CRDTErrorCode? in
            do { try body() } catch { return (error as? CRDTError)?.code }
            return nil
        }
        let stamp = Stamp(time: 9, actor: ActorID(9))
        #expect(code { _ = try Document(decoding: EncodedState([1, 0] + huge)) } == .truncated)
        #expect(code { _ = try Document(decoding: EncodedState([1, 0, 0] + huge)) } == .truncated)
        #expect(code { _ = try Document(decoding: EncodedState([1, 0, 0, 1, 0] + huge)) } == .truncated)
        #expect(
            code { _ = try Document(decoding: EncodedState([1, 0, 0, 1, 0, 0, 0] + huge)) } == .truncated)
        #expect(code { _ = try Delta(decoding: EncodedDelta([1, 0] + huge), stamp: stamp) } == .truncated)
        #expect(
            code { _ = try Delta(decoding: EncodedDelta([1, 0, 0, 4] + huge), stamp: stamp) } == .truncated)
        for tag: UInt8 in [5, 6, 7, 8] {
            #expect(
                code {
                    _ = try Delta(decoding: EncodedDelta([1, 0, 0, 4, 1, 0, 2, tag] + huge), stamp: stamp)
                }
                    == .truncated)
        }
        let header = [UInt8](repeating: 1, count: 1) + [0] + [UInt8](repeating: 7, count: 8) + [1]
        let operation = header + [UInt8](repeating: 7, count: 8)
        #expect(code { _ = try Operation(decoding: operation + huge) } == .truncated)
        #expect(code { _ = try VersionVector(decoding: huge) } == .truncated)
        for major: UInt8 in [2, 3, 4, 5] {
            let head = [major << 5 | 27] + [UInt8](repeating: 0x7F, count: 8)
            #expect(code { _ = try CBOR.decode(head) } == .truncated)
        }
    }

    @Test("bytes nested as deep as they go throw on a thread with a small stack")
    func smallStack() throws {
        let long = 100_000
        let deepCBOR = [UInt8](repeating: 0x81, count: long)
        let taggedCBOR = [UInt8](repeating: 0xC1, count: long)
        let deepJSON = [UInt8](repeating: UInt8(ascii: "["), count: long)
        let deepObjects = Array(String(repeating: "{\"a\":", count: long).utf8)
        let deepDelta = [1, 0, 0] + Array(repeating: [4, 1, 0, 4] as [UInt8], count: long).joined()
        let stamp = Stamp(time: 9, actor: ActorID(9))
        let codes = try onSmallStack {
            [
                errorCode { try CBOR.decode(deepCBOR) }, errorCode { try CBOR.decode(taggedCBOR) },
                errorCode { try JSONText.parse(deepJSON) }, errorCode { try JSONText.parse(deepObjects) },
                errorCode { try Delta(decoding: EncodedDelta(deepDelta), stamp: stamp) },
            ]
        }
        #expect(codes == Array(repeating: .tooDeep, count: codes.count))
    }

    @Test("the deepest documents, texts and ids can be worked with on a thread with a small stack")
    func deepestOnSmallStack() throws {
        let nested = (0..<Limits.nestingDepth - 1).reduce(Value.int(1)) { inner, _ in ["a": inner] }
        let codes = try onSmallStack {
            [true, false].map { isRegister in
                errorCode {
                    let stamp = Stamp(time: 1, actor: ActorID(1))
                    var editor = DocumentEditor(document: Document(), stamp: stamp)
                    try editor.set(["a"], nested, objectsAreRegisters: isRegister)
                    let bytes = editor.document.encoded()
                    var decoded = try Document(decoding: bytes)
                    decoded.merge(Document())
                    _ = try bytes.withUnsafeBytes { raw in try DocumentReader(raw).root.value() }
                    _ = try Delta(decoding: editor.pending.delta(stamp: stamp)?.encoded() ?? [], stamp: stamp)
                    _ = try JSONText.parse(JSONText.print(.object(decoded.value)))
                    return try DocumentID(.object(decoded.value)).value == .object(editor.document.value)
                }
            }
        }
        #expect(codes == [nil, nil])
    }

    @Test("an index of a stamp at the end of the numbers is refused when reading in place")
    func hugeStampIndex() {
        let index = [UInt8](repeating: 0x80, count: 9) + [1]
        let bytes = [1, 0, 0, 1, 0, 0] + index + [1, 2, 0, 0, 0, 0x21, 0x80]
        let code = bytes.withUnsafeBytes { raw in errorCode { try DocumentReader(raw).root.value() } }
        #expect(code == .malformed)
    }

    @Test("maps nested without end are refused when reading in place")
    func nestedInPlace() throws {
        var inner: [UInt8] = [1, 0, 0]
        for _ in 0..<4_000 { inner = [0, 1, 1, 2, 0, 0, 0, 2, 0x7F] + inner }
        let bytes = [1, 0, 0, 1, 0] + inner
        let code = try onSmallStack {
            bytes.withUnsafeBytes { raw in errorCode { try DocumentReader(raw).root.value() } }
        }
        #expect(code == .tooDeep)
    }
}

/// The code of the error a body throws, nil when it returns.
func errorCode(_ body: () throws -> some Any) -> CRDTErrorCode? {
    do { _ = try body() } catch { return (error as? CRDTError)?.code }
    return nil
}

/// Runs a body on a thread with 512 KiB of stack, what dispatch gives its workers.
func onSmallStack<Result: Sendable>(_ body: @escaping @Sendable () -> Result) throws -> Result {
    let box = ResultBox<Result>()
    let thread = Thread {
        box.result = body()
        box.done.signal()
    }
    thread.stackSize = 512 * 1_024
    thread.start()
    box.done.wait()
    return try #require(box.result)
}

/// `@unchecked Sendable`: written by the one thread before it signals, read after the wait.
private final class ResultBox<Result>: @unchecked Sendable {
    let done = DispatchSemaphore(value: 0)
    var result: Result?
}

extension SplitMix64 {
    /// Valid bytes with some of them cut, flipped, doubled, or exchanged with a piece of other valid bytes.
    mutating func damaged(_ valid: [[UInt8]]) -> [UInt8] {
        var bytes = pick(valid)
        for _ in 0..<(1 + below(3)) where !bytes.isEmpty {
            let start = below(bytes.count)
            let end = start + below(bytes.count - start + 1)
            let other = pick(valid)
            switch below(7) {
            case 0: bytes.removeSubrange(start...)
            case 1: bytes.removeSubrange(start..<min(end, start + 4))
            case 2: bytes[start] ^= 1 << UInt8(below(8))
            case 3: bytes[start] = pick([0, 1, 2, 0x40, 0x7F, 0x80, 0xFF])
            case 4: bytes.insert(contentsOf: bytes[start..<min(end, start + 12)], at: start)
            case 5: bytes.insert(contentsOf: [UInt8](repeating: 0xFF, count: 8) + [1], at: start)
            default: bytes.replaceSubrange(start..<end, with: other.suffix(below(other.count + 1)))
            }
        }
        return bytes
    }
}
