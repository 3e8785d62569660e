import CRDT
import DQL
import DQLCorpus
import Testing

@Suite("Errors")
struct ErrorTests {
    /// One statement for every code that a statement alone can raise.
    static let statements: [(DQLErrorCode, String)] = [
        (.invalidCharacter, "SELECT ^ FROM c"),
        (.unterminated, "SELECT 'a"),
        (.invalidNumber, "SELECT 0x FROM c"),
        (.invalidEscape, "SELECT '\\u12' FROM c"),
        (.syntax, "SELECT ) FROM c"),
        (.reservedWord, "SELECT * FROM select"),
        (.unexpectedEnd, "SELECT"),
        (.severalStatements, "DELETE FROM c; DELETE FROM d"),
        (.elementAssignment, "UPDATE c SET a[1] = 2"),
        (.unquotedKey, "SELECT {k: 1} FROM c"),
        (.parenthesizedIDs, "SELECT * FROM c USE IDS ('a')"),
        (.mixedStar, "SELECT a, * FROM c"),
        (.ungroupedProjection, "SELECT a FROM c GROUP BY b"),
        (.ungroupedTerm, "SELECT b FROM c GROUP BY b HAVING a"),
        (.misplacedAggregate, "DELETE FROM c WHERE COUNT(*) > 1"),
        (.unknownFunction, "SELECT nope(1) FROM c"),
        (.wrongArguments, "SELECT abs() FROM c"),
        (.unknownSource, "SELECT d.* FROM c"),
        (.fieldWithoutDocument, "INSERT INTO c DOCUMENTS ({'a': b})"),
        (.idModification, "UPDATE c SET _id = 1"),
        (.duplicateModification, "UPDATE c SET a = 1, a = 2"),
        (.notAMap, "UPDATE COLLECTION c (a REGISTER) SET a.b = 1"),
        (.invalidTypeDefinition, "SELECT * FROM COLLECTION c (a MAP, a MAP)"),
        (.invalidCollectionName, "SELECT * FROM `\(String(repeating: "n", count: 513))`"),
        (.invalidDirectives, "SELECT * FROM c USE DIRECTIVES 'no object'"),
        (.readOnlyCollection, "EVICT FROM system:dual"),
        (.unknownType, "SELECT CAST(a AS nope) FROM c"),
        (.unknownParameter, "SHOW nope"),
        (.unknownCollection, "SELECT * FROM system:nope"),
        (.reservedCollection, "DELETE FROM __c"),
        (.notAField, "SELECT conflicts(a + 1) FROM c"),
        (.invalidPattern, "SELECT * FROM c WHERE a SIMILAR TO '(a'"),
        (.unsupportedClause, "SELECT * FROM c, d"),
        (.duplicateSource, "SELECT * FROM c JOIN c ON c.a = 1"),
        (.ambiguousField, "SELECT a FROM c JOIN d ON c.a = d._id"),
        (.joinWithoutIndex, "SELECT * FROM c JOIN d ON c.a = d.a"),
        (.unsupportedType, "INSERT INTO COLLECTION c (n COUNTER) DOCUMENTS ({'n': 'x'})"),
        (.invalidPattern, "SELECT regexp_like(a, '(') FROM c"),
        (.statementTooLong, "SELECT '" + String(repeating: "x", count: 1_048_576) + "' FROM c"),
        (.nestingTooDeep, "SELECT " + String(repeating: "(", count: 10_000) + "1"),
        (
            .inListTooLong,
            "SELECT * FROM c WHERE a IN (" + Array(repeating: "1", count: 65_537).joined(separator: ",") + ")"
        ),
        (
            .tooManyTerms, "SELECT " + Array(repeating: "a", count: 4_097).joined(separator: ",") + " FROM c"
        ),
        (.missingArgument, "SELECT * FROM c WHERE a = :a"),
        (.invalidArgument, "SELECT * FROM c LIMIT 1.5"),
        (.collectionNotOffered, "SELECT * FROM system:vitals"),
        (.systemStatement, "ALTER SYSTEM SET dql_strict_mode = true"),
        (.invalidIndex, "CREATE INDEX i ON c (_id)"),
        (.duplicateIDs, "INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 1})"),
        (.invalidDocument, "INSERT INTO c DOCUMENTS (1)"),
        (.invalidDocumentID, "INSERT INTO c DOCUMENTS ({'_id': {'a': 1.5}})"),
    ]

    @Test("each code has a statement that raises it at a position", arguments: statements)
    func raised(_ code: DQLErrorCode, _ statement: String) throws {
        let error = try #require(failure(of: statement))
        #expect(error.code == code, "\(error)")
        #expect(error.line != nil && error.column != nil)
        #expect(!error.message.isEmpty)
    }

    @Test("the codes that need a store are raised too")
    func raisedByStores() throws {
        let store = MemoryStore()
        _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        let conflict = #expect(throws: DQLError.self) {
            try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        }
        #expect(conflict?.code == .idConflict)
        let reading = #expect(throws: DQLError.self) {
            try StatementCompiler.compile("DELETE FROM c").rows(in: store)
        }
        #expect(reading?.code == .readOnly)
        let index = #expect(throws: DQLError.self) {
            try StatementCompiler.compile("CREATE INDEX i ON c (a)").rows(in: store)
        }
        #expect(index?.code == .indexStatement)
        #expect(DQLError.tooManyIndexes("c").code == .tooManyIndexes)
        #expect(reading?.message == "A mutating DQL query was attempted using a read-only transaction.")
        let damaged = #expect(throws: DQLError.self) {
            try StatementCompiler.compile("SELECT * FROM c").rows(in: DamagedStore())
        }
        #expect(damaged?.code == .unreadableDocument)
        let deep = Value.array([]).nested(levels: 128)
        let unstorable = #expect(throws: DQLError.self) {
            try store.execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'a': :deep})", ["deep": deep])
        }
        #expect(unstorable?.code == .unstorableValue)
    }

    @Test("every code is raised by this suite, every warning by the corpus")
    func complete() {
        let elsewhere: Set<DQLErrorCode> = [
            .idConflict, .readOnly, .unreadableDocument, .unstorableValue, .unsupportedSubscription,
            // In ExecutionLimitTests and the corpus.
            .indexExists, .unknownIndex, .indexStatement, .tooManyIndexes, .severalRows,
            .tooManyRows, .tooManySteps, .cancelled, .timeout, .invalidAmount,
            // In RequestTurnsTests of DittoSwift.
            .tooManyRequests,
        ]
        #expect(Set(Self.statements.map(\.0)).union(elsewhere) == Set(DQLErrorCode.allCases))
        let warned = Set(Corpus.cases.flatMap(\.steps).compactMap(\.warnings).joined())
        // In ServerIndexTests.
        let atStores = [DQLWarningCode.indexNotNew.rawValue]
        #expect(warned.union(atStores) == Set(DQLWarningCode.allCases.map(\.rawValue)))
    }

    @Test(
        "a close word is suggested",
        arguments: [
            ("SELCT * FROM c", "SELECT"), ("SELECT * FORM c", "FROM"),
            ("SELECT * FROM c WHER a = 1", "WHERE"),
            ("INSERT INTO c INTIAL DOCUMENTS ({'a': 1})", "INITIAL"), ("SELECT lowr(a) FROM c", "lower"),
            ("SELECT cat.* FROM cats", "cats"), ("UPDATE c SETT a = 1", "SET"),
            ("SELECT CAST(a AS strng) FROM c", "string"),
            ("SELECT a FROM c WHERE a = 1 ODER BY a", "ORDER"),
        ])
    func suggestion(_ statement: String, _ word: String) throws {
        #expect(try #require(failure(of: statement)).suggestion == word)
    }

    @Test("the offending token is named, cut when long")
    func token() throws {
        #expect(try #require(failure(of: "SELECT * FROM c WHERE ,")).token == ",")
        let long = String(repeating: "x", count: 100)
        let error = try #require(failure(of: "SELECT * FROM c d \(long)"))
        #expect(error.token?.count ?? 0 <= 41)
    }

    @Test("the description holds code, position, message and suggestion")
    func description() throws {
        let error = try #require(failure(of: "SELECT * FORM c"))
        #expect(
            error.description == "DQL-0105 at 1:10: expected FROM or ',', found FORM (did you mean FROM?)")
    }
}

extension Value {
    func nested(levels: Int) -> Value {
        (0..<levels).reduce(self) { value, _ in .array([value]) }
    }
}

/// A store with one document that has lost its bytes.
private struct DamagedStore: DocumentSource {
    func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        throw CRDTError(.malformed, "no document")
    }

    func lookup(_ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void)
        throws
    {}
}
