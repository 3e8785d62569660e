import DQL
import ServiceKit

extension Evaluation {
    /// Throws when it has ended.
    func checkEnd() throws(DQLError) {
        if let reason = interruption() { throw DQLError.interrupted(reason) }
    }

    /// Holds the memory of an answer's text while it is printed: a growing list doubles its room.
    /// - Throws: `SRV-0430`, `SRV-0503`.
    func willPrint(_ answer: ExecuteAnswer) throws(ServiceError) {
        guard answer.heldBytes > Limits.plainAnswerBytes else { return }
        try held.grow(by: 2 * answer.heldBytes)
    }

    /// Prepares a long statement in slices of its turn, and holds its memory.
    func preparing<Result>(_ body: () throws -> Result) rethrows -> Result {
        try Preparation.interrupted(by: { self.prepareNode() }, body)
    }

    /// Executes a statement; a long one is planned in slices too.
    func planning<Result>(_ statement: PreparedStatement, _ body: () throws -> Result) rethrows -> Result {
        guard statement.text.utf8.count > Limits.plainStatementBytes else { return try body() }
        return try Preparation.interrupted(by: { self.interruption() }, body)
    }
}
