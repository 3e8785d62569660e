import CRDT
import DQL
import Testing

/// Every form of the grammar with its printed text, which has to mean the same.
@Suite("Syntax")
struct SyntaxTests {
    @Test("a statement is printed in its canonical form, which reads the same", arguments: forms)
    func canonical(_ written: String, _ printed: String) throws {
        let statement = try StatementCompiler.parse(written)
        #expect(StatementPrinter.print(statement) == printed)
        #expect(try StatementCompiler.parse(printed) == statement)
        #expect(JSONText.print(statement.jsonValue).hasPrefix("{\"node\":"))
    }

    static let forms = selects + sources + inserts + updates + removals + system + expressions

    private static let selects: [(String, String)] = [
        ("select distinct raw a from c", "SELECT DISTINCT RAW a FROM c"),
        ("SELECT VALUE a.b FROM c", "SELECT RAW a.b FROM c"),
        ("SELECT ALL a FROM c", "SELECT a FROM c"),
        (
            "SELECT c.*, MISSING notes, missing a.`b c` FROM c",
            "SELECT c.*, MISSING notes, MISSING a.`b c` FROM c"
        ),
        ("SELECT MISSING AS x, MISSING FROM c", "SELECT MISSING AS x, MISSING FROM c"),
        ("SELECT a x, b `y z` FROM c", "SELECT a AS x, b AS `y z` FROM c"),
        (
            "SELECT * FROM c LIMIT 1 OFFSET 2 ORDER BY a DESC NULLS LAST, b ASC",
            "SELECT * FROM c ORDER BY a DESC NULLS LAST, b LIMIT 1 OFFSET 2"
        ),
        (
            "SELECT a, COUNT(*) FROM c GROUP BY a HAVING COUNT(DISTINCT b) > 1",
            "SELECT a, count(*) FROM c GROUP BY a HAVING count(DISTINCT b) > 1"
        ),
        ("SELECT * FROM c;", "SELECT * FROM c"),
    ]

    private static let sources: [(String, String)] = [
        ("SELECT * FROM COLLECTION c", "SELECT * FROM c"),
        (
            "SELECT * FROM COLLECTION c (a MAP (b MAP (d REGISTER), `e f` COUNTER), g ATTACHMENT, "
                + "h PN_COUNTER)",
            "SELECT * FROM COLLECTION c (a MAP(b MAP(d REGISTER), `e f` COUNTER), g ATTACHMENT, h PN_COUNTER)"
        ),
        ("SELECT * FROM \"room-1\"", "SELECT * FROM `room-1`"),
        ("SELECT * FROM default:`orders`", "SELECT * FROM orders"),
        ("SELECT * FROM SYSTEM:Actives", "SELECT * FROM system:active_requests"),
        ("SELECT * FROM __collections", "SELECT * FROM system:collections"),
        (
            "SELECT * FROM COLLECTION system:data_sync_info (documents MAP)",
            "SELECT * FROM COLLECTION system:data_sync_info (documents MAP)"
        ),
        ("SELECT * FROM c USE IDS 'a', :b WHERE x", "SELECT * FROM c USE IDS 'a', :b WHERE x"),
        (
            "SELECT * FROM c AS d USE IDS LIST :l USE INDEX 'i'",
            "SELECT * FROM c AS d USE IDS LIST :l USE INDEX 'i'"
        ),
        ("SELECT * FROM c USE INDEX ''", "SELECT * FROM c USE INDEX ''"),
        (
            "SELECT * FROM c USE DIRECTIVES '{\"#index\": \"i\"}'",
            "SELECT * FROM c USE DIRECTIVES '{\"#index\":\"i\"}'"
        ),
        (
            "/*+ {\"#a\": 1} */ SELECT --+ {\"#b\": \"*/\"}\n * FROM c /*+ {\"#c\": []} */ WHERE "
                + "x /*+ ignored */ = 1",
            "SELECT /*+ {\"#a\":1,\"#b\":\"*\\/\"} */ * FROM c USE DIRECTIVES '{\"#c\":[]}' WHERE x = 1"
        ),
        ("SELECT * FROM a JOIN b ON a.x = b.x", "SELECT * FROM a INNER JOIN b ON a.x = b.x"),
        (
            "SELECT * FROM a x RIGHT OUTER JOIN b y USE INDEX '' ON x.i = y._id LEFT JOIN c ON "
                + "true WHERE x.i > 1",
            "SELECT * FROM a AS x RIGHT JOIN b AS y USE INDEX '' ON x.i = y._id LEFT JOIN c ON "
                + "TRUE WHERE x.i > 1"
        ),
    ]

    private static let inserts: [(String, String)] = [
        ("INSERT INTO c VALUES (:a), ({'_id': 1})", "INSERT INTO c DOCUMENTS (:a), ({'_id': 1})"),
        (
            "INSERT INTO c documents deserialize_json('{}')",
            "INSERT INTO c DOCUMENTS (deserialize_json('{}'))"
        ),
        (
            "INSERT INTO COLLECTION c (a MAP) INITIAL DOCUMENTS (:a)",
            "INSERT INTO COLLECTION c (a MAP) INITIAL DOCUMENTS (:a)"
        ),
        ("INSERT INTO c DOCUMENTS (:a) ON ID CONFLICT FAIL", "INSERT INTO c DOCUMENTS (:a)"),
        ("INSERT INTO c DOCUMENTS (:a) ON ID CONFLICT DO FAIL", "INSERT INTO c DOCUMENTS (:a)"),
        (
            "INSERT INTO c DOCUMENTS (:a) ON ID CONFLICT DO NOTHING",
            "INSERT INTO c DOCUMENTS (:a) ON ID CONFLICT DO NOTHING"
        ),
        (
            "INSERT INTO c DOCUMENTS (:a) ON ID CONFLICT DO MERGE RETURNING *",
            "INSERT INTO c DOCUMENTS (:a) ON ID CONFLICT DO UPDATE RETURNING *"
        ),
        (
            "INSERT INTO c DOCUMENTS (:a) ON ID CONFLICT DO UPDATE_LOCAL_DIFF RETURNING _id AS i",
            "INSERT INTO c DOCUMENTS (:a) ON ID CONFLICT DO UPDATE_LOCAL_DIFF RETURNING _id AS i"
        ),
        (
            "INSERT INTO c SELECT * FROM d WHERE a LIMIT 3 ON ID CONFLICT DO NOTHING RETURNING COUNT(*)",
            "INSERT INTO c SELECT * FROM d WHERE a LIMIT 3 ON ID CONFLICT DO NOTHING RETURNING count(*)"
        ),
    ]

    private static let updates: [(String, String)] = [
        (
            "UPDATE c d SET a = 1, d.b.c = d.b.c + 1 UNSET e WHERE f LIMIT 1 ORDER BY g RETURNING *",
            "UPDATE c AS d SET a = 1, d.b.c = d.b.c + 1 UNSET e WHERE f ORDER BY g LIMIT 1 RETURNING *"
        ),
        (
            "UPDATE COLLECTION c (n COUNTER) APPLY n INCREMENT BY -1, m RESTART, o RESTART WITH "
                + ":v, p PN_INCREMENT BY 1.5",
            "UPDATE COLLECTION c (n COUNTER) APPLY n INCREMENT BY -1, m RESTART, o RESTART WITH :v, "
                + "p PN_INCREMENT BY 1.5"
        ),
        (
            "UPDATE c USE IDS 'a' APPLY n INCREMENT BY 1 SET a = 1 UNSET b",
            "UPDATE c USE IDS 'a' APPLY n INCREMENT BY 1 SET a = 1 UNSET b"
        ),
        (
            "UPDATE c SET a -> tombstone(), b -> DEFAULT(), c -> (`d e` = 1, f -> (g -> "
                + "tombstone())), h == 2",
            "UPDATE c SET a -> tombstone(), b -> default(), c -> (`d e` = 1, f -> (g -> tombstone())), h = 2"
        ),
        ("UPDATE c SET map.\"key\" = 1, documents = 2", "UPDATE c SET map.key = 1, documents = 2"),
    ]

    private static let removals: [(String, String)] = [
        ("TOMBSTONE FROM c WHERE a", "DELETE FROM c WHERE a"),
        (
            "DELETE FROM COLLECTION c (a MAP) USE IDS 'x' LIMIT 5 ORDER BY b OFFSET 1",
            "DELETE FROM COLLECTION c (a MAP) USE IDS 'x' ORDER BY b LIMIT 5 OFFSET 1"
        ),
        (
            "EVICT FROM c RETURNING DISTINCT, a.DISTINCT, distinct x",
            "EVICT FROM c RETURNING `DISTINCT`, a.`DISTINCT`, `distinct` AS x"
        ),
        ("DELETE FROM c RETURNING COUNT(DISTINCT a) AS n", "DELETE FROM c RETURNING count(DISTINCT a) AS n"),
    ]

    private static let system: [(String, String)] = [
        ("CREATE INDEX i ON c (a)", "CREATE INDEX i ON c (a)"),
        (
            "CREATE INDEX IF NOT EXISTS `my i` ON default:c (a.b DESC INCLUDE MISSING, c EXCLUDE "
                + "MISSING ASC)",
            "CREATE INDEX IF NOT EXISTS `my i` ON c (a.b INCLUDE MISSING DESC, c EXCLUDE MISSING)"
        ),
        ("DROP INDEX IF EXISTS i ON c", "DROP INDEX IF EXISTS i ON c"),
        ("explain select 1 from system:dual", "EXPLAIN SELECT 1 FROM system:dual"),
        ("EXPLAIN ADVISE SELECT * FROM c", "EXPLAIN ADVISE SELECT * FROM c"),
        ("PROFILE DELETE FROM c", "PROFILE DELETE FROM c"),
        ("ADVISE AND PROVISION SELECT * FROM c", "ADVISE AND PROVISION SELECT * FROM c"),
        ("EXPLAIN CREATE INDEX i ON c (a)", "EXPLAIN CREATE INDEX i ON c (a)"),
        (
            "ALTER SYSTEM SET dql_strict_mode TO false PERSIST",
            "ALTER SYSTEM SET dql_strict_mode = FALSE PERSIST"
        ),
        ("ALTER SYSTEM SET x = :v", "ALTER SYSTEM SET x = :v"),
        ("ALTER SYSTEM SET x TO DEFAULT", "ALTER SYSTEM SET x = DEFAULT"),
        (
            "ALTER SYSTEM SET S = {c: \"BigPeerOnly\", 'd': {from: 1}}",
            "ALTER SYSTEM SET S = {'c': 'BigPeerOnly', 'd': {'from': 1}}"
        ),
        ("ALTER SYSTEM RESET x", "ALTER SYSTEM RESET x"),
        ("ALTER SYSTEM RESET ALL", "ALTER SYSTEM RESET ALL"),
        ("SHOW DQL_STRICT_MODE", "SHOW DQL_STRICT_MODE"), ("SHOW ALL", "SHOW ALL"),
        ("SHOW ALL LIKE 'DQL%'", "SHOW ALL LIKE 'DQL%'"), ("SHOW ALL ILIKE :p", "SHOW ALL ILIKE :p"),
    ]

    private static let expressions: [(String, String)] = [
        ("any v in a satisfies v = 1 end", "ANY v IN a SATISFIES v = 1 END"),
        (
            "ANY AND EVERY i:v WITHIN :p SATISFIES i > 1 END",
            "ANY AND EVERY i:v WITHIN :p SATISFIES i > 1 END"
        ),
        (
            "NOT EVERY `v w` IN [1] SATISFIES a OR b END AND c",
            "NOT EVERY `v w` IN [1] SATISFIES a OR b END AND c"
        ),
        ("ARRAY v.x FOR v IN a WHEN v.y END", "ARRAY v.x FOR v IN a WHEN v.y END"),
        ("ARRAY i FOR i:v WITHIN a END[0]", "ARRAY i FOR i:v WITHIN a END[0]"),
        ("OBJECT v.k : :p FOR n:v IN a END", "OBJECT v.k : :p FOR n:v IN a END"),
        (
            "OBJECT k:v FOR k:v IN a WHEN v IS NOT MISSING END",
            "OBJECT k : v FOR k:v IN a WHEN v IS NOT MISSING END"
        ),
        (
            "a SIMILAR TO 'x|y' AND b NOT SIMILAR TO c || 'd' ESCAPE '!'",
            "a SIMILAR TO 'x|y' AND b NOT SIMILAR TO c || 'd' ESCAPE '!'"
        ),
        ("a IN (SELECT RAW b FROM d WHERE e)", "a IN (SELECT RAW b FROM d WHERE e)"),
        ("a NOT IN (SELECT RAW b FROM d)", "a NOT IN (SELECT RAW b FROM d)"),
        ("a IN ((SELECT RAW b FROM d))", "a IN ((SELECT RAW b FROM d))"),
        ("a IN +(SELECT RAW b FROM d)", "a IN +(SELECT RAW b FROM d)"),
        ("NOT EXISTS (SELECT * FROM d)", "NOT EXISTS (SELECT * FROM d)"),
        ("(SELECT RAW x FROM d)[0].y", "(SELECT RAW x FROM d)[0].y"),
        ("cast(a AS INT), CAST(b, 'string')", "CAST(a, 'int'), CAST(b, 'string')"),
        ("POSITION('a' IN b || c)", "pos(b || c, 'a')"), ("position(a, b)", "`position`(a, b)"),
        ("position(a = b, c)", "`position`(a = b, c)"), ("`position`(a IN (b))", "`position`(a IN (b))"),
        ("TRIM(BOTH 'x' FROM s)", "`trim`(s, 'x')"), ("trim(leading from s)", "ltrim(s)"),
        ("TRIM(TRAILING :p FROM s)", "rtrim(s, :p)"), ("TRIM('x' FROM s)", "`trim`(s, 'x')"),
    ].map { ("SELECT \($0) FROM c", "SELECT \($1) FROM c") }
}
