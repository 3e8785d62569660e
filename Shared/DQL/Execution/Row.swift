import CRDT

/// The input of an expression: the documents in place, one per source, or the slots of a group.
struct Row {
    var documents: [DocumentRecord?]
    var slots: [Value?] = []
    /// The values of the variables in reach, innermost last.
    var locals: [Value?] = []
    /// Counts the elements that expressions go through; nil counts nothing.
    var meter: ExecutionMeter?
}

/// Reads documents in place: it touches the path, not the document.
struct FieldResolver: Sendable {
    /// Strict reading: undeclared fields are REGISTERs.
    let isStrict: Bool
    /// The types declared for each source.
    let types: [TypeDefinition]

    func read(_ access: FieldAccess, in document: DocumentReader) throws -> Value? {
        if access.path.count == 1 {
            guard let field = try document.root.field(access.path[0]) else { return nil }
            let kind = access.kinds[0] ?? (isStrict ? .register : field.newestKind)
            return kind == .register
                ? try field.register() : try value(of: field, kind, access.declaration)
        }
        var map = document.root
        for index in access.path.indices {
            guard let field = try map.field(access.path[index]) else { return nil }
            let kind = access.kinds[index] ?? (isStrict ? .register : field.newestKind)
            if index == access.path.count - 1 { return try value(of: field, kind, access.declaration) }
            switch kind {
            case .map?:
                guard let below = try field.map() else { return nil }
                map = below
            case nil: return nil
            case let kind?:
                guard var value = try field.value(kind) else { return nil }
                for name in access.path[(index + 1)...] {
                    guard let next = value[name] else { return nil }
                    value = next
                }
                return value
            }
        }
        return nil
    }

    /// The order of a field's text and another text, compared in place; nil when the field is not a text.
    /// The same as `read`, with less work for the commonest condition.
    func compare(_ access: FieldAccess, _ text: String, in document: DocumentReader) throws -> Int? {
        var map = document.root
        for index in access.path.indices {
            guard let field = try map.field(access.path[index]) else { return nil }
            let kind = access.kinds[index] ?? (isStrict ? .register : field.newestKind)
            if index == access.path.count - 1 {
                guard kind == .register, let found = try field.registerText() else { return nil }
                if let order = text.utf8.withContiguousStorageIfAvailable({
                    compareBytes(found, UnsafeRawBufferPointer($0))
                }) {
                    return order
                }
                return compareUTF8(String(decoding: found, as: UTF8.self), text)
            }
            guard kind == .map, let below = try field.map() else {
                return ValueOrder.comparison(try read(access, in: document), .string(text))
            }
            map = below
        }
        return nil
    }

    /// The concurrent values of a field that is reached through MAPs; nil if the field does not exist.
    func conflicts(_ access: FieldAccess, in record: DocumentRecord) throws -> Value? {
        var map = record.document.root
        for index in access.path.indices.dropLast() {
            guard let field = try map.field(access.path[index]), let below = try field.map() else {
                return nil
            }
            map = below
        }
        guard let last = access.path.last, let field = try map.field(last) else { return nil }
        return .array(try field.conflicts())
    }

    /// The document with `_id` first.
    func document(_ record: DocumentRecord, source: Int) throws -> ObjectValue {
        let fields = try value(of: record.document.root, types[source].root)
        var entries: [ObjectValue.Entry] = []
        entries.reserveCapacity(fields.count + 1)
        entries.append((key: documentIDField, value: record.id.value))
        for entry in fields.entries where !utf8Equal(entry.key, documentIDField) { entries.append(entry) }
        return ObjectValue(unique: entries)
    }

    private func value(
        of field: FieldReader, _ kind: FieldKind?, _ declared: TypeDeclaration?
    ) throws(CRDTError) -> Value? {
        guard kind == .map else { return try field.value(kind) }
        guard let map = try field.map() else { return nil }
        return .object(try value(of: map, declared))
    }

    private func value(of map: MapReader, _ declared: TypeDeclaration?) throws(CRDTError) -> ObjectValue {
        if !isStrict, declared?.children.isEmpty ?? true { return try map.value() }
        var entries: [ObjectValue.Entry] = []
        try map.forEach { (key, field) throws(CRDTError) in
            let child = declared?[key]
            let kind = child?.kind ?? (isStrict ? .register : field.newestKind)
            if let value = try value(of: field, kind, child) { entries.append((key: key, value: value)) }
        }
        return ObjectValue(unique: entries)
    }
}
