import DQL
import Foundation

/// The statements of earlier prompts, a line each, readable by their owner only. Prompts append, so that two
/// at once lose nothing.
struct HistoryFile: Sendable {
    /// The environment variable of the path; an empty one means no history.
    static let variable = "MIMEO_HISTORY"

    let path: String

    /// The file of the environment, else `.mimeo_history` in the home folder; nil without both.
    init?(_ environment: [String: String] = ProcessInfo.processInfo.environment) {
        if let path = environment[Self.variable] {
            guard !path.isEmpty else { return nil }
            self.path = path
        } else {
            guard let home = environment["HOME"], !home.isEmpty else { return nil }
            path = home + "/.mimeo_history"
        }
    }

    /// The latest entries, the oldest first. Cuts the file back if it has far more. A file that cannot be
    /// read is no history; a prompt works without.
    func load() -> [String] {
        guard let size = try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int,
            size <= Limits.historyFileBytes, let data = FileManager.default.contents(atPath: path)
        else { return [] }
        let all = String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
        let latest = Array(all.suffix(Limits.historyStatements))
        if all.count > 2 * Limits.historyStatements {
            let text = latest.map { $0 + "\n" }.joined()
            try? Data(text.utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
            chmod(path, 0o600)
        }
        return latest
    }

    /// Appends a statement and returns its entry; nil if it is not kept. A file that cannot be written is no
    /// reason to refuse the statement.
    func append(_ statement: String) -> String? {
        guard let entry = Self.entry(statement) else { return nil }
        let file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { return entry }
        defer { close(file) }
        let line = Array((entry + "\n").utf8)
        _ = line.withUnsafeBytes { write(file, $0.baseAddress, $0.count) }
        return entry
    }

    /// A statement as one line; nil if it is too long, or begins with a space: that keeps it out.
    ///
    /// A line comment would swallow the lines after it, so a statement that has one loses its comments. A
    /// line feed in a literal becomes `\n`.
    static func entry(_ statement: String) -> String? {
        guard !statement.hasPrefix(" "), statement.utf8.count <= Limits.historyStatementBytes else {
            return nil
        }
        let lines = statement.split(whereSeparator: \.isNewline)
        guard lines.count > 1 else { return lines.first.map(String.init) }
        let tokens = StatementText.tokens(of: statement).tokens
        let isPlain = !statement.contains("--") && !tokens.contains { $0.contains(where: \.isNewline) }
        guard !isPlain else { return lines.joined(separator: " ") }
        return tokens.map { token in
            token.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).joined(
                separator: "\\n")
        }.joined(separator: " ")
    }
}
