import CRDT

/// The documents of `peers.py`, field by field.
enum Samples {
    static let statuses = ["open", "assigned", "blocked", "done"]
    /// 2023-11-14, as a hybrid timestamp.
    static let start: Timestamp = 1_700_000_000_000 << 16

    /// An order of about 230 bytes of JSON, more with a longer note.
    static func order(_ number: Int, note: Int = 48) -> ObjectValue {
        let digits = String(number)
        let id = "order-" + String(repeating: "0", count: 7 - digits.count) + digits
        return ObjectValue(unique: [
            (key: "_id", value: .string(id)), (key: "status", value: .string(statuses[number % 4])),
            (key: "priority", value: .int(Int64(number % 10))),
            (key: "site", value: .string("site-\(number % 50)")),
            (key: "qty", value: .int(Int64(number * 7919 % 500))),
            (key: "price", value: .double(Double(number * 104_729 % 10_000) / 100)),
            (
                key: "customer",
                value: [
                    "name": .string("Customer \(number % 977)"), "city": .string("City \(number % 211)"),
                ]
            ), (key: "note", value: .string(String(repeating: "n", count: note))),
            (key: "updatedAt", value: .int(1_700_000_000_000 + Int64(number))),
        ])
    }

    /// `count` fields beside an id and an address, about 60 bytes of JSON each.
    static func wide(_ count: Int) -> ObjectValue {
        var entries: [ObjectValue.Entry] = [
            (key: "_id", value: "wide"), (key: "address", value: ["city": "Berlin", "zip": "10115"]),
        ]
        for number in 0..<count - 2 {
            let value: Value =
                switch number % 4 {
                case 0: .int(Int64(number) * 1_000_003)
                case 1: .string("a text of some length, number \(number), as people write them")
                case 2: .string(String(repeating: "x", count: 64 + number))
                default: .double(Double(number) / 7)
                }
            entries.append((key: "field\(number < 10 ? "0" : "")\(number)", value: value))
        }
        return ObjectValue(unique: entries)
    }

    static func inserted(_ object: ObjectValue, _ stamp: Stamp) throws -> Document {
        try edited(Document(), stamp) { editor in
            editor.create()
            for entry in object.entries { try editor.set([entry.key], entry.value) }
        }.document
    }

    static func edited(
        _ document: Document, _ stamp: Stamp, _ body: (inout DocumentEditor) throws -> Void
    ) throws -> (document: Document, delta: EncodedDelta) {
        var editor = DocumentEditor(document: document, stamp: stamp)
        try body(&editor)
        return (editor.document, editor.pending.delta(stamp: stamp)?.encoded() ?? [])
    }
}
