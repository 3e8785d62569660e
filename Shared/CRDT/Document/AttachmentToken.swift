/// The content of an ATTACHMENT: the name of a blob that is stored elsewhere, by content.
public struct AttachmentToken: Sendable, Equatable {
    /// The key that marks a token in a statement's arguments. An object with this one key and a token under
    /// it is an ATTACHMENT where no type is declared.
    public static let marker = "~attachment"

    /// The blob's id in its blob store; not empty.
    public let id: String
    /// The blob's length in bytes.
    public let length: Int64
    /// The application's description of the blob: texts under unique keys.
    public let metadata: [(key: String, value: String)]

    /// A token; nil when the id is empty or the length negative. The last text of a repeated key counts.
    public init?(id: String, length: Int64, metadata: [(key: String, value: String)] = []) {
        let texts = ObjectValue(metadata.map { (key: $0.key, value: Value.string($0.value)) })
        self.init(["id": .string(id), "len": .int(length), "metadata": .object(texts)])
    }

    /// From a token object `{id, len, metadata}` (`metadata` is optional), or an object that holds one under
    /// `marker`. Nil for anything else.
    public init?(_ value: Value) {
        guard let object = value.objectValue else { return nil }
        let marked = object.count == 1 ? object[Self.marker]?.objectValue : nil
        guard let parts = Self.parts(marked ?? object) else { return nil }
        self = parts
    }

    private init(checked id: String, _ length: Int64, _ metadata: [(key: String, value: String)]) {
        self.id = id
        self.length = length
        self.metadata = metadata
    }

    private static func parts(_ object: ObjectValue) -> AttachmentToken? {
        guard case .string(let id)? = object["id"], !id.isEmpty, case .int(let length)? = object["len"],
            length >= 0
        else { return nil }
        guard let metadata = object["metadata"] else {
            return object.count == 2 ? AttachmentToken(checked: id, length, []) : nil
        }
        guard object.count == 3, case .object(let pairs) = metadata else { return nil }
        var texts: [(key: String, value: String)] = []
        for pair in pairs.sorted {
            guard case .string(let text) = pair.value else { return nil }
            texts.append((key: pair.key, value: text))
        }
        return AttachmentToken(checked: id, length, texts)
    }

    /// The token as reads return it: `{id, len, metadata}`.
    public var value: Value {
        let texts = metadata.map { (key: $0.key, value: Value.string($0.value)) }
        return .object(
            ObjectValue(unique: [
                (key: "id", value: .string(id)), (key: "len", value: .int(length)),
                (key: "metadata", value: .object(ObjectValue(unique: texts))),
            ]))
    }

    /// The token under `marker`: the form in which an application passes it as an argument.
    public var marked: Value { .object(ObjectValue(unique: [(key: Self.marker, value: value)])) }

    /// Same blob and same texts; strings are compared by bytes.
    public static func == (left: AttachmentToken, right: AttachmentToken) -> Bool {
        left.value == right.value
    }

    /// Returns whether an undeclared object is an ATTACHMENT.
    static func isMarked(_ object: ObjectValue) -> Bool {
        object.count == 1 && utf8Equal(object.entries[0].key, marker)
            && AttachmentToken(.object(object)) != nil
    }
}
