import CRDT

/// Writes fields through an editor and turns what the store refuses into errors of the statement.
struct FieldWriter {
    var editor: DocumentEditor
    let source: SourceText
    /// Where in the statement the value comes from.
    var span: SourceSpan
    let options: ExecutionOptions

    mutating func set(_ path: [String], _ value: Value, _ declared: TypeDeclaration?) throws(DQLError) {
        do {
            try editor.set(path, value, declared: declared, objectsAreRegisters: options.strictMode)
        } catch {
            throw refusal(error)
        }
    }

    mutating func unset(_ path: [String], _ kind: FieldKind?) throws(DQLError) {
        do {
            try editor.unset(path, kind: kind)
        } catch {
            throw refusal(error)
        }
    }

    /// Writes only what differs from the present value; below a MAP, key by key. Returns whether it wrote
    /// anything.
    mutating func setDifference(
        _ path: [String], _ value: Value, _ declared: TypeDeclaration?
    ) throws(DQLError) -> Bool {
        let present = editor.value(at: path)
        let becomesMap = declared.map { $0.kind == .map } ?? !options.strictMode
        if becomesMap, case .object(let object) = value, editor.newestKind(at: path) == .map {
            var isWritten = false
            for entry in object.entries
            where try setDifference(path + [entry.key], entry.value, declared?[entry.key]) {
                isWritten = true
            }
            return isWritten
        }
        if present == value { return false }
        try set(path, value, declared)
        return true
    }

    private func refusal(_ error: CRDTError) -> DQLError {
        switch error.code {
        case .unsupportedKind: source.error(.unsupportedType, error.message, at: span)
        case .invalidPath: source.error(.notAMap, error.message, at: span)
        default: source.error(.unstorableValue, error.message, at: span)
        }
    }
}
