import CRDT

/// Converts type definitions to the store's declarations.
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
    private var seen = PathTree()

    init(source: SourceText, binding: SourceBinding) {
        self.source = source
        self.binding = binding
    }

    /// A target that has passed the checks.
    struct Target {
        let path: [String]
        /// The declared type of the last step.
        let declaration: TypeDeclaration?
        /// The first undeclared step above the last.
        let undeclaredStep: String?
        let span: SourceSpan
    }

    mutating func resolve(_ written: TargetSyntax) throws(DQLError) -> Target {
        var path = written.segments
        if path.count > 1, utf8Equal(path[0], binding.name) { path.removeFirst() }
        if utf8Equal(path[0], documentIDField) {
            throw source.error(.idModification, "The document id `_id` cannot be modified", at: written.span)
        }
        try checkOverlap(path, written.span)
        var declaration: TypeDeclaration? = binding.types.root
        var undeclaredStep: String?
        for (index, name) in path.enumerated() {
            declaration = declaration?[name]
            guard index < path.count - 1 else { break }
            if let kind = declaration?.kind, kind != .map {
                throw refusal(kind, name, written.span)
            }
            if declaration == nil, undeclaredStep == nil { undeclaredStep = name }
        }
        return Target(
            path: path, declaration: declaration, undeclaredStep: undeclaredStep, span: written.span)
    }

    /// Throws for two changes of one field, or of a field and one below it: the statement gives them no
    /// order.
    private mutating func checkOverlap(_ path: [String], _ span: SourceSpan) throws(DQLError) {
        var prefix: [UInt8] = []
        for (index, name) in path.enumerated() {
            prefix += PathTree.step(name)
            let isLast = index == path.count - 1
            guard !seen.ends.contains(prefix), !(isLast && seen.inner.contains(prefix)) else {
                throw source.error(
                    .duplicateModification,
                    "More than one modification specified for the path "
                        + path[...index].joined(separator: "."),
                    at: span)
            }
            if isLast { seen.ends.insert(prefix) } else { seen.inner.insert(prefix) }
        }
    }

    /// The paths so far and their ancestors, as bytes.
    private struct PathTree {
        var ends: Set<[UInt8]> = []
        var inner: Set<[UInt8]> = []

        /// A name as bytes that no other name's bytes begin with.
        static func step(_ name: String) -> [UInt8] {
            withUnsafeBytes(of: UInt64(name.utf8.count).bigEndian) { Array($0) } + Array(name.utf8)
        }
    }

    /// The error of a change that the field's declared type does not allow.
    func refusal(_ kind: FieldKind, _ name: String, _ span: SourceSpan) -> DQLError {
        source.error(
            .notAMap, "Unsupported DML operation on \("\(kind)".uppercased()) field \"\(name)\"", at: span)
    }
}
