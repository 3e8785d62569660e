/// An error of PostgreSQL or of the connection to it. Internal to the module: drivers translate it into the
/// errors of their contract.
struct PostgresError: Error, CustomStringConvertible {
    /// SQLSTATE, five characters; nil when the server did not answer.
    let state: String?
    /// The server's or libpq's message on one line. Never has parameters.
    let message: String
    /// True if the connection is lost: the statements under way may or may not have been executed.
    let isConnectionLost: Bool

    /// True if the statement was cancelled because somebody asked for that.
    var isCancelled: Bool { state == "57014" }
    /// True if the role lacks a right for the statement.
    var lacksRight: Bool { state == "42501" }

    var description: String { state.map { "\(message) (\($0))" } ?? message }

    /// The first line of libpq's message, without its label.
    static func line(_ text: String) -> String {
        let first = text.split(separator: "\n").first.map(String.init) ?? "no detail"
        for label in ["ERROR:  ", "FATAL:  ", "PANIC:  "] where first.hasPrefix(label) {
            return String(first.dropFirst(label.count))
        }
        return first
    }
}
