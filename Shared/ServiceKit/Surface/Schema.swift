import CRDT

/// The shape of a value in JSON, as the description of a route names it. `value` is its JSON Schema.
public indirect enum Schema: Sendable {
    /// A string.
    case text
    /// A string out of a few.
    case choice([String])
    /// A whole number of at least this.
    case whole(from: Int64)
    /// Any number.
    case number
    /// True or false.
    case flag
    /// Any value.
    case anything
    /// An object with any members.
    case object
    /// Bytes of any kind, or text that is no JSON.
    case bytes
    /// A list of such values.
    case list(Schema)
    /// An object with these members. Answers may have further ones in later versions; requests may not.
    case members([Member])
    /// A shape that several routes share, by its name in `Surface.shapes`.
    case named(String)
    /// The value or null.
    case orNull(Schema)
    /// One of several shapes.
    case either([Schema])

    /// A member of an object.
    public struct Member: Sendable {
        /// Its name.
        public let name: String
        /// The shape of its value.
        public let schema: Schema
        /// For a person; may be empty.
        public let about: String
        /// False if it may be missing.
        public let isRequired: Bool

        /// A member that is always there.
        public static func always(_ name: String, _ schema: Schema, _ about: String = "") -> Member {
            Member(name: name, schema: schema, about: about, isRequired: true)
        }

        /// A member that may be missing.
        public static func maybe(_ name: String, _ schema: Schema, _ about: String = "") -> Member {
            Member(name: name, schema: schema, about: about, isRequired: false)
        }
    }

    /// Its JSON Schema, in the dialect of OpenAPI 3.1.
    var value: Value {
        switch self {
        case .text: ["type": "string"]
        case .choice(let texts): ["type": "string", "enum": .array(texts.map { .string($0) })]
        case .whole(let least): ["type": "integer", "format": "int64", "minimum": .int(least)]
        case .number: ["type": "number"]
        case .flag: ["type": "boolean"]
        case .anything: [:]
        case .object: ["type": "object", "additionalProperties": true]
        case .bytes: ["type": "string", "format": "binary"]
        case .list(let element): ["type": "array", "items": element.value]
        case .named(let name): ["$ref": .string("#/components/schemas/\(name)")]
        case .orNull(let schema): ["anyOf": [schema.value, ["type": "null"]]]
        case .either(let schemas): ["anyOf": .array(schemas.map(\.value))]
        case .members(let members): Self.object(members)
        }
    }

    private static func object(_ members: [Member]) -> Value {
        var properties = ObjectValue()
        for member in members {
            var schema = member.schema.value.objectValue ?? ObjectValue()
            if !member.about.isEmpty { schema["description"] = .string(member.about) }
            properties[member.name] = .object(schema)
        }
        var object: ObjectValue = ObjectValue([(key: "type", value: "object")])
        object["properties"] = .object(properties)
        let required = members.filter(\.isRequired).map { Value.string($0.name) }
        if !required.isEmpty { object["required"] = .array(required) }
        return .object(object)
    }

    /// For people: `{id: text, rows?: [whole]}`.
    var sketch: String {
        switch self {
        case .text: "text"
        case .choice(let texts): texts.map { "\"\($0)\"" }.joined(separator: " | ")
        case .whole(let least): least == 0 ? "whole number" : "whole number from \(least)"
        case .number: "number"
        case .flag: "true | false"
        case .anything: "any value"
        case .object: "{…}"
        case .bytes: "bytes"
        case .list(let element): "[\(element.sketch), …]"
        case .named(let name): name
        case .orNull(let schema): "\(schema.sketch) | null"
        case .either(let schemas): schemas.map(\.sketch).joined(separator: " | ")
        case .members(let members):
            "{"
                + members.map { "\($0.name)\($0.isRequired ? "" : "?"): \($0.schema.sketch)" }
                .joined(separator: ", ") + "}"
        }
    }
}
