import TestSupport

@testable import CRDT

/// One statement's worth of editing, with everything drawn already: a history replays without a generator.
enum Edit: Sendable, CustomStringConvertible {
    case create
    case set([String], Value, declared: TypeDeclaration?)
    case unset([String], FieldKind?)
    case delete

    var description: String {
        switch self {
        case .create: "create"
        case .set(let path, let value, let declared):
            "set \(path) = \(value)\(declared.map { " as \($0.kind)" } ?? "")"
        case .unset(let path, let kind): "unset \(path)\(kind.map { " \($0)" } ?? "")"
        case .delete: "delete"
        }
    }

    func perform(on editor: inout DocumentEditor) throws {
        switch self {
        case .create: editor.create()
        case .set(let path, let value, let declared): try editor.set(path, value, declared: declared)
        case .unset(let path, let kind): try editor.unset(path, kind: kind)
        case .delete: editor.delete()
        }
    }
}

extension SplitMix64 {
    /// Few keys, so that writes meet; two that look the same and differ in bytes, one empty.
    private static let keys = ["a", "b", "c", "é", "e\u{301}", ""]

    mutating func key() -> String {
        chance(85) ? Self.keys[below(3)] : pick(Self.keys)
    }

    mutating func path() -> [String] { (0...pick([0, 0, 1, 1, 2])).map { _ in key() } }

    /// A value of any type; objects and arrays nest to `depth`.
    mutating func value(depth: Int) -> Value {
        switch below(depth > 0 ? 12 : 8) {
        case 0: .null
        case 1: .bool(chance(50))
        case 2: .int(Int64(below(5)))
        case 3: .int(pick([-1, 127, 128, .max, .min, -64, 1 << 40]))
        case 4:
            .double(pick([0.0, -0.0, 1.0, 0.1, .infinity, -.infinity, .nan, .leastNonzeroMagnitude, 1e300]))
        case 5: .string(key())
        case 6: .string(String(repeating: "x", count: pick([0, 62, 63, 64, 65, 200])))
        case 7: .binary(bytes(count: below(4)))
        case 8: .array((0..<below(3)).map { _ in value(depth: depth - 1) })
        default: .object(object(depth: depth - 1))
        }
    }

    mutating func object(depth: Int) -> ObjectValue {
        ObjectValue((0..<below(4)).map { _ in (key: key(), value: value(depth: depth)) })
    }

    mutating func edit() -> Edit {
        switch below(20) {
        case 0, 1: return .create
        case 2: return .delete
        case 3, 4, 5: return .unset(path(), nil)
        case 6: return .unset(path(), pick([FieldKind.register, .map]))
        case 7: return .set(path(), .object(ObjectValue()), declared: nil)
        case 8: return .set(path(), .object(object(depth: 1)), declared: TypeDeclaration(kind: .register))
        case 9:
            let child = (key: "a", type: TypeDeclaration(kind: .register))
            return .set(
                path(), .object(object(depth: 2)), declared: TypeDeclaration(kind: .map, children: [child]))
        case 10, 11, 12: return .set(path(), .object(object(depth: 2)), declared: nil)
        default: return .set(path(), value(depth: 1), declared: nil)
        }
    }

    mutating func transaction() -> [Edit] { (0..<pick([1, 1, 1, 2, 3, 5])).map { _ in edit() } }

    /// A document that several actors wrote, partly concurrently: several values and both kinds under a key.
    mutating func document(replicas count: Int = 3, rounds: Int = 12) -> Document {
        var replicas = Array(repeating: Document(), count: count)
        for round in 1...rounds {
            let index = below(count)
            let greatest = replicas[index].vector.greatestTime ?? 0
            let stamp = Stamp(
                time: max(greatest + 1, UInt64(round) << UInt64(below(20))), actor: ActorID(UInt64(index) + 1)
            )
            var editor = DocumentEditor(document: replicas[index], stamp: stamp)
            for edit in transaction() { try? edit.perform(on: &editor) }
            replicas[index] = editor.hasChanges ? editor.document : replicas[index]
            if chance(25) { replicas[index].merge(replicas[below(count)]) }
        }
        return replicas.dropFirst().reduce(into: replicas[0]) { $0.merge($1) }
    }

    /// A delta that `document` could have been given next, by an actor of its own.
    mutating func delta(on document: Document) -> Delta {
        let stamp = Stamp(
            time: (document.vector.greatestTime ?? 0) + 1 + UInt64(below(300)), actor: ActorID(9))
        var editor = DocumentEditor(document: document, stamp: stamp)
        while !editor.hasChanges {
            for edit in transaction() { try? edit.perform(on: &editor) }
        }
        guard let delta = editor.pending.delta(stamp: stamp) else { preconditionFailure("no edits") }
        return delta
    }

    /// An operation of a few changes to random documents in two collections.
    mutating func operation() -> Operation {
        let stamp = Stamp(time: next() >> 8 | 1 << 54, actor: ActorID(9))
        let changes = (0..<below(5)).map { number in
            var editor = DocumentEditor(document: document(rounds: 3), stamp: stamp)
            editor.create()
            let delta = editor.pending.delta(stamp: stamp)?.encoded() ?? []
            return Operation.Change(
                collection: pick(["cars", "people"]), id: DocumentID.numbered(number), delta: delta)
        }
        return Operation(
            actor: stamp.actor, sequence: 1 + next() >> UInt64(1 + below(60)), timestamp: stamp.time,
            changes: changes)
    }
}

extension DocumentID {
    /// Ids of several types, distinct by number.
    static func numbered(_ number: Int) -> DocumentID {
        let value: Value =
            number.isMultiple(of: 2)
            ? .string("document \(number)") : ["n": .int(Int64(number)), "region": "é"]
        guard let id = try? DocumentID(value) else { preconditionFailure("a valid id was refused") }
        return id
    }
}
