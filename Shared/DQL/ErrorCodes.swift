/// All error codes of this module; the raw value is stable and published.
///
/// 01xx the text, 02xx names and shape, 03xx unsupported in this version, 04xx limits, 05xx arguments, 06xx
/// execution, 07xx subscriptions.
public enum DQLErrorCode: String, Sendable, CaseIterable {
    /// A character that begins no token.
    case invalidCharacter = "DQL-0101"
    /// A string, quoted identifier or comment without its end.
    case unterminated = "DQL-0102"
    /// Digits that form no number, an integer beyond 64 bits, or a number beyond the range of a double.
    case invalidNumber = "DQL-0103"
    /// A `\u` escape that names no character.
    case invalidEscape = "DQL-0104"
    /// A token in a place where it cannot stand.
    case syntax = "DQL-0105"
    /// A reserved word where a name or an expression is expected; back quotes make it a name.
    case reservedWord = "DQL-0106"
    /// The text ends too early, or is empty.
    case unexpectedEnd = "DQL-0107"
    /// More than one statement in a text.
    case severalStatements = "DQL-0108"
    /// SET or UNSET of an array element or a bracketed key.
    case elementAssignment = "DQL-0109"
    /// A key of an object literal that is not a quoted string.
    case unquotedKey = "DQL-0110"
    /// `USE IDS` with parentheses.
    case parenthesizedIDs = "DQL-0111"
    /// A hint that is not a JSON object.
    case invalidDirectives = "DQL-0112"

    /// `*` beside other projections.
    case mixedStar = "DQL-0201"
    /// A projection that is neither a group key nor an aggregate.
    case ungroupedProjection = "DQL-0202"
    /// A HAVING or ORDER BY term that is neither a group key nor an aggregate.
    case ungroupedTerm = "DQL-0203"
    /// An aggregate inside WHERE, GROUP BY, SET, DOCUMENTS or another aggregate.
    case misplacedAggregate = "DQL-0204"
    /// A function that does not exist.
    case unknownFunction = "DQL-0205"
    /// A call with too few or too many arguments, or DISTINCT or `*` where they mean nothing.
    case wrongArguments = "DQL-0206"
    /// `x.*` where x is not the statement's source.
    case unknownSource = "DQL-0207"
    /// A field where no document is in scope (DOCUMENTS, USE IDS).
    case fieldWithoutDocument = "DQL-0208"
    /// SET or UNSET of `_id`.
    case idModification = "DQL-0209"
    /// Two modifications of one path.
    case duplicateModification = "DQL-0210"
    /// SET or UNSET below a field that is not a MAP.
    case notAMap = "DQL-0211"
    /// A field declared twice, or children declared for a type that has none.
    case invalidTypeDefinition = "DQL-0212"
    /// A collection name that is empty or too long.
    case invalidCollectionName = "DQL-0213"
    /// A write to a `system:` collection.
    case readOnlyCollection = "DQL-0214"
    /// A CAST to a type that does not exist.
    case unknownType = "DQL-0215"
    /// A system parameter that does not exist.
    case unknownParameter = "DQL-0216"
    /// A `system:` collection that does not exist.
    case unknownCollection = "DQL-0217"
    /// A write to a collection whose name begins with `__`, other than an UPDATE of `__small_peer_info`.
    case reservedCollection = "DQL-0218"
    /// `conflicts` of anything but a field.
    case notAField = "DQL-0219"
    /// An invalid pattern of SIMILAR TO or of a regular expression, written out in the statement.
    case invalidPattern = "DQL-0220"
    /// An index without a usable name, or with a key that is `_id` or repeated.
    case invalidIndex = "DQL-0221"
    /// Two sources with one name.
    case duplicateSource = "DQL-0222"
    /// A field without the name of its source, where there are several.
    case ambiguousField = "DQL-0223"

    /// A clause or operator of SQL or of a later version that this language does not have. (0301, for whole
    /// statements, is no longer raised.)
    case unsupportedClause = "DQL-0302"
    /// A write to a field of a declared type that is not supported yet.
    case unsupportedType = "DQL-0303"

    /// The statement is longer than `DQLLimits.statementBytes`.
    case statementTooLong = "DQL-0401"
    /// The statement nests deeper than `DQLLimits.nestingDepth`.
    case nestingTooDeep = "DQL-0402"
    /// An IN list longer than `DQLLimits.inListElements`.
    case inListTooLong = "DQL-0403"
    /// A clause with more than `DQLLimits.clauseTerms` terms, a statement with more than
    /// `DQLLimits.aggregates` aggregates.
    case tooManyTerms = "DQL-0404"
    /// More than `DQLLimits.materializedRows` rows have to be held in memory at a time, or too many bytes of
    /// rows.
    case tooManyRows = "DQL-0405"
    /// A subscription's condition that goes through more than `DQLLimits.subscriptionSteps` elements,
    /// or texts that count as much.
    case tooManySteps = "DQL-0406"
    /// More than `DQLLimits.indexesOfCollection` indexes of one collection.
    case tooManyIndexes = "DQL-0407"

    /// A parameter without its argument.
    case missingArgument = "DQL-0501"
    /// An argument (or literal) with a type or range that its place does not accept.
    case invalidArgument = "DQL-0502"

    /// INSERT of an id that exists, with the FAIL policy.
    case idConflict = "DQL-0601"
    /// INSERT of one id twice in one statement.
    case duplicateIDs = "DQL-0602"
    /// INSERT of something that is not an object.
    case invalidDocument = "DQL-0603"
    /// A document id of a type that ids cannot have.
    case invalidDocumentID = "DQL-0604"
    /// A statement that writes, where only reading is possible.
    case readOnly = "DQL-0605"
    /// A stored document whose bytes cannot be read.
    case unreadableDocument = "DQL-0606"
    /// A value that a document cannot hold (nested too deep).
    case unstorableValue = "DQL-0607"
    /// A `system:` collection that is not offered where the statement runs.
    case collectionNotOffered = "DQL-0608"
    /// INCREMENT BY or RESTART WITH of a value that is not a number of the counter's type.
    case invalidAmount = "DQL-0609"
    /// The statement was cancelled.
    case cancelled = "DQL-0610"
    /// The statement ran longer than `dql_request_timeout_seconds`.
    case timeout = "DQL-0611"
    /// ALTER SYSTEM where only documents can be changed.
    case systemStatement = "DQL-0612"
    /// CREATE INDEX with a name that the collection's indexes already have.
    case indexExists = "DQL-0613"
    /// DROP INDEX of an index that does not exist.
    case unknownIndex = "DQL-0614"
    /// CREATE INDEX or DROP INDEX where there are no indexes, or where only documents can be changed.
    case indexStatement = "DQL-0615"
    /// A join that reaches its right side neither by id nor by an index.
    case joinWithoutIndex = "DQL-0616"
    /// A subquery used as a value that gave several rows.
    case severalRows = "DQL-0617"
    /// A statement that waited too long for its turn (`dql_concurrent_request_limit`).
    case tooManyRequests = "DQL-0618"

    /// A statement that cannot be a subscription.
    case unsupportedSubscription = "DQL-0701"
}

/// All warning codes. A warning travels with the result and never changes it.
public enum DQLWarningCode: String, Sendable, CaseIterable {
    /// An argument that is no parameter of the statement.
    case unusedArgument = "DQL-W101"
    /// A function or an operator with a literal or an argument that it never takes, or with a field of which
    /// no value was met that it takes: the result is MISSING.
    case literalType = "DQL-W102"
    /// Two projections with one name: the later one shows.
    case duplicateName = "DQL-W103"
    /// A path that starts with the collection's name although an alias hides it.
    case hiddenName = "DQL-W104"
    /// A SET whose right side was MISSING: the field was left as it was.
    case missingAssignment = "DQL-W105"
    /// A comparison that is never true because the types differ: those of its parts, or those that a field
    /// was met with, if no document fulfilled the condition.
    case neverEqual = "DQL-W106"
    /// `IN (:array)`: the list has one element, the array.
    case arrayInList = "DQL-W108"
    /// A name where an argument was probably meant, as in `_id = id`.
    case fieldForArgument = "DQL-W109"
    /// COUNT of a condition counts the rows where it is true.
    case countOfCondition = "DQL-W110"
    /// A comparison with null or MISSING is never true: a written one, or an argument or a subquery that is
    /// null, or a list of them that holds one.
    case nullComparison = "DQL-W111"
    /// An increment of a field that holds a REGISTER: the counter starts at zero and ignores its value.
    case counterBesideRegister = "DQL-W112"
    /// A field compared with the text 'true' or 'false' rather than the boolean.
    case booleanAsText = "DQL-W113"
    /// SUM, AVG, MEDIAN or MID of values of which some are no numbers: they are left out.
    case leftOut = "DQL-W114"
    /// A field that none of the documents has that were looked at: in a condition that was never true, or a
    /// misspelt one elsewhere.
    case unknownField = "DQL-W115"
    /// ORDER BY or GROUP BY with a constant or an argument: columns have no numbers, and a text is no name.
    case constantKey = "DQL-W116"
    /// A value written to a field that holds a COUNTER: the counter stays beside it, and the next increment
    /// shows its old sum again.
    case registerBesideCounter = "DQL-W117"
    /// CREATE INDEX on fields that another index has, or IF NOT EXISTS of a name that an index on other
    /// fields has.
    case indexNotNew = "DQL-W118"
    /// A written number that is too small for a double, and is 0.0.
    case numberTooSmall = "DQL-W119"
}
