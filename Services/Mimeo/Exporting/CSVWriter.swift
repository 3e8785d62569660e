import CRDT
import Foundation

/// Writes rows as a table with one type a column.
///
/// The rows go to a temporary file first, because columns and types are known only after the last one.
struct CSVWriter: ExportWriting {
    private struct Column {
        var name: String
        var kinds: Set<ColumnType> = []

        /// Texts, numbers and booleans stand as they are; mixtures and everything else as JSON.
        /// A column without a value is one of texts.
        var type: ColumnType { kinds.count > 1 ? .json : kinds.first ?? .text }
    }

    private let sink: ExportSink
    private let notes: ImportNotes
    private let spool: FileHandle
    private var columns: [Column] = []
    private var places: [[UInt8]: Int] = [:]
    private var pending: [UInt8] = []

    /// - Parameter names: the columns that are known before there is a row. So the table has a header, and
    ///   can be imported, without rows too.
    /// - Throws: `CLI-0401`.
    init(sink: ExportSink, notes: ImportNotes, names: [String]) throws {
        self.sink = sink
        self.notes = notes
        spool = try TemporaryFile.open()
        for name in names where !name.isEmpty { _ = place(of: name) }
    }

    /// The place of a column, a new one at the end for a new name.
    private mutating func place(of name: String) -> Int {
        let key = Array(name.utf8)
        if let known = places[key] { return known }
        places[key] = columns.count
        columns.append(Column(name: name))
        return columns.count - 1
    }

    mutating func add(_ row: ObjectValue) throws {
        noteChanges(row, notes)
        for entry in row.entries {
            guard !entry.key.isEmpty else {
                throw MimeoError(
                    .exportFailed, "a field without a name cannot be a column; export NDJSON or JSON instead")
            }
            columns[place(of: entry.key)].kinds.insert(Self.kind(entry.value))
        }
        pending += JSONText.print(.object(row)).utf8
        pending.append(UInt8(ascii: "\n"))
        if pending.count >= Limits.fileChunkBytes { try flush() }
    }

    mutating func finish(_ answer: inout ObjectValue) throws {
        try flush()
        let file = spool
        try TemporaryFile.writing { try file.seek(toOffset: 0) }
        if !columns.isEmpty {
            try sink.write(columns.map { Self.header($0.name) }.joined(separator: ",") + "\n")
        }
        let rows = TextSource(name: "the temporary file") {
            FileBytes(name: "the temporary file", encoding: .utf8) {
                [UInt8](
                    try TemporaryFile.writing { try file.read(upToCount: Limits.fileChunkBytes) } ?? Data())
            }
        }
        var reader = try NDJSONReader(rows, notes: ImportNotes())
        while let row = try reader.next()?.document { try sink.write(try line(row)) }
        answer["columns"] = .object(
            ObjectValue(unique: columns.map { (key: $0.name, value: .string($0.type.rawValue)) }))
        answer["importOptions"] = .array(importOptions.map(Value.string))
    }

    /// The flags with which an import reads the table as it was.
    private var importOptions: [String] {
        let names = columns.filter { $0.type == .json }.map { "\($0.name)=json" }
        if !names.isEmpty { return Self.given("--types", names.joined(separator: ",")) }
        // Quotes mean nothing where everything is quoted, so the names of texts have to be given.
        let quotesAll = columns.allSatisfy { $0.type == .text && Self.header($0.name) != $0.name }
        return quotesAll ? columns.flatMap { Self.given("--text", $0.name) } : []
    }

    /// A flag and its value; in one word if the value would be taken for a flag.
    private static func given(_ flag: String, _ value: String) -> [String] {
        value.hasPrefix("-") ? ["\(flag)=\(value)"] : [flag, value]
    }

    private mutating func flush() throws {
        let bytes = pending
        try TemporaryFile.writing { try spool.write(contentsOf: Data(bytes)) }
        pending = []
    }

    private func line(_ row: ObjectValue) throws -> String {
        let cells = columns.map { column in
            guard let value = row[column.name] else { return "" }
            guard column.type != .text else { return Self.quoted(value.stringValue ?? "") }
            let text = JSONText.print(value)
            return text.contains(where: { "\",\n\r".contains($0) }) ? Self.quoted(text) : text
        }
        guard cells != [""] else {
            throw MimeoError(
                .exportFailed,
                "a row without fields cannot be a line of one column; export NDJSON or JSON instead")
        }
        return cells.joined(separator: ",") + "\n"
    }

    private static func kind(_ value: Value) -> ColumnType {
        switch value {
        case .string, .binary: .text
        case .int: .integer
        case .double(let number): number.isFinite ? .decimal : .json
        case .bool: .boolean
        case .null, .array, .object: .json
        }
    }

    /// Names are quoted unless nobody could take them for something else.
    private static func header(_ name: String) -> String {
        let isPlain = name.utf8.allSatisfy { byte in
            byte < 0x80
                && (Character(Unicode.Scalar(byte)).isLetter || (0x30...0x39).contains(byte)
                    || "_-.$".utf8.contains(byte))
        }
        return isPlain ? name : quoted(name)
    }

    private static func quoted(_ text: String) -> String {
        "\"" + text.replacing("\"", with: "\"\"") + "\""
    }
}
