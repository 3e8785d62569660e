/// The words of the grammar, in upper case.
///
/// Reserved words cannot be names unless they follow a `.` or stand in back quotes. The others have a
/// meaning only at one place each, where a name is impossible (`USE IDS`, `ON ID CONFLICT`, types), so
/// documents may use them as fields.
enum Keyword: String, CaseIterable, Sendable {
    case advise = "ADVISE"
    case all = "ALL"
    case alter = "ALTER"
    case and = "AND"
    case any = "ANY"
    case apply = "APPLY"
    case array = "ARRAY"
    case `as` = "AS"
    case asc = "ASC"
    case between = "BETWEEN"
    case by = "BY"
    case `case` = "CASE"
    case cast = "CAST"
    case collection = "COLLECTION"
    case create = "CREATE"
    case delete = "DELETE"
    case desc = "DESC"
    case distinct = "DISTINCT"
    case `do` = "DO"
    case drop = "DROP"
    case `else` = "ELSE"
    case end = "END"
    case escape = "ESCAPE"
    case every = "EVERY"
    case evict = "EVICT"
    case exists = "EXISTS"
    case explain = "EXPLAIN"
    case `false` = "FALSE"
    case `for` = "FOR"
    case from = "FROM"
    case full = "FULL"
    case group = "GROUP"
    case having = "HAVING"
    case ilike = "ILIKE"
    case `in` = "IN"
    case index = "INDEX"
    case inner = "INNER"
    case insert = "INSERT"
    case into = "INTO"
    case `is` = "IS"
    case join = "JOIN"
    case left = "LEFT"
    case like = "LIKE"
    case limit = "LIMIT"
    case missing = "MISSING"
    case not = "NOT"
    case null = "NULL"
    case object = "OBJECT"
    case offset = "OFFSET"
    case on = "ON"
    case or = "OR"
    case order = "ORDER"
    case outer = "OUTER"
    case profile = "PROFILE"
    case raw = "RAW"
    case returning = "RETURNING"
    case right = "RIGHT"
    case satisfies = "SATISFIES"
    case select = "SELECT"
    case set = "SET"
    case show = "SHOW"
    case similar = "SIMILAR"
    case then = "THEN"
    case to = "TO"
    case tombstone = "TOMBSTONE"
    case trim = "TRIM"
    case `true` = "TRUE"
    case unset = "UNSET"
    case update = "UPDATE"
    case use = "USE"
    case value = "VALUE"
    case values = "VALUES"
    case when = "WHEN"
    case `where` = "WHERE"
    case within = "WITHIN"
    case xor = "XOR"

    case attachment = "ATTACHMENT"
    case both = "BOTH"
    case conflict = "CONFLICT"
    case counter = "COUNTER"
    case `default` = "DEFAULT"
    case directives = "DIRECTIVES"
    case documents = "DOCUMENTS"
    case exclude = "EXCLUDE"
    case fail = "FAIL"
    case first = "FIRST"
    case id = "ID"
    case ids = "IDS"
    case `if` = "IF"
    case include = "INCLUDE"
    case increment = "INCREMENT"
    case initial = "INITIAL"
    case last = "LAST"
    case leading = "LEADING"
    case list = "LIST"
    case map = "MAP"
    case merge = "MERGE"
    case nothing = "NOTHING"
    case nulls = "NULLS"
    case persist = "PERSIST"
    case pnCounter = "PN_COUNTER"
    case pnIncrement = "PN_INCREMENT"
    case provision = "PROVISION"
    case register = "REGISTER"
    case reset = "RESET"
    case restart = "RESTART"
    case system = "SYSTEM"
    case trailing = "TRAILING"
    case updateLocalDiff = "UPDATE_LOCAL_DIFF"
    case with = "WITH"

    /// True if the word cannot be an unquoted name.
    var isReserved: Bool {
        switch self {
        case .attachment, .both, .conflict, .counter, .default, .directives, .documents, .exclude, .fail,
            .first, .id, .ids, .if, .include, .increment, .initial, .last, .leading, .list, .map, .merge,
            .nothing, .nulls, .persist, .pnCounter, .pnIncrement, .provision, .register, .reset, .restart,
            .system, .trailing, .updateLocalDiff, .with:
            false
        default: true
        }
    }

    /// True if it begins a clause or a statement: where a name is expected, something before it is missing.
    var beginsClause: Bool {
        switch self {
        case .apply, .from, .group, .having, .join, .limit, .offset, .on, .order, .returning, .set, .unset,
            .use, .where:
            true
        default: false
        }
    }

    /// True if no expression begins with the word, continues or ends with it: where an operand stands, it is
    /// a field.
    var isNameAsOperand: Bool {
        switch self {
        case .advise, .all, .alter, .collection, .create, .delete, .do, .drop, .evict, .explain, .full,
            .index,
            .inner, .insert, .into, .left, .outer, .profile, .raw, .right, .show, .to, .tombstone, .update,
            .value, .values:
            true
        default: false
        }
    }

    /// True if an expression begins with the word.
    var beginsOperand: Bool {
        switch self {
        case .any, .array, .case, .cast, .every, .exists, .false, .missing, .not, .null, .object, .trim,
            .true:
            true
        default: !isReserved || isNameAsOperand
        }
    }

    /// True if it may follow an alias without AS. Any other word there means that the alias is a misspelt
    /// clause.
    var followsAlias: Bool {
        switch self {
        case .full, .inner, .left, .outer, .right: true
        default: beginsClause
        }
    }

    private static let table = Dictionary(uniqueKeysWithValues: allCases.map { ($0.rawValue, $0) })

    /// The keyword for a word, in any case. Letters outside ASCII match none: `ı` has the upper case `I`,
    /// yet `ın` is a name.
    static func lookup(_ word: String) -> Keyword? {
        word.utf8.allSatisfy { $0 < 0x80 } ? table[word.uppercased()] : nil
    }
}
