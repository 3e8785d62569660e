/// What PostgreSQL, or the way to it, said no to. Stays inside the module: drivers translate it into the
/// errors of their contract.
struct PostgresError: Error, CustomStringConvertible {
    /// SQLSTATE, five characters; nil when the server did not answer.
    let state: String?
    /// The server's or libpq's words on one line. Never holds parameters.
    let message: String
    /// Whether the connection is gone: what was under way may or may not have been done.
    let isConnectionLost: Bool

    var description: String { state.map { "\(message) (\($0))" } ?? message }

    /// The first line of what libpq says, without its label.
    static func line(_ text: String) -> String {
        let first = text.split(separator: "\n").first.map(String.init) ?? "no detail"
        for label in ["ERROR:  ", "FATAL:  ", "PANIC:  "] where first.hasPrefix(label) {
            return String(first.dropFirst(label.count))
        }
        return first
    }
}
