@testable import CRDT

/// A decoded fixture as plain JSON: stamps are `time@actor`, 64-bit numbers are strings, binaries
/// `{"$binary": hex}`, and doubles that JSON has no word for `{"$double": "nan"}`.
enum Exemplar {
    static func describe(_ kind: String, _ bytes: [UInt8], _ stamp: Stamp) throws -> Value {
        switch kind {
        case "document": describe(try Document(decoding: EncodedState(bytes)))
        case "delta": describe(try Delta(decoding: EncodedDelta(bytes), stamp: stamp))
        case "operation": try describe(try Operation(decoding: bytes))
        case "vector": describe(try VersionVector(decoding: bytes))
        case "id": plain(try DocumentID(canonical: bytes).value)
        default: throw Broken("unknown kind \(kind)")
        }
    }

    static func again(_ kind: String, _ bytes: [UInt8], _ stamp: Stamp) throws -> [UInt8] {
        switch kind {
        case "document": try Document(decoding: EncodedState(bytes)).encoded().bytes
        case "delta": try Delta(decoding: EncodedDelta(bytes), stamp: stamp).encoded().bytes
        case "operation": try Operation(decoding: bytes).encoded()
        case "vector": try VersionVector(decoding: bytes).encoded()
        case "id": try DocumentID(try DocumentID(canonical: bytes).value).bytes
        default: throw Broken("unknown kind \(kind)")
        }
    }

    private static func describe(_ document: Document) -> Value {
        [
            "vector": describe(document.vector), "value": plain(.object(document.value)),
            "root": describe(document.root),
        ]
    }

    private static func describe(_ node: MapNode) -> Value {
        let fields = node.fields.map { field in (key: field.key, value: describe(field.slot)) }
        return [
            "presence": .array(node.presence.map { .string(describe($0)) }),
            "fields": .object(ObjectValue(fields)),
        ]
    }

    private static func describe(_ slot: Slot) -> Value {
        var result = ObjectValue()
        result["register"] = slot.register.isEmpty ? nil : describe(slot.register)
        result["map"] = slot.map.map { describe($0) }
        result["counter"] = slot.counter.map { describe($0) }
        result["attachment"] = slot.attachment.isEmpty ? nil : describe(slot.attachment)
        return .object(result)
    }

    private static func describe(_ leaves: Leaves) -> Value {
        .array(
            leaves.map { leaf -> Value in
                ["stamp": .string(describe(leaf.stamp)), "value": plain(leaf.value)]
            })
    }

    private static func describe(_ counter: CounterNode) -> Value {
        let entries = counter.entries.map { entry -> Value in
            var result = ObjectValue()
            result["actor"] = .string(entry.actor.description)
            result["entry"] = describe(entry.point)
            result["baseline"] = entry.baseline.map { describe($0) }
            if entry.point.since != nil { result["newSum"] = true }
            return .object(result)
        }
        return ["restarts": describe(counter.restarts), "entries": .array(entries)]
    }

    private static func describe(_ point: CounterNode.Point) -> Value {
        ["time": .string("\(point.time)"), "total": plain(point.total)]
    }

    private static func describe(_ delta: Delta) -> Value {
        var result = ObjectValue()
        result["base"] = describe(delta.base)
        result["seed"] = delta.seed.map { describe($0) }
        result["seedStamp"] = delta.seedStamp.map { .string(describe($0)) }
        result["edit"] = describe(delta.root)
        return .object(result)
    }

    private static func describe(_ edit: MapEdit) -> Value {
        let fields = edit.fields.map { field in (key: field.key, value: describe(field.slot)) }
        return [
            "clears": .bool(edit.clears), "writesPresence": .bool(edit.writesPresence),
            "fields": .object(ObjectValue(fields)),
        ]
    }

    private static func describe(_ edit: SlotEdit) -> Value {
        var result = ObjectValue()
        result["clearsRegister"] = .bool(edit.clearsRegister)
        result["register"] = edit.register.map { plain($0) }
        result["map"] = edit.map.map { describe($0) }
        result["counter"] = edit.counter.map { describe($0) }
        result["clearsAttachment"] = edit.clearsAttachment ? true : nil
        result["attachment"] = edit.attachment.map { plain($0) }
        return .object(result)
    }

    private static func describe(_ edit: CounterEdit) -> Value {
        let baselines = edit.baselines.map { baseline -> Value in
            ["actor": .string(baseline.actor.description), "entry": describe(baseline.point)]
        }
        var result = ObjectValue()
        result["baselines"] = .array(baselines)
        result["clearsRestarts"] = .bool(edit.clearsRestarts)
        result["restart"] = edit.restart.map { plain($0) }
        result["amount"] = edit.amount.map { plain($0) }
        if edit.beginsSum { result["newSum"] = true }
        return .object(result)
    }

    private static func describe(_ operation: Operation) throws -> Value {
        let changes = try operation.changes.map { change -> Value in
            var result = ObjectValue()
            result["collection"] = .string(change.collection.text)
            result["id"] = plain(change.id.value)
            switch try LoggedChange(decoding: change.delta, stamp: operation.stamp) {
            case .delta(let delta): result["delta"] = describe(delta)
            case .insertion(let insertion): result["delta"] = describe(try insertion.decoded())
            case .state(let document): result["state"] = describe(document)
            case .reaping(let vector): result["reaped"] = describe(vector)
            }
            return .object(result)
        }
        var result = ObjectValue()
        result["actor"] = .string(operation.actor.description)
        result["sequence"] = .string("\(operation.sequence)")
        result["timestamp"] = .string("\(operation.timestamp)")
        result["origin"] = operation.origin.map { .string(ActorID($0).description) }
        result["changes"] = .array(changes)
        return .object(result)
    }

    private static func describe(_ vector: VersionVector) -> Value {
        .object(
            ObjectValue(vector.entries.map { (key: $0.actor.description, value: Value.string("\($0.time)")) })
        )
    }

    static func describe(_ stamp: Stamp) -> String { "\(stamp.time)@\(stamp.actor)" }

    private static func plain(_ value: Value) -> Value {
        switch value {
        case .binary(let run): ["$binary": .string(Hex.encode(run))]
        case .double(let number) where !number.isFinite: ["$double": .string(number.description)]
        case .array(let elements): .array(elements.map { plain($0) })
        case .object(let object): .object(ObjectValue(object.entries.map { ($0.key, plain($0.value)) }))
        default: value
        }
    }
}
