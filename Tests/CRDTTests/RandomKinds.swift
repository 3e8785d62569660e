import TestSupport

@testable import CRDT

/// One statement on a document with fields of every kind.
enum KindStep: Sendable, CustomStringConvertible {
    case create
    case delete
    case set([String], Value, TypeDeclaration?)
    case increment([String], Value)
    case unset([String], FieldKind?)
    case seed(ObjectValue)

    var description: String {
        switch self {
        case .create: "create"
        case .delete: "delete"
        case .set(let path, let value, let declared):
            "set \(path) \(JSONText.print(value)) \(declared.map { "\($0.kind)" } ?? "")"
        case .increment(let path, let amount): "increment \(path) \(JSONText.print(amount))"
        case .unset(let path, let kind): "unset \(path) \(kind.map { "\($0)" } ?? "")"
        case .seed(let value): "seed \(JSONText.print(.object(value)))"
        }
    }

    func perform(on editor: inout DocumentEditor) throws {
        switch self {
        case .create: editor.create()
        case .delete: editor.delete()
        case .set(let path, let value, let declared): try editor.set(path, value, declared: declared)
        case .increment(let path, let amount): try editor.increment(path, by: amount)
        case .unset(let path, let kind): try editor.unset(path, kind: kind)
        case .seed(let value): _ = try editor.seed(value)
        }
    }
}

extension SplitMix64 {
    private mutating func shortPath() -> [String] {
        (0...pick([0, 0, 1, 1, 2])).map { _ in pick(["a", "b", "c"]) }
    }

    private mutating func number() -> Value {
        pick([1, 5, -3, 0, .int(.max), .int(.min), 0.5, -0.0, 1e308, -1e308, 0.1])
    }

    private mutating func token() -> AttachmentToken {
        AttachmentToken(id: pick(["x", "y"]), length: Int64(below(3)), metadata: [(key: "k", value: "v")])!
    }

    private mutating func small() -> Value {
        switch below(4) {
        case 0: .int(Int64(below(5)))
        case 1: token().marked
        case 2: [pick(["a", "b"]): .int(Int64(below(3)))]
        default: ["a": token().marked, "b": ["c": 1]]
        }
    }

    mutating func kindStep() -> KindStep {
        switch below(24) {
        case 0: return .create
        case 1: return .delete
        case 2, 3: return .unset(shortPath(), nil)
        case 4, 5: return .unset(shortPath(), pick(FieldKind.allCases))
        case 6, 7: return .set(shortPath(), number(), TypeDeclaration(kind: .counter))
        case 8: return .set(shortPath(), token().value, TypeDeclaration(kind: .attachment))
        case 9: return .set(shortPath(), small(), TypeDeclaration(kind: .register))
        case 10...14: return .set(shortPath(), small(), nil)
        case 15:
            let inner: Value = ["c": token().marked]
            return .seed(ObjectValue([(key: "a", value: .int(Int64(below(2)))), (key: "b", value: inner)]))
        default: return .increment(shortPath(), number())
        }
    }

    mutating func kindSteps() -> [KindStep] { (0..<pick([1, 1, 2, 3, 5])).map { _ in kindStep() } }
}

extension SplitMix64 {
    /// A document with fields of every kind that a few actors wrote, partly concurrently, and the delta of
    /// one more transaction with its stamp.
    mutating func kindDocument() -> (document: Document, stamp: Stamp, delta: EncodedDelta) {
        var replicas = Array(repeating: Document(), count: 3)
        for round in 1...8 {
            let index = below(3)
            let stamp = Stamp(time: UInt64(round), actor: ActorID(UInt64(index) + 1))
            var editor = DocumentEditor(document: replicas[index], stamp: stamp)
            for step in kindSteps() { try? step.perform(on: &editor) }
            replicas[index] = editor.document
            if chance(40) { replicas[index].merge(replicas[below(3)]) }
        }
        let document = replicas[0].merged(replicas[1]).merged(replicas[2])
        let stamp = Stamp(time: 99, actor: ActorID(2))
        var editor = DocumentEditor(document: document, stamp: stamp)
        while !editor.hasChanges { for step in kindSteps() { try? step.perform(on: &editor) } }
        return (document, stamp, editor.pending.delta(stamp: stamp)?.encoded() ?? [])
    }
}
