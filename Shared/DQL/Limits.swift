/// The module's limits: name with unit, value, reason. The codes DQL-04xx report most of them.
public enum DQLLimits {
    /// The longest statement, in UTF-8 bytes. Values belong in arguments; a longer text is a mistake or an
    /// attack.
    public static let statementBytes = 1_048_576
    /// How deep expressions and type definitions may nest, in levels, counted on the tree: parser, analyzer,
    /// evaluator and printer are recursive and must fit a 512 KiB stack (optimized).
    public static let nestingDepth = 128
    /// The most elements of an `IN (…)` list; a longer list belongs in an array argument.
    public static let inListElements = 65_536
    /// The most projections, group keys, sort terms, assignments, or fields of one type definition. They are
    /// compared with one another; nobody writes a statement with more.
    public static let clauseTerms = 4_096
    /// The most warnings that one statement's analysis gives, and the most about its lists in IN. Each one
    /// searches the text for its position, and nobody reads more.
    public static let warnings = 32
    /// The most documents of a collection whose types are looked at when none fulfils a condition: enough to
    /// meet a field that most documents have, and still quick.
    public static let typedDocuments = 256
    /// The most different aggregates of one statement: they are compared with one another, and each is
    /// stored per group.
    public static let aggregates = 1_024
    /// The most directives in the hints at one place. They are merged one by one.
    public static let directives = 256
    /// The greatest edit distance, in characters, at which a keyword or name is offered as a suggestion.
    static let suggestionDistance = 2
    /// The number of elements from which `IN :array` uses a set rather than comparing one by one: below it,
    /// building the set costs more than it saves.
    static let setLookupElements = 8
    /// The rows that a top-k sort may hold before it prunes, as a factor of `LIMIT + OFFSET`: pruning at
    /// every row would cost more than the memory is worth.
    static let topRowsSlack = 2
    /// The longest token that an error quotes, in characters.
    static let quotedTokenCharacters = 40
    /// How many prepared statements a cache holds unless `dql_statement_cache_size` says otherwise.
    public static let cachedStatements = 4_096
    /// The longest statement that a cache holds, in UTF-8 bytes. A longer one contains values and will
    /// hardly come again.
    public static let cachedTextBytes = 16_384
    /// The most text that a cache holds in total, in UTF-8 bytes; the trees take some sixty times as much.
    public static let cacheTextBytes = 2_097_152
    /// The most rows (or groups, distinct values, documents of an INSERT … SELECT) that one statement may
    /// hold in memory at a time. Sorting, DISTINCT and GROUP BY need them all. A statement that exceeds it
    /// needs a LIMIT, an index or a narrower condition.
    public static let materializedRows = 1_000_000
    /// The bytes of rows that a sort holds in memory, approximately, before it continues on disk if there is
    /// one.
    public static let sortBytes = 67_108_864
    /// The most bytes that those rows may take, approximately: a million rows can be anything from 16 MB to
    /// 5 TB.
    public static let materializedBytes = 268_435_456
    /// The bytes of held rows between two tellings of them: small statements tell none.
    static let toldRowBytes = 1_048_576
    /// The bytes of states in a draft on a snapshot: its edits stay in memory until they are in the log.
    public static let draftBytes = 268_435_456
    /// Steps (rows, elements, comparisons of a sort) between two checks for cancellation: a check reads a
    /// clock.
    static let stepsBetweenChecks = 256
    /// Ids of a statement that may be executed with a budget: their documents may go through expressions
    /// whose patterns are counted by tens of thousands of steps only.
    static let fewIDs = 8
    /// The bytes of a statement's text that make one step of it longer by a step: a row of a statement of a
    /// megabyte takes as long as hundreds of rows of another one, so it is checked more often.
    static let textBytesPerStep = 4_096
    /// Steps of a LIKE match, or visits of instructions of a regular expression, between two checks for
    /// cancellation: a fraction of a millisecond.
    static let patternStepsBetweenChecks = 65_536
    /// How often a LIKE may read a byte of text and still count as one pass through it: a part between two
    /// `%` that contains a `_` is mostly shorter.
    static let uncountedPatternWork = 16
    /// The bytes of a value, read or created, that count as one step: about as long as a row takes.
    static let stepBytes = 256
    /// The bytes that one element or field of a value counts as, whatever its content.
    static let elementBytes = 16
    /// The largest allocation shared by kept rows, in bytes: keeping one of them keeps the whole allocation.
    static let keptBlockBytes = 16_384
    /// The most elements that a subscription's condition may go through per document; texts that it reads
    /// and makes count by `stepBytes`. Somebody else writes the condition: nested ANY over one array
    /// multiply, a few letters make a long text, and nobody would cancel them.
    public static let subscriptionSteps = 1_000_000
    /// The longest pattern of `regexp_like` or SIMILAR TO, in characters: a longer one was written by a
    /// program, which can use IN.
    public static let patternCharacters = 2_048
    /// The most instructions in a pattern with its repetitions written out. A character of a text costs at
    /// most one visit of each.
    public static let patternInstructions = 2_048
    /// The greatest count in `{n,m}`, as in RE2: nested counts multiply.
    public static let patternRepetitions = 1_000
    /// How deep the groups of a pattern may nest, in levels: its parser and its builder are recursive.
    public static let patternGroups = 64
    /// The most entries of a matcher's table, of 4 bytes each; a full table is thrown away.
    static let patternTableEntries = 65_536
    /// How much of a constant pattern's table is built at preparation, in visited instructions: a few dozen
    /// microseconds, which the second text already saves.
    static let patternWarmingSteps = 4_096
    /// The longest string that a function or `||` makes, in UTF-8 bytes: the most that a document can hold.
    /// A longer one is MISSING.
    public static let resultBytes = 5_242_880
    /// The most elements that `date_range` and `split` make and `joinstr` joins; more are MISSING.
    public static let resultElements = 262_144
    /// The most arguments of a variadic call: each may be a whole document, and a call is not interrupted.
    public static let callArguments = 1_024
    /// The most keys of one index: each makes every entry longer.
    public static let indexKeys = 16
    /// The longest name of an index, in UTF-8 bytes.
    public static let indexNameBytes = 255
    /// The most indexes that a collection may have: each is written with every document.
    public static let indexesOfCollection = 1_024
    /// The most index scans in one access unless `#max_scans` says otherwise: each costs a pass over its
    /// entries.
    static let indexScans = 5
    /// The most ranges of an index that one scan reads: each is a search of its own, and beyond this one
    /// range from the first to the last costs less than the list.
    static let indexRanges = 16_384
    /// The most joins of a statement unless `#max_joins` says otherwise: each multiplies the work.
    static let joins = 10
    /// The most document numbers that a union or intersection holds, of 8 bytes each. Beyond it the
    /// collection is scanned.
    static let heldNumbers = 4_194_304
    /// The longest text, in UTF-8 bytes, that no index cuts: for such texts an index is exact.
    package static let uncutBytes = 128
    /// The most bytes of one part of an index key; longer parts are cut (`KeyWriter`): texts that differ only
    /// after so many bytes are told apart by reading them.
    public static let indexPartBytes = 512
    /// The most rows in the order of ids that are looked for in runs of ids, of which each may have them all.
    static let firstIDs = 10_000
    /// The longest id, encoded, that a pushed condition names: a table's key is not the id of a longer one.
    static let pushedIDBytes = 1_024
    /// Ranges of keys in one pushed condition; of more, everything between the first and the last is read.
    static let pushedRanges = 64
    /// The most bytes of encoded group keys that a GROUP BY keeps, so that it recognizes groups without
    /// decoding their keys. Beyond it, groups are found by their values, which works for all of them.
    static let groupKeyBytes = 16_777_216
    /// How deep subqueries may nest, in levels: the analyzer uses many frames for each.
    public static let subqueryDepth = 8
    /// The most subqueries of a statement: each runs when the statement begins.
    public static let subqueries = 64
    /// The most ranges or ids of one scan that EXPLAIN shows; it also shows their total.
    package static let explainedValues = 16
    /// The most equalities that ADVISE puts before the last key of an index: further ones hardly make it
    /// find less.
    static let advisedEqualities = 3
    /// The longest statement in SQL that a store is sent, in bytes: a server parses it, and keeps it
    /// prepared.
    static let pushedTextBytes = 16_384
    /// The most parameters of such a statement: half of what a message of the protocol takes would fit, and
    /// nobody writes so many.
    static let pushedParameters = 1_024
    /// The longest test of a join, in bytes of SQL, that goes along; a shorter one if all together are too
    /// long. The evaluator asks the others, rather than join without SQL.
    static let pushedTestBytes = [pushedTextBytes, 4_096, 1_024]
    /// The longest operand, in bytes of SQL, that is repeated where it is needed: a longer one is computed
    /// before, once for each document.
    static let pushedOperandBytes = 256
    /// The most such operands of a statement: each costs a document a microsecond.
    static let pushedSteps = 16
    /// The most values of an IN in SQL: beyond, the server's plan takes longer than the evaluator's set.
    static let pushedElements = 65_536
    /// The most rows of an order that SQL cuts: it holds them all.
    static let pushedTopRows = 10_000
    /// The largest state that comes with other rows, in bytes: it bounds the memory of an answer.
    public static let pushedStateBytes = 65_536
    /// How many documents are looked up at a time.
    static let pushedLookups = 512
    /// How many documents a statement may name to have them read before it runs.
    static let namedDocuments = 8
    /// The first rows on the left of a join whose partners are looked up together: as many as a page shows.
    static let firstJoinedRows = 16
    /// The same after them. With its partner a row takes up to twice `pushedStateBytes`.
    static let joinedRows = 256
    /// The most documents on the right of a join that are read at once by SQL. If there are more, the first
    /// rows on the left look theirs up: reading 2,048 takes as long as some ten lookups.
    static let readPartners = 2_048
    /// The first rows, where each looks up its own in some 0.2 ms; `joinedRows` where they do so together.
    static let firstLookups = 32
    /// The most documents in doubt on one side of a join: those on the left look up their partners one by
    /// one, those on the right are held. With more the evaluator joins all.
    static let doubtfulPartners = 1_000
    /// The bytes of rows on the left from which on no more wait.
    static let joinedBytes = 8_388_608
}
