/// The module's limits: name with unit, value, reason. Each has its own error code.
public enum DQLLimits {
    /// The longest statement, in UTF-8 bytes. Values belong into arguments; a longer text is a mistake or an
    /// attack.
    public static let statementBytes = 1_048_576
    /// How deep expressions and type definitions may nest, in levels, counted on the tree: parser, analyzer,
    /// evaluator and printer are recursive and must fit a 512 KiB stack (optimized).
    public static let nestingDepth = 128
    /// The most elements of an `IN (…)` list; a longer list belongs into an array argument.
    public static let inListElements = 65_536
    /// The most projections, group keys, sort terms, assignments, or fields of one type definition. They
    /// are compared with one another; a statement with more was not written by anyone.
    public static let clauseTerms = 4_096
    /// The most warnings that one statement's analysis gives, and the most about its lists in IN. Each looks
    /// for its place in the text, and nobody reads more.
    public static let warnings = 32
    /// The most different aggregates of one statement: they are compared with one another, and each is kept
    /// for each group.
    public static let aggregates = 1_024
    /// The most directives that hints at one place may have. They are merged one by one.
    public static let directives = 256
    /// The greatest edit distance, in characters, at which a keyword or name is offered as a suggestion.
    static let suggestionDistance = 2
    /// From how many elements on `IN :array` is looked up in a set rather than compared one by one: below it,
    /// building the set costs more than it saves.
    static let setLookupElements = 8
    /// How many rows a top-k sort may hold beyond `LIMIT + OFFSET` before it prunes, as a factor: sorting
    /// each time would cost more than the memory is worth.
    static let topRowsSlack = 2
    /// The longest token an error quotes, in characters.
    static let quotedTokenCharacters = 40
    /// How many prepared statements a cache holds unless `dql_statement_cache_size` says otherwise.
    public static let cachedStatements = 4_096
    /// The longest statement that a cache holds, in UTF-8 bytes. A longer one has values written into it and
    /// will hardly come again.
    public static let cachedTextBytes = 65_536
    /// How much text a cache holds in all, in UTF-8 bytes; the trees take a small multiple of it.
    public static let cacheTextBytes = 16_777_216
    /// How many rows (or groups, distinct values, documents of an INSERT … SELECT) one statement may hold
    /// in memory at a time. Sorting, DISTINCT and GROUP BY need them all; beyond it a LIMIT, an index or a
    /// narrower condition is asked for.
    public static let materializedRows = 1_000_000
    /// About how many bytes of rows a sort holds in memory before it goes on on disk, where there is one.
    public static let sortBytes = 67_108_864
    /// How many bytes those may take, about: a million rows can be anything from 16 MB to 5 TB.
    public static let materializedBytes = 268_435_456
    /// How many steps (rows, elements, comparisons of a sort) there are between two questions whether the
    /// statement was cancelled: asking reads a clock.
    static let stepsBetweenChecks = 256
    /// After how many steps a match of LIKE asks whether it is still wanted: a fraction of a millisecond.
    static let patternStepsBetweenChecks = 65_536
    /// How often a LIKE may look at a byte of text and still count as a walk through it: what is between two
    /// `%` and has a `_` in it is mostly shorter.
    static let uncountedPatternWork = 16
    /// How many bytes of a value that is read or made count as one step: about as long as a row takes.
    static let stepBytes = 256
    /// How many bytes one element or field of a value counts as, whatever is in it.
    static let elementBytes = 16
    /// Rows that are kept share allocations of up to so many bytes: who keeps one of them keeps so much.
    static let keptBlockBytes = 16_384
    /// How many elements a subscription's condition may go through per document, the texts that it reads and
    /// makes counted by `stepBytes`. Its author is somebody else: nested ANY over one array multiply, a few
    /// letters make a long text, and nobody would cancel them.
    public static let subscriptionSteps = 1_000_000
    /// The longest pattern of `regexp_like` or SIMILAR TO, in characters: more was written by a program, for
    /// which there is IN.
    public static let patternCharacters = 2_048
    /// The most steps a pattern has with its repetitions written out. A character of a text costs at most
    /// one visit of each.
    public static let patternInstructions = 2_048
    /// The greatest count in `{n,m}`, as in RE2: nested counts multiply.
    public static let patternRepetitions = 1_000
    /// How deep a pattern's groups may nest, in levels: its parser and its builder are recursive.
    public static let patternGroups = 64
    /// How many entries a matcher's table may have, of 4 bytes each; a full one is thrown away.
    static let patternTableEntries = 65_536
    /// How much a constant pattern may have built when it is prepared, in visited steps: a few dozen
    /// microseconds, which the second text already repays.
    static let patternWarmingSteps = 4_096
    /// The longest string a function or `||` makes, in UTF-8 bytes: what a document can hold. A longer one
    /// is MISSING.
    public static let resultBytes = 5_242_880
    /// The most elements that `date_range` and `split` make and `joinstr` joins; more are MISSING.
    public static let resultElements = 262_144
    /// The most arguments of a call that takes any number: each may be a whole document, and a call is not
    /// interrupted.
    public static let callArguments = 1_024
    /// The most keys of one index: each makes every entry longer.
    public static let indexKeys = 16
    /// The longest name of an index, in UTF-8 bytes.
    public static let indexNameBytes = 255
    /// The most indexes that a collection may have: each is written with every document.
    public static let indexesOfCollection = 1_024
    /// How many index scans one access is made of unless `#max_scans` says otherwise: each costs a pass over
    /// its entries.
    static let indexScans = 5
    /// How many ranges of an index one scan reads at most: each is a search of its own, and beyond it one
    /// range from the first to the last costs less than the list.
    static let indexRanges = 16_384
    /// How many joins a statement may have unless `#max_joins` says otherwise: each multiplies the work.
    static let joins = 10
    /// How many documents' numbers a union or intersection holds, of 8 bytes each. Beyond it the collection
    /// is scanned.
    static let heldNumbers = 4_194_304
    /// How long a text may be, in UTF-8 bytes, that no index cuts: an exact index answers for such.
    package static let uncutBytes = 128
    /// How many bytes of encoded group keys a GROUP BY keeps to know them again without reading them as
    /// values. Beyond it groups are found by their values, as all of them could be.
    static let groupKeyBytes = 16_777_216
    /// How deep subqueries nest, in levels: the analyzer goes through many frames for each.
    public static let subqueryDepth = 8
    /// How many subqueries a statement has at most: each is run when the statement begins.
    public static let subqueries = 64
    /// How many ranges or ids EXPLAIN shows of one scan; it says how many there are.
    static let explainedValues = 16
    /// How many equalities ADVISE puts before the last key of an index: more hardly make it find less.
    static let advisedEqualities = 3
}
