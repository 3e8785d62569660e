/// Types that a statement declares for a document's fields: `features MAP(trim REGISTER)`.
public struct TypeDeclaration: Sendable, Equatable {
    /// The kind of this field.
    public let kind: FieldKind
    /// Declared children; only for a MAP.
    public let children: [(key: String, type: TypeDeclaration)]

    /// A declaration of this kind.
    public init(kind: FieldKind, children: [(key: String, type: TypeDeclaration)] = []) {
        self.kind = kind
        self.children = children
    }

    /// The declared type of a child, if any.
    public subscript(key: String) -> TypeDeclaration? { children.first { utf8Equal($0.key, key) }?.type }

    /// Same kind, same children in the same order.
    public static func == (left: TypeDeclaration, right: TypeDeclaration) -> Bool {
        left.kind == right.kind && left.children.count == right.children.count
            && zip(left.children, right.children).allSatisfy {
                utf8Equal($0.key, $1.key) && $0.type == $1.type
            }
    }
}
