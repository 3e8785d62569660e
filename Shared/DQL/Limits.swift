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
}
