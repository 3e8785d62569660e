import CRDT
import DQL

/// Documents for the relations: collection `c` holds any of them; collection `r` holds their fields that are
/// not objects, so that nothing in it is a MAP.
public struct GeneratedDocuments: Sendable {
    private(set) var documents: [ObjectValue] = []
    private var edits: [(statement: String, arguments: ObjectValue)] = []

    /// Draws up to `most` documents and a few edits of them.
    public init(_ choices: inout Choices, most: Int) {
        let rotation = choices.below(ValuePool.ids.count)
        while documents.count < most, choices.below(3 * most) > 0 || documents.isEmpty {
            let place = (rotation + documents.count) % ValuePool.ids.count
            documents.append(Self.document(id: ValuePool.ids[place], &choices))
        }
        while edits.count < 4, choices.chance(40) {
            edits.append(Self.edit(id: choices.pick(documents)["_id"] ?? .null, &choices))
        }
    }

    /// A field is mostly present; `n`, `s` and `l` mostly hold one type, the others any.
    private static func document(id: Value, _ choices: inout Choices) -> ObjectValue {
        var entries: [ObjectValue.Entry] = [(key: "_id", value: id)]
        for key in ["a", "b", "q"] where choices.chance(80) {
            entries.append((key: key, value: choices.value()))
        }
        if choices.chance(80) {
            entries.append(
                (key: "n", value: choices.chance(10) ? choices.value() : .int(Int64(choices.below(5)))))
        }
        if choices.chance(80) {
            let text = Value.string(choices.pick(ValuePool.strings))
            entries.append((key: "s", value: choices.chance(10) ? choices.value() : text))
        }
        if choices.chance(60) {
            let list = choices.pick(ValuePool.arrays)
            entries.append((key: "l", value: choices.chance(10) ? choices.value() : list))
        }
        if choices.chance(60) {
            var inner: [ObjectValue.Entry] = []
            for key in ["x", "y"] where choices.chance(70) {
                inner.append((key: key, value: choices.value()))
            }
            if choices.chance(40) { inner.append((key: "deep", value: ["z": choices.value()])) }
            entries.append((key: "o", value: .object(ObjectValue(inner))))
        }
        if choices.chance(30) { entries.append((key: "x y", value: choices.scalar())) }
        return ObjectValue(entries)
    }

    private static func edit(id: Value, _ choices: inout Choices) -> (
        statement: String, arguments: ObjectValue
    ) {
        let statement = choices.pick([
            "UPDATE c SET a = :v WHERE _id = :id", "UPDATE c SET o.x = :v WHERE _id = :id",
            "UPDATE c SET o = :v WHERE _id = :id", "UPDATE c UNSET b WHERE _id = :id",
            "UPDATE c UNSET o.x, s WHERE _id = :id", "DELETE FROM c WHERE _id = :id",
            "INSERT INTO c DOCUMENTS ({'_id': :id, 'b': :v}) ON ID CONFLICT DO UPDATE",
            "UPDATE COLLECTION c (a REGISTER) SET a = :v WHERE _id = :id", "EVICT FROM c WHERE _id = :id",
            "UPDATE c APPLY n INCREMENT BY 2 WHERE _id = :id",
            "UPDATE c APPLY o.x RESTART WITH 7 WHERE _id = :id",
        ])
        return (statement, ["id": id, "v": choices.value()])
    }

    /// Writes the documents.
    public func insert(into engine: any StatementEngine) throws {
        _ = try engine.execute(
            "INSERT INTO c DOCUMENTS (:d)", ["d": .array(documents.map { .object($0) })], strict: false)
        for edit in edits { _ = try engine.execute(edit.statement, edit.arguments, strict: false) }
        let registers = documents.map { document in
            Value.object(
                ObjectValue(
                    document.entries.filter { utf8Equal($0.key, "_id") || $0.value.objectValue == nil }))
        }
        _ = try engine.execute("INSERT INTO r DOCUMENTS (:d)", ["d": .array(registers)], strict: false)
    }
}

extension GeneratedDocuments: CustomStringConvertible {
    /// The documents and edits, one per line.
    public var description: String {
        (documents.map(\.words) + edits.map { "\($0.statement) with \($0.arguments.words)" })
            .joined(separator: "\n")
    }
}
