import TestSupport

@testable import CRDT

extension SplitMix64 {
    /// Few keys, so that writes meet.
    mutating func key() -> String {
        chance(85) ? Path.keys[below(3)] : pick(Path.keys.prefix(6))
    }

    mutating func path() -> [String] { (0...pick([0, 0, 1, 1, 2])).map { _ in key() } }

    private mutating func path(_ places: [[String]]) -> [String] {
        places.isEmpty || chance(35) ? path() : pick(places)
    }

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

    /// More members than are looked up one by one.
    mutating func wideObject() -> ObjectValue {
        let keys = (Path.wideKeys + ["a", "", "é"]).filter { _ in chance(85) }
        return ObjectValue(keys.map { (key: $0, value: value(depth: 0)) })
    }

    /// The amount of an increment: mostly a small integer, sometimes one that overflows or a fraction.
    mutating func amount() -> Value {
        chance(75)
            ? .int(pick([1, 1, 2, 3, 5, -1, 0, 1_000, .max, .min]))
            : .double(pick([0.5, 0.25, -1.5, 0.1, 0.2, -0.0, 1e16, 1e308, -1e308]))
    }

    mutating func token() -> Value {
        var token = ObjectValue()
        token["id"] = .string(pick(["one", "two", "three"]))
        token["len"] = .int(Int64(below(1_000)))
        if chance(60) { token["metadata"] = chance(50) ? [:] : ["name": .string(key())] }
        return .object(token)
    }

    /// A value for a field of a kind.
    mutating func value(for kind: FieldKind) -> Value {
        switch kind {
        case .register: value(depth: 2)
        case .map: .object(object(depth: 2))
        case .counter: chance(80) ? .int(pick([0, 1, 100, -5, .max])) : .double(pick([2.5, -0.5]))
        case .attachment: token()
        }
    }

    private mutating func declaredMap(_ places: [[String]]) -> Edit {
        let kinds = ["a", "b", "c"].map { (key: $0, kind: pick(FieldKind.allCases)) }
        let declared = TypeDeclaration(
            kind: .map,
            children: kinds.map { (key: $0.key, type: TypeDeclaration(kind: $0.kind)) })
        let members = kinds.filter { _ in chance(60) }
            .map { (key: $0.key, value: value(for: $0.kind)) }
        return .set(path(places), .object(ObjectValue(members)), declared: declared, strict: chance(20))
    }

    /// One of few seeds, so that replicas write the same one.
    mutating func seed() -> Edit {
        let declared = TypeDeclaration(
            kind: .map,
            children: [
                (key: "b", type: TypeDeclaration(kind: .counter)),
                (key: "c", type: TypeDeclaration(kind: .attachment)),
            ])
        switch below(5) {
        case 0: return .seed([:], declared: nil)
        case 1: return .seed(["a": 1, "b": ["a": 2]], declared: nil)
        case 2: return .seed(["a": ["a": 1], "b": [1]], declared: nil)
        case 3: return .seed(["a": 2, "b": 7], declared: declared)
        default:
            return .seed(["b": 8, "c": ["id": "one", "len": 3, "metadata": [:]]], declared: declared)
        }
    }

    /// A statement; mostly about one of these places, so that statements meet.
    mutating func edit(_ places: [[String]] = []) -> Edit {
        switch below(40) {
        case 0..<3: .create
        case 3..<5: .delete
        case 5..<9: .unset(path(places), nil)
        case 9..<12: .unset(path(places), pick(FieldKind.allCases))
        case 12: .set(path(places), .object(ObjectValue()), declared: nil, strict: false)
        case 13:
            .set(
                path(places), .object(object(depth: 1)), declared: TypeDeclaration(kind: .register),
                strict: false)
        case 14: .set(path(places), .object(object(depth: 1)), declared: nil, strict: true)
        case 15..<18: declaredMap(places)
        case 18: .set([key()], .object(wideObject()), declared: nil, strict: false)
        case 19..<22: .set(path(places), .object(object(depth: 2)), declared: nil, strict: false)
        case 22..<24: .set(path(places), token(), declared: TypeDeclaration(kind: .attachment), strict: false)
        case 24: .set(path(places), [AttachmentToken.marker: token()], declared: nil, strict: false)
        case 25:
            .set(path(places), value(for: .counter), declared: TypeDeclaration(kind: .counter), strict: false)
        case 26..<31: .increment(path(places), by: amount())
        case 31..<33: .restart(path(places), with: value(for: .counter))
        case 33..<35: seed()
        default: .set(path(places), value(depth: 1), declared: nil, strict: false)
        }
    }

    mutating func transaction(_ places: [[String]] = []) -> [Edit] {
        (0..<pick([1, 1, 1, 2, 3, 5])).map { _ in edit(places) }
    }

    /// A document that several actors wrote, partly concurrently: several values and kinds under a key.
    mutating func document(replicas count: Int = 3, rounds: Int = 12) -> Document {
        var replicas = Array(repeating: Document(), count: count)
        for round in 1...rounds {
            let index = below(count)
            let greatest = replicas[index].vector.greatestTime ?? 0
            let stamp = Stamp(
                time: max(greatest + 1, UInt64(round) << UInt64(below(20))), actor: ActorID(UInt64(index) + 1)
            )
            var editor = DocumentEditor(document: replicas[index], stamp: stamp)
            for edit in transaction() { _ = try? edit.perform(on: &editor) }
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
            for edit in transaction() { _ = try? edit.perform(on: &editor) }
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
            actor: stamp.actor, sequence: SequenceNumber(1 + next() >> UInt64(1 + below(60))),
            timestamp: stamp.time,
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
