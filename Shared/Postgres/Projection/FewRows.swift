/// The pushed statements that had few rows when they ran last on a connection.
///
/// To ask for few rows where there are many is work for nothing. So a statement that had many once counts as
/// one of few rows again only after several such answers in a row.
struct FewRows {
    /// How many answers with few rows each statement lacks to be one of few rows.
    private var lacking: [String: Int] = [:]

    /// The number of statements with few rows.
    var count: Int { lacking.values.filter { $0 == 0 }.count }

    /// Returns whether a statement is one of few rows.
    func contains(_ sql: String) -> Bool { lacking[sql] == 0 }

    /// Returns whether a statement had many rows, and not few often enough since then.
    func hadMany(_ sql: String) -> Bool { lacking[sql] ?? 0 > 0 }

    /// Notes that a statement had few rows.
    mutating func noteFew(_ sql: String) {
        if let answers = lacking[sql] {
            lacking[sql] = max(answers - 1, 0)
        } else {
            keep(sql, lacking: 0)
        }
    }

    /// Notes that a statement had many rows.
    /// - Parameter isExpectedFew: true if it is asked for few unless it is known to have many. Others are
    ///   only kept if they once had few.
    mutating func noteMany(_ sql: String, isExpectedFew: Bool = false) {
        guard isExpectedFew || lacking[sql] != nil else { return }
        keep(sql, lacking: PostgresLimits.fewAnswers)
    }

    private mutating func keep(_ sql: String, lacking answers: Int) {
        if lacking[sql] == nil, lacking.count >= PostgresLimits.preparedStatements { lacking = [:] }
        lacking[sql] = answers
    }
}
