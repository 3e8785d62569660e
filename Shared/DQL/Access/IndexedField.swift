import CRDT

/// A field as indexes hold it: read as undeclared.
public struct IndexedField: Sendable {
    private let access: FieldAccess
    private let fields = FieldResolver(isStrict: false, types: [])

    /// The field at a path of at least one step.
    public init(_ path: [String]) {
        access = FieldAccess(
            source: 0, path: path, kinds: Array(repeating: nil, count: path.count), declaration: nil)
    }

    /// The field's value in a document; nil is MISSING.
    public func value(in document: DocumentReader) throws -> Value? { try fields.read(access, in: document) }
}
