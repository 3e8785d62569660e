import CRDT

/// Type definitions as the store understands them.
enum TypeResolver {
    static func resolve(
        _ fields: [FieldDeclarationSyntax], _ source: SourceText
    ) throws(DQLError) -> TypeDefinition {
        fields.isEmpty
            ? .none
            : TypeDefinition(root: TypeDeclaration(kind: .map, children: try children(fields, source)))
    }

    private static func children(
        _ fields: [FieldDeclarationSyntax], _ source: SourceText
    ) throws(DQLError) -> [(key: String, type: TypeDeclaration)] {
        var children: [(key: String, type: TypeDeclaration)] = []
        for field in fields {
            if children.contains(where: { utf8Equal($0.key, field.name.text) }) {
                throw source.error(
                    .invalidTypeDefinition, "the field \(field.name.text) is declared twice",
                    at: field.name.span)
            }
            let type = TypeDeclaration(
                kind: kind(field.type), children: try self.children(field.children, source))
            children.append((key: field.name.text, type: type))
        }
        return children
    }

    private static func kind(_ type: DeclaredType) -> FieldKind {
        switch type {
        case .register: .register
        case .map: .map
        case .attachment: .attachment
        case .counter, .pnCounter: .counter
        }
    }
}

/// The targets of SET and UNSET: qualified names, declared types, each path once.
struct TargetResolver {
    let source: SourceText
    let binding: SourceBinding
    private var seen: [[String]] = []

    init(source: SourceText, binding: SourceBinding) {
        self.source = source
        self.binding = binding
    }

    /// A target that has passed the checks.
    struct Target {
        let path: [String]
        /// The declared type of the last step.
        let declaration: TypeDeclaration?
        /// The first step above the last that is not declared.
        let undeclaredStep: String?
    }

    mutating func resolve(_ written: TargetSyntax) throws(DQLError) -> Target {
        var path = written.segments
        if path.count > 1, utf8Equal(path[0], binding.name) { path.removeFirst() }
        if utf8Equal(path[0], documentIDField) {
            throw source.error(.idModification, "The document id `_id` cannot be modified", at: written.span)
        }
        if seen.contains(where: { $0.count == path.count && zip($0, path).allSatisfy(utf8Equal) }) {
            throw source.error(
                .duplicateModification,
                "More than one modification specified for the path \(path.joined(separator: "."))",
                at: written.span)
        }
        seen.append(path)
        var declaration: TypeDeclaration? = binding.types.root
        var undeclaredStep: String?
        for (index, name) in path.enumerated() {
            declaration = declaration?[name]
            guard index < path.count - 1 else { break }
            if let kind = declaration?.kind, kind != .map {
                throw source.error(
                    .notAMap,
                    "Unsupported DML operation on \("\(kind)".uppercased()) field \"\(name)\"",
                    at: written.span)
            }
            if declaration == nil, undeclaredStep == nil { undeclaredStep = name }
        }
        return Target(path: path, declaration: declaration, undeclaredStep: undeclaredStep)
    }
}
