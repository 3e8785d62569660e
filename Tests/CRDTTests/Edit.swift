@testable import CRDT

/// One statement's worth of editing, with everything drawn already: a history replays without a generator.
enum Edit: Sendable, CustomStringConvertible {
    case create
    case set([String], Value, declared: TypeDeclaration?, strict: Bool)
    case unset([String], FieldKind?)
    case increment([String], by: Value)
    case restart([String], with: Value)
    /// INSERT INITIAL: does nothing on a live document, nor where this very seed was merged before.
    case seed(Value, declared: TypeDeclaration?)
    case delete

    var description: String {
        switch self {
        case .create: "create"
        case .set(let path, let value, let declared, let strict):
            "set \(path) = \(JSONText.print(value))" + (declared.map { " as \($0.kind)" } ?? "")
                + (strict ? " strictly" : "")
        case .unset(let path, let kind): "unset \(path)\(kind.map { " \($0)" } ?? "")"
        case .increment(let path, let amount): "increment \(path) by \(JSONText.print(amount))"
        case .restart(let path, let value): "restart \(path) with \(JSONText.print(value))"
        case .seed(let value, _): "seed \(JSONText.print(value))"
        case .delete: "delete"
        }
    }

    /// Where and as what kind the statement shows afterwards, when it writes one field.
    var shown: (path: [String], kind: FieldKind)? {
        switch self {
        case .set(let path, _, let declared?, _): (path, declared.kind)
        case .set(let path, .object(let object), nil, strict: false):
            (path, object[AttachmentToken.marker] == nil ? .map : .attachment)
        case .set(let path, _, nil, _): (path, .register)
        case .increment(let path, _), .restart(let path, _): (path, .counter)
        case .create, .unset, .seed, .delete: nil
        }
    }

    /// The outcome of INSERT INITIAL.
    enum SeedOutcome: Equatable {
        case nothing
        /// Written as the operation of this stamp.
        case initial(Stamp)
        /// Written as a regular insert, because its transaction had edited the document before. The seed
        /// itself counts as seen, if the transaction had none yet.
        case regular(seen: Stamp?)
    }

    /// Performs the statement; says what a seed did.
    @discardableResult
    func perform(on editor: inout DocumentEditor) throws -> SeedOutcome {
        switch self {
        case .create: editor.create()
        case .set(let path, let value, let declared, let strict):
            try editor.set(path, value, declared: declared, objectsAreRegisters: strict)
        case .unset(let path, let kind): try editor.unset(path, kind: kind)
        case .increment(let path, let amount): try editor.increment(path, by: amount)
        case .restart(let path, let value): try editor.restart(path, with: value)
        case .seed(let value, let declared):
            let before = editor.pending
            guard try editor.seed(value.objectValue ?? ObjectValue(), declared: declared) else {
                return .nothing
            }
            let stamp = before.seed == nil ? editor.pending.seed?.seedStamp : nil
            if before.isEmpty, let stamp { return .initial(stamp) }
            return .regular(seen: stamp)
        case .delete: editor.delete()
        }
        return .nothing
    }
}
