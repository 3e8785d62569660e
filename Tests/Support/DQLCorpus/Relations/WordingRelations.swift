import CRDT
import DQL

/// The same statement in other words.
enum WordingRelations {
    static let all: [Relation] = [
        Relation("a qualifier and its name change nothing") { trial in
            let plain = try queryInStyle("", from: "c", &trial)
            for (qualifier, source) in [
                ("c.", "c"), ("d.", "c AS d"), ("`x y`.", "c `x y`"), ("", "COLLECTION c"),
                ("c.", "default:c"),
            ] {
                try trial.same(
                    try queryInStyle(qualifier, from: source, &trial), plain, "\(source) with \(qualifier)")
            }
        },
        Relation("parameters do what literals do") { trial in
            var other = trial
            let literals = trial.grammar.query()
            other.grammar.style.bindsLiterals = true
            let parameters = other.grammar.query()
            let one = try trial.rows(literals)
            let two = try other.rows(parameters)
            let arguments = other.grammar.arguments.words
            try trial.same(one, two, "\(parameters) with \(arguments)")
        },
        Relation("a statement printed and parsed again gives the same rows") { trial in
            let query = trial.grammar.query()
            let statement = try StatementCompiler.parse(query)
            let printed = StatementPrinter.print(statement)
            let again = try StatementCompiler.parse(printed)
            try trial.holds(again == statement, "\(query) is printed as \(printed)")
            try trial.same(inOrder: try trial.rows(query), try trial.rows(printed), "the printed one")
        },
        Relation("documents without MAPs read the same in strict mode") { trial in
            let query = trial.grammar.query(from: "r")
            let loose = try trial.rows(query)
            let strict = try trial.rows(query, strict: true)
            try trial.same(inOrder: strict, loose, "strict mode")
        },
        Relation("comments, lines and upper case words change nothing") { trial in
            let condition = trial.grammar.predicate()
            let plain = try trial.ids(condition)
            let noisy = "select raw\n_id /* the id */ FrOm c -- all\n Where\t(\(condition))\r\n;"
            try trial.same(try trial.rows(noisy), plain, "noise")
        },
        Relation("a hint comment and a declaration of nothing change nothing") { trial in
            let condition = trial.grammar.predicate()
            let plain = try trial.ids(condition)
            let declared = try trial.rows(
                "SELECT RAW _id FROM COLLECTION c (unused REGISTER, other MAP(x COUNTER)) WHERE \(condition)"
            )
            try trial.same(declared, plain, "a declaration")
        },
    ]

    /// The rows of one random query, its paths qualified.
    private static func queryInStyle(
        _ qualifier: String, from source: String, _ trial: inout Trial
    ) throws -> [Value] {
        var styled = trial
        styled.grammar.style.qualifier = qualifier
        return try styled.rows(styled.grammar.query(from: source))
    }
}

extension Grammar {
    /// A whole SELECT whose rows do not depend on the order of a scan.
    mutating func query(from source: String = "c") -> String {
        let condition = choices.chance(70) ? " WHERE \(predicate())" : ""
        let id = style.qualifier + "_id"
        switch choices.below(6) {
        case 0: return "SELECT RAW \(id) FROM \(source)\(condition)"
        case 1: return "SELECT \(id), \(operand()) AS v, \(path()) FROM \(source)\(condition)"
        case 2:
            let window = choices.chance(60) ? " LIMIT \(choices.below(6)) OFFSET \(choices.below(4))" : ""
            return
                "SELECT \(id), \(path()) AS v FROM \(source)\(condition) ORDER BY \(order()), \(id)\(window)"
        case 3: return "SELECT DISTINCT RAW \(path()) FROM \(source)\(condition)"
        case 4:
            let key = path()
            let having = choices.chance(40) ? " HAVING \(groupPredicate())" : ""
            return "SELECT \(key) AS k, COUNT(*) AS n, MAX(\(path())) AS m FROM \(source)\(condition)"
                + " GROUP BY \(key)\(having) ORDER BY COUNT(*) DESC, MIN(\(id))"
        default:
            let argument = operand(depth: 1)
            return "SELECT COUNT(\(argument)) AS n, MIN(\(argument)) AS low, MAX(\(argument)) AS high,"
                + " SUM(DISTINCT \(style.qualifier)n) AS s FROM \(source)\(condition)"
        }
    }
}
