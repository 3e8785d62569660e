import CRDT

/// Writes fields through an editor and turns the store's refusals into errors of the statement.
struct FieldWriter {
    var editor: DocumentEditor
    let source: SourceText
    /// The value's place in the statement.
    var span: SourceSpan
    let options: ExecutionOptions
    /// The first field whose COUNTER stays beside what was written, and the value's place.
    private(set) var covered: Covered?

    /// A field that held a COUNTER when another kind of value was written.
    struct Covered {
        let path: [String]
        let span: SourceSpan

        func warning(_ source: SourceText) -> DQLWarning {
            let name = path.joined(separator: ".")
            return source.warning(
                .registerBesideCounter,
                "\(name) held a COUNTER, which stays beside the new value: the next increment shows its old "
                    + "sum again. APPLY \(name) RESTART WITH sets a counter; UNSET \(name) removes it",
                at: span)
        }
    }

    init(editor: DocumentEditor, source: SourceText, span: SourceSpan, options: ExecutionOptions) {
        (self.editor, self.source, self.span, self.options) = (editor, source, span, options)
    }

    mutating func set(_ path: [String], _ value: Value, _ declared: TypeDeclaration?) throws(DQLError) {
        let covers = covered == nil && declared?.kind != .counter && editor.newestKind(at: path) == .counter
        do {
            try editor.set(path, value, declared: declared, objectsAreRegisters: options.objectsAreRegisters)
        } catch {
            throw refusal(error)
        }
        if covers { covered = Covered(path: path, span: span) }
    }

    /// Returns whether there was anything to remove.
    @discardableResult
    mutating func unset(_ path: [String], _ kind: FieldKind?) throws(DQLError) -> Bool {
        do {
            let isThere = editor.holds(path, kind: kind)
            try editor.unset(path, kind: kind)
            return isThere
        } catch {
            throw refusal(error)
        }
    }

    /// Writes null; an empty MAP for a field declared as one.
    mutating func reset(_ path: [String], _ declared: TypeDeclaration?) throws(DQLError) {
        guard declared?.kind == .map else { return try set(path, .null, declared) }
        try unset(path, .map)
        try set(path, .object(ObjectValue()), declared)
    }

    /// Adds to a COUNTER. `amount` is the statement's amount: a whole number, or any finite one if
    /// `isFractional`.
    mutating func increment(_ path: [String], _ amount: Value, isFractional: Bool) throws(DQLError) {
        switch amount {
        case .int: break
        case .double(let number) where isFractional && number.isFinite: break
        default:
            let wanted = isFractional ? "PN_INCREMENT BY takes a number" : "INCREMENT BY takes an integer"
            throw source.error(.invalidAmount, "\(wanted), not \(amount.described)", at: span)
        }
        do {
            try editor.increment(path, by: amount)
        } catch {
            throw refusal(error)
        }
    }

    mutating func restart(_ path: [String], _ value: Value) throws(DQLError) {
        switch value {
        case .int: break
        case .double(let number) where number.isFinite: break
        default:
            throw source.error(
                .invalidAmount, "RESTART WITH takes a number, not \(value.described)", at: span)
        }
        do {
            try editor.restart(path, with: value)
        } catch {
            throw refusal(error)
        }
    }

    /// Writes only the differences from the present value; below a MAP, key by key. Returns whether anything
    /// was written.
    mutating func setDifference(
        _ path: [String], _ value: Value, _ declared: TypeDeclaration?
    ) throws(DQLError) -> Bool {
        let newest = editor.newestKind(at: path)
        let becomesMap = declared.map { $0.kind == .map } ?? !options.objectsAreRegisters
        if becomesMap, newest == .map, case .object(let object) = value {
            var isWritten = false
            for entry in object.entries
            where try setDifference(path + [entry.key], entry.value, declared?[entry.key]) {
                isWritten = true
            }
            return isWritten
        }
        let isOfDeclaredKind = declared.map { $0.kind == newest } ?? true
        if isOfDeclaredKind, editor.value(at: path) == Self.shown(value, newest) { return false }
        try set(path, value, declared)
        return true
    }

    /// The value as a reader of that kind sees it: an attachment as the whole token without its mark.
    private static func shown(_ value: Value, _ kind: FieldKind?) -> Value {
        kind == .attachment ? AttachmentToken(value)?.value ?? value : value
    }

    func refusal(_ error: CRDTError) -> DQLError { Self.refusal(error, source, span) }

    static func refusal(_ error: CRDTError, _ source: SourceText, _ span: SourceSpan) -> DQLError {
        switch error.code {
        case .unsupportedKind: source.error(.unsupportedType, error.message, at: span)
        case .invalidPath: source.error(.notAMap, error.message, at: span)
        default: source.error(.unstorableValue, error.message, at: span)
        }
    }
}
