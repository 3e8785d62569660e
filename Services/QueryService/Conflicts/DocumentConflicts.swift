import CRDT
import DQL
import ServiceKit

/// The concurrent values of a document: writes that knew nothing of each other, of which no later write has
/// replaced any. The greatest stamp shows; the others are kept until somebody writes the field (rule 4).
struct DocumentConflicts: Sendable {
    /// A field with more than one value.
    struct Field: Sendable {
        let path: [String]
        /// REGISTER or ATTACHMENT.
        let kind: FieldKind
        /// The value that shows, then the others, the later ones first.
        let values: [(value: Value, stamp: Stamp)]
    }

    let fields: [Field]
    /// Bytes of the encoded document.
    let bytes: Int

    /// - Throws: a `CRDTError` of a damaged document.
    init(_ record: DocumentRecord) throws(CRDTError) {
        let document = try Document(decoding: record.document.bytes)
        bytes = record.document.bytes.count
        fields = document.diff(from: Document()).changes.compactMap { change in
            guard let side = change.after, !side.conflicts.isEmpty,
                change.writers.count == side.conflicts.count + 1
            else { return nil }
            // From nothing, every stamp is a new one; the values and their stamps both descend.
            let values = zip([side.value] + side.conflicts, change.writers.reversed())
            return Field(path: change.path, kind: change.kind, values: values.map { ($0, $1) })
        }
    }

    /// Returns whether a document may have concurrent values: they come of different actors.
    static func mayBe(in record: DocumentRecord) throws(CRDTError) -> Bool {
        try record.document.vector().entries.count > 1
    }

    /// The actors that wrote the values.
    var actors: Set<ActorID> {
        Set(fields.flatMap { field in field.values.map(\.stamp.actor) })
    }

    /// The fields for people: each value with who wrote it and when.
    func value(authors: [ActorID: String]) -> Value {
        .array(
            fields.map { field in
                let values = field.values.enumerated().map { place, one -> Value in
                    var entry = ObjectValue([(key: "value", value: one.value)])
                    entry["shown"] = .bool(place == 0)
                    ChangeAuthor(one.stamp, authors[one.stamp.actor] ?? "").describe(in: &entry)
                    return .object(entry)
                }
                var item = ObjectValue([
                    (key: "path", value: .array(field.path.map { .string($0) })),
                    (key: "kind", value: .string("\(field.kind)")), (key: "values", value: .array(values)),
                ])
                item.noteUnwritableNumber()
                return .object(item)
            })
    }
}
