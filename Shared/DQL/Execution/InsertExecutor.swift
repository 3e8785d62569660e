import CRDT

/// Runs an INSERT: all documents are checked before the first one is written.
struct InsertExecutor {
    let plan: InsertPlan
    let source: SourceText
    let evaluator: Evaluator
    let arguments: [Value]
    let options: ExecutionOptions

    private struct NewDocument {
        let id: DocumentID
        let fields: [ObjectValue.Entry]
        let span: SourceSpan
    }

    func run(in writer: any DocumentWriter, _ makeID: () throws -> DocumentID) throws -> StatementResult {
        let documents = try documents(makeID)
        var seen: Set<DocumentID> = []
        for document in documents where !seen.insert(document.id).inserted {
            throw source.error(.duplicateIDs, "Expected unique document identifiers", at: document.span)
        }
        if plan.policy == .fail {
            for document in documents where try writer.exists(plan.collection, document.id) {
                throw source.error(
                    .idConflict,
                    "Identifier conflict on document \"\(document.id)\": using FAIL conflict policy",
                    at: document.span)
            }
        }
        var result = StatementResult()
        for document in documents where try write(document, writer) {
            result.mutatedDocumentIDs.append(document.id)
        }
        return result
    }

    // MARK: Documents

    private func documents(_ makeID: () throws -> DocumentID) throws -> [NewDocument] {
        var documents: [NewDocument] = []
        for (expression, span) in plan.documents {
            let value = try evaluator.evaluate(expression.specialized(arguments), Row(documents: []))
            guard case .array(let elements)? = value else {
                documents.append(try document(value, span, makeID))
                continue
            }
            for element in elements { documents.append(try document(element, span, makeID)) }
        }
        return documents
    }

    private func document(
        _ value: Value?, _ span: SourceSpan, _ makeID: () throws -> DocumentID
    ) throws -> NewDocument {
        guard case .object(let object)? = value else {
            throw source.error(
                .invalidDocument,
                "INSERT takes objects or arrays of objects, not \(value?.typeName ?? "missing")",
                at: span)
        }
        let id: DocumentID
        if let given = object[documentIDField] {
            do {
                id = try DocumentID(given)
            } catch {
                throw source.error(.invalidDocumentID, error.message, at: span)
            }
        } else {
            id = try makeID()
        }
        return NewDocument(
            id: id, fields: object.entries.filter { !utf8Equal($0.key, documentIDField) }, span: span)
    }

    // MARK: Writing

    /// Whether the document counts as written.
    private func write(_ document: NewDocument, _ writer: any DocumentWriter) throws -> Bool {
        let exists = try writer.exists(plan.collection, document.id)
        if exists, plan.policy == .doNothing { return false }
        var isMutated = true
        try writer.edit(plan.collection, document.id) { editor in
            var writes = FieldWriter(
                editor: editor, source: source, span: document.span, options: options)
            if exists, plan.policy == .doUpdateLocalDiff {
                isMutated = false
                for field in document.fields {
                    let isWritten = try writes.setDifference([field.key], field.value, plan.types[field.key])
                    isMutated = isMutated || isWritten
                }
            } else {
                if !exists { writes.editor.create() }
                for field in document.fields {
                    try writes.set([field.key], field.value, plan.types[field.key])
                }
            }
            editor = writes.editor
        }
        return isMutated
    }
}
