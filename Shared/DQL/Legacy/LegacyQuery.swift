import CRDT

/// The query language before DQL: `color == 'red' && year >= $args.year`. It is parsed to the syntax tree of
/// a WHERE clause, and means the same as that clause.
///
/// Spec section 4.3. Besides the documented form it accepts AND, OR, NOT, `=` and `<>` as DQL writes them:
/// permissions are written in either language.
public enum LegacyQuery {
    /// The condition of a query. Throws with the position of the error.
    public static func parse(_ text: String) throws(DQLError) -> ExpressionSyntax {
        do {
            var parser = try LegacyParser(text)
            return try parser.query()
        } catch {
            guard let word = statementWord(text) else { throw error }
            throw SourceText(text: text).error(
                .syntax, "a legacy query is a condition, not a statement", at: word)
        }
    }

    /// The word that begins a DQL statement, if the text begins with one.
    private static func statementWord(_ text: String) -> SourceSpan? {
        guard var lexer = try? Lexer(SourceText(text: text)), let token = try? lexer.next(),
            case .word(_, let keyword?) = token.kind,
            [.select, .insert, .update, .delete, .evict].contains(keyword)
        else { return nil }
        return token.span
    }

    /// The query as `SELECT * FROM collection WHERE …`. Throws `invalidCollectionName` and the parser's
    /// errors.
    public static func select(
        _ text: String, from collection: CollectionName
    ) throws(DQLError) -> SelectStatement {
        let condition = try parse(text)
        return SelectStatement(
            projection: .all(SourceSpan(start: 0, end: 0)), source: try source(collection),
            selection: SelectionSyntax(condition: condition))
    }

    /// The collection as a statement's source. Throws `invalidCollectionName`.
    static func source(_ collection: CollectionName) throws(DQLError) -> SourceSyntax {
        guard !collection.text.isEmpty, collection.text.utf8.count <= Limits.collectionNameBytes else {
            throw DQLError(
                .invalidCollectionName, "a collection name has 1 to \(Limits.collectionNameBytes) bytes")
        }
        let name = NameSyntax(text: collection.text, span: SourceSpan(start: 0, end: 0))
        return SourceSyntax(collection: CollectionSyntax(name: name, isSystem: false, fields: []))
    }

    /// A value as a query writes it; nil for binary data, which the language cannot write.
    public static func literal(_ value: Value) -> String? {
        switch value {
        case .null: return "null"
        case .bool(let flag): return flag ? "true" : "false"
        case .int(let number): return String(number)
        case .double(let number): return number.isFinite ? "\(number)" : nil
        case .string(let text): return quoted(text)
        case .binary: return nil
        case .array(let elements):
            let texts = elements.compactMap(literal)
            return texts.count == elements.count ? "[" + texts.joined(separator: ", ") + "]" : nil
        case .object(let object):
            let texts = object.sorted.compactMap { entry in
                literal(entry.value).map { quoted(entry.key) + ": " + $0 }
            }
            return texts.count == object.count ? "{" + texts.joined(separator: ", ") + "}" : nil
        }
    }

    /// A text in double quotes: only quotes and backslashes are escaped, as the language reads them.
    private static func quoted(_ text: String) -> String {
        var bytes: [UInt8] = [UInt8(ascii: "\"")]
        for byte in text.utf8 {
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { bytes.append(UInt8(ascii: "\\")) }
            bytes.append(byte)
        }
        return String(decoding: bytes + [UInt8(ascii: "\"")], as: UTF8.self)
    }

    /// The same as DQL text, to be compiled, executed or subscribed to. `$args.name` is the parameter
    /// `:name`.
    public static func statement(_ text: String, from collection: CollectionName) throws(DQLError) -> String {
        StatementPrinter.print(.select(try select(text, from: collection)))
    }
}
