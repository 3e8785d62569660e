import ArgumentParser
import CRDT
import DQL

/// The forms in which results are printed.
enum OutputFormat: String, ExpressibleByArgument, CaseIterable, Sendable {
    /// One JSON object per statement, for programs.
    case json
    /// Aligned columns.
    case table
    /// RFC 4180, with a header row.
    case csv
    /// A table in Markdown.
    case markdown
    /// A line per field.
    case vertical
}

/// An answer in a format: the text for standard output, and remarks for standard error.
struct FormattedAnswer: Equatable {
    /// Nil if there is nothing to print.
    var output: String?
    /// An error, or what a format for programs has no place for.
    var remark: String?

    /// - Parameter statement: its text tells plans from documents that look like one.
    init(_ answer: Answer, of statement: String, as format: OutputFormat) {
        switch answer {
        case _ where format == .json: self.init(output: JSONText.print(answer.json))
        case .failure(let problem): self.init(remark: problem.text)
        case .result(let result):
            self.init(result, Explained(result, of: statement), format, isAction: Self.isAction(statement))
        }
    }

    private init(output: String? = nil, remark: String? = nil) {
        self.output = output
        self.remark = remark
    }

    /// True for a statement that has neither rows nor written documents, such as CREATE INDEX.
    private static func isAction(_ statement: String) -> Bool {
        switch try? StatementCompiler.parse(statement) {
        case .createIndex?, .dropIndex?: true
        default: false
        }
    }

    private init(
        _ result: Answer.Result, _ explained: Explained?, _ format: OutputFormat, isAction: Bool
    ) {
        var shown = result
        if let explained, format != .csv { shown.items = explained.rows }
        let summary = Summary(
            result, rows: shown.items.count, isExplanation: explained != nil, isAction: isAction)
        var parts: [String] = []
        switch format {
        case .csv:
            if !shown.items.isEmpty { parts.append(DelimitedText(shown.items).text) }
        case .markdown:
            if !shown.items.isEmpty { parts.append(MarkdownTable(shown.items).text) }
        case .vertical:
            if !shown.items.isEmpty { parts.append(VerticalText(shown.items).text) }
        case .json, .table:
            if !shown.items.isEmpty { parts.append(Table(shown.items).text) }
        }
        var remarks: [String] = []
        switch format {
        case .csv, .markdown:
            remarks = result.mutatedDocumentIDs.isEmpty ? summary.warnings : summary.lines
        case .json, .table, .vertical:
            let lines = parts + summary.lines
            parts = lines.isEmpty ? [] : [lines.joined(separator: "\n")]
        }
        if let explained, format != .csv {
            parts.append(format == .markdown ? "```\n\(explained.text)\n```" : explained.text)
        }
        output = parts.isEmpty ? nil : parts.joined(separator: "\n\n")
        remark = remarks.isEmpty ? nil : remarks.joined(separator: "\n")
    }
}

/// The lines below a result: the count of rows or written documents, and the warnings.
private struct Summary {
    let lines: [String]
    let warnings: [String]

    init(_ result: Answer.Result, rows: Int, isExplanation: Bool, isAction: Bool) {
        warnings = result.warnings.map {
            "warning: \($0["message"]?.stringValue ?? JSONText.print($0))"
        }
        let written = result.mutatedDocumentIDs.count
        var lines: [String] = []
        if written > 0 {
            let documents = written == 1 ? "document" : "documents"
            lines = ["\(written) \(documents) written, commit \(result.commitID)"]
        } else if isAction, rows == 0 {
            lines = ["done"]
        } else if !isExplanation || rows > 0 {
            lines = ["\(rows) \(rows == 1 ? "row" : "rows")"]
        }
        self.lines = lines + warnings
    }
}

/// Rows as columns: the fields of all rows in the order of their first appearance.
struct RowColumns {
    /// The columns' names.
    let names: [String]
    /// The rows as objects; a value without fields is the column `$1`.
    let rows: [ObjectValue]

    init(_ items: [Value]) {
        rows = items.map { $0.objectValue ?? ObjectValue([(key: "$1", value: $0)]) }
        var seen: Set<[UInt8]> = []
        var names: [String] = []
        for row in rows {
            for entry in row.entries where seen.insert(Array(entry.key.utf8)).inserted {
                names.append(entry.key)
            }
        }
        self.names = names
    }
}
