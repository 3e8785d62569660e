import DQL
import ServiceKit

extension Evaluation {
    /// Throws when it has ended.
    func checkEnd() throws(DQLError) {
        if let reason = interruption() { throw DQLError.interrupted(reason) }
    }

    /// Prepares a long statement in slices of its turn.
    func preparing<Result>(_ body: () throws -> Result) rethrows -> Result {
        try Preparation.interrupted(by: { self.interruption() }, body)
    }

    /// Executes a statement; a long one is planned in slices too.
    func planning<Result>(_ statement: PreparedStatement, _ body: () throws -> Result) rethrows -> Result {
        guard statement.text.utf8.count > Limits.plainStatementBytes else { return try body() }
        return try preparing(body)
    }
}
