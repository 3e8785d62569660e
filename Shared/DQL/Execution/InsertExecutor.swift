import CRDT

/// Runs an INSERT: all documents are collected before the first one is written.
struct InsertExecutor {
    let plan: InsertPlan
    let context: ExecutionContext

    private struct NewDocument {
        let id: DocumentID
        /// The object as given, perhaps with its id.
        let object: ObjectValue
        let span: SourceSpan

        var fields: ObjectValue { object.without(documentIDField) }
    }

    func run(in writer: any DocumentWriter, _ makeID: () throws -> DocumentID) throws -> StatementResult {
        let documents = try documents(writer, makeID)
        var seen: Set<DocumentID> = []
        if documents.count > 1 { seen.reserveCapacity(documents.count) }
        for document in documents where !seen.insert(document.id).inserted {
            throw context.source.error(
                .duplicateIDs, "Expected unique document identifiers", at: document.span)
        }
        var result = StatementResult()
        var covered: FieldWriter.Covered?
        var returning = ReturningExecutor(plan.returning, context)
        try writer.forEachExpected(documents, of: plan.collection, id: \.id) { document in
            try context.meter.check()
            let isWritten =
                plan.isInitial
                ? try seed(document, writer) : try write(document, writer, covered: &covered)
            guard isWritten else { return }
            result.mutatedDocumentIDs.append(document.id)
            try returning.add(plan.collection, document.id, in: writer)
        }
        result.rows = try returning.finish()
        if let covered { result.warnings.append(covered.warning(context.source)) }
        return result
    }

    // MARK: Documents

    private func documents(
        _ writer: any DocumentWriter, _ makeID: () throws -> DocumentID
    ) throws -> [NewDocument] {
        var documents: [NewDocument] = []
        switch plan.source {
        case .documents(let written):
            let evaluator = Evaluator(context.options, types: [])
            for (expression, span) in written {
                let value = try evaluator.evaluate(
                    expression.specialized(context.arguments), Row(documents: [], meter: context.meter))
                guard case .array(let elements)? = value else {
                    documents.append(try document(value, span, makeID))
                    continue
                }
                for element in elements { documents.append(try document(element, span, makeID)) }
            }
        case .query(let query, let span):
            var bytes = 0
            try SelectExecutor(query, writer, context).run { row in
                documents.append(try document(row, span, makeID))
                bytes += row.heldBytes
                try context.meter.hold(documents.count)
                try context.meter.hold(bytes: bytes)
                return true
            }
        }
        return documents
    }

    private func document(
        _ value: Value?, _ span: SourceSpan, _ makeID: () throws -> DocumentID
    ) throws -> NewDocument {
        guard case .object(let object)? = value else {
            throw context.source.error(
                .invalidDocument,
                "INSERT takes objects or arrays of objects, not \(value?.typeName ?? "missing")",
                at: span)
        }
        let id: DocumentID
        if let given = object[documentIDField] {
            do {
                id = try DocumentID(given)
            } catch {
                throw context.source.error(.invalidDocumentID, error.message, at: span)
            }
        } else {
            id = try makeID()
        }
        return NewDocument(id: id, object: object, span: span)
    }

    // MARK: Writing

    /// Writes the document. Returns whether it counts as written.
    private func write(
        _ document: NewDocument, _ writer: any DocumentWriter, covered: inout FieldWriter.Covered?
    ) throws -> Bool {
        // With FAIL the document hardly ever exists, and the insertion finds that out by itself.
        let isKnown = try plan.policy != .fail && writer.exists(plan.collection, document.id)
        if isKnown, plan.policy == .doNothing { return false }
        guard isKnown else {
            if try insert(document, writer) { return true }
            throw context.source.error(
                .idConflict,
                "Identifier conflict on document \"\(document.id)\": using FAIL conflict policy",
                at: document.span)
        }
        var isMutated = true
        try writer.edit(plan.collection, document.id) { editor in
            var writes = FieldWriter(
                editor: editor, source: context.source, span: document.span, options: context.options)
            if plan.policy == .doUpdateLocalDiff {
                isMutated = false
                for field in document.fields.entries {
                    let isWritten = try writes.setDifference([field.key], field.value, plan.types[field.key])
                    isMutated = isMutated || isWritten
                }
            } else {
                for field in document.fields.entries {
                    try writes.set([field.key], field.value, plan.types[field.key])
                }
            }
            editor = writes.editor
            covered = covered ?? writes.covered
        }
        return isMutated
    }

    /// Inserts the document unless it is live. Returns whether it did.
    private func insert(_ document: NewDocument, _ writer: any DocumentWriter) throws -> Bool {
        do {
            return try writer.insert(
                plan.collection, document.id, document.object, declared: plan.types.root,
                objectsAreRegisters: context.options.objectsAreRegisters)
        } catch let error as CRDTError where Self.refusals.contains(error.code) {
            throw FieldWriter.refusal(error, context.source, document.span)
        }
    }

    /// Codes that mean a wrong value, rather than a failing store.
    private static let refusals: Set<CRDTErrorCode> = [.unsupportedKind, .invalidPath, .tooDeep]

    /// Writes INITIAL content. A no-op for a live document, and where this very content was written and
    /// deleted before.
    private func seed(_ document: NewDocument, _ writer: any DocumentWriter) throws -> Bool {
        guard try !writer.exists(plan.collection, document.id) else { return false }
        var isWritten = false
        try writer.edit(plan.collection, document.id) { editor in
            let writes = FieldWriter(
                editor: editor, source: context.source, span: document.span, options: context.options)
            do throws(CRDTError) {
                isWritten = try editor.seed(
                    document.fields, declared: plan.types.root,
                    objectsAreRegisters: context.options.objectsAreRegisters)
            } catch {
                throw writes.refusal(error)
            }
        }
        return isWritten
    }
}
