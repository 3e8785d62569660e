import CRDT
import DQL

/// One step of a path: a field or an element.
enum LegacyStep: Sendable, Equatable {
    case key(String)
    case index(Int)
}

/// A place in a document, and what is there.
struct LegacyPlace: Sendable {
    /// The document, or the value, that the path begins in.
    enum Source: Sendable {
        case snapshot(KeptRow)
        case edited(EditedDocument)
        case value(Value)
    }

    let source: Source
    var steps: [LegacyStep] = []

    func then(_ step: LegacyStep) -> LegacyPlace { LegacyPlace(source: source, steps: steps + [step]) }

    /// The value; nil when there is none.
    var value: Value? {
        var rest = steps[...]
        var value: Value?
        switch source {
        case .value(let whole): value = whole
        case .snapshot, .edited:
            guard let row else { return nil }
            guard case .key(let first)? = rest.first else { return rest.isEmpty ? row.decoded : nil }
            rest = rest.dropFirst()
            // One field is decoded, not the document.
            value = (try? row.field(first)) ?? nil
        }
        for step in rest {
            switch (step, value) {
            case (.key(let key), .object(let object)?): value = object[key]
            case (.index(let index), .array(let elements)?) where elements.indices.contains(index):
                value = elements[index]
            default: return nil
            }
        }
        return value
    }

    /// The kind of the field: only a field of maps has one.
    var kind: FieldKind? {
        var keys: [String] = []
        for step in steps {
            guard case .key(let key) = step else { return nil }
            keys.append(key)
        }
        guard let row else { return nil }
        let found: FieldKind?? = row.withDocument { _, bytes in Self.kind(of: keys, in: bytes) }
        return found ?? nil
    }

    private static func kind(of keys: [String], in bytes: UnsafeRawBufferPointer) -> FieldKind? {
        guard let last = keys.last, var map = (try? DocumentReader(bytes))?.root else { return nil }
        for key in keys.dropLast() {
            guard let field = (try? map.field(key)) ?? nil, field.newestKind == .map,
                let below = (try? field.map()) ?? nil
            else { return nil }
            map = below
        }
        return ((try? map.field(last)) ?? nil)?.newestKind
    }

    private var row: KeptRow? {
        switch source {
        case .snapshot(let row): row
        case .edited(let document): document.row
        case .value: nil
        }
    }

    /// The path for people: `a.b[0]`.
    var text: String {
        steps.reduce(into: "") { text, step in
            switch step {
            case .key(let key): text += (text.isEmpty ? "" : ".") + key
            case .index(let index): text += "[\(index)]"
            }
        }
    }
}

// MARK: - Values by type

extension Value {
    /// An integer; also a double that is whole.
    var wholeNumber: Int? {
        switch self {
        case .int(let number): Int(number)
        case .double(let number): Int(exactly: number)
        default: nil
        }
    }

    /// A double; also an integer.
    var anyNumber: Double? {
        switch self {
        case .int(let number): Double(number)
        case .double(let number): number
        default: nil
        }
    }
}
