import ArgumentParser
import CRDT

/// One document of a file.
struct DocumentRecord {
    /// `FILE:LINE`, in a JSON text also the number of the document.
    var place: String
    var document: ObjectValue
    /// Size of its text, about.
    var bytes: Int
    /// The fields of a table as they stand in the file; empty for JSON.
    var texts: [(field: String, text: String)] = []
    var isTable = false

    func text(of field: String) -> String? { texts.first { utf8Equal($0.field, field) }?.text }
}

/// Reads the documents of a file one by one.
protocol DocumentReading {
    /// The next document; nil at the end.
    /// - Throws: `RecordError` for a record after which the next one can be read; `CLI-0401`, `CLI-0403`.
    mutating func next() throws -> DocumentRecord?
}

/// Choices about reading a file.
struct ReadingOptions {
    /// Nil finds out.
    var delimiter: UInt8?
    /// Types of columns that are not found out.
    var types: [(name: String, type: ColumnType)] = []
    /// Keys to the array of documents, separated by dots.
    var path: String?
    var extendedJSON = false
    /// True to skip records that are wrong.
    var keepGoing = false
    /// False if the first row of a table is a document.
    var hasHeader = true
    /// The names of the columns of a table without a header.
    var columns: [String]?
    /// Number of lines before a table.
    var skippedLines = 0
    /// Cells of a table that are left out, as empty ones are.
    var nulls: Set<String> = []

    /// True if there is an option that only tables can follow.
    var isForTables: Bool {
        delimiter != nil || !types.isEmpty || !hasHeader || columns != nil || skippedLines > 0
            || !nulls.isEmpty
    }
}

/// The formats of files with documents.
enum FileFormat: String, CaseIterable, ExpressibleByArgument {
    case csv, tsv, json, ndjson

    var isTable: Bool { self == .csv || self == .tsv }

    /// The format that a file's name tells; nil if the content has to.
    /// - Throws: `CLI-0402` for other names.
    init?(path: String) throws {
        guard path != "-" else { return nil }
        var parts = (path.split(separator: "/").last ?? "").split(separator: ".").map { $0.lowercased() }
        let isPacked = parts.count > 1 && parts.last == "gz"
        if isPacked { parts.removeLast() }
        switch parts.count > 1 ? parts.last : nil {
        case "json", "geojson": self = .json
        case "ndjson", "jsonl", "geojsonl", "geojsons", "jsonseq": self = .ndjson
        case "csv": self = .csv
        case "tsv", "tab": self = .tsv
        case "txt": return nil
        case nil where isPacked: return nil
        default:
            throw MimeoError(
                .fileKindUnknown,
                "'\(path)' is not a .json, .geojson, .ndjson, .jsonl, .jsonseq, .csv, .tsv or .txt file (or "
                    + "such a one with .gz); --format csv, tsv, json or ndjson names its format")
        }
    }
}

/// A file to import: where it is and how it is read.
struct DocumentFile {
    let source: ImportSource
    private let text: TextSource
    private let encoding: TextEncoding?
    private let given: FileFormat?
    private let named: FileFormat?
    private let options: ReadingOptions

    /// - Parameters:
    ///   - path: `-` is standard input.
    ///   - format: the value of `--format`.
    /// - Throws: `CLI-0401`, `CLI-0402`.
    init(
        path: String, format: FileFormat? = nil, encoding: TextEncoding? = nil,
        options: ReadingOptions = ReadingOptions()
    ) throws {
        // First: a packed file is told by its content, rather than by the ending of its name.
        source = try ImportSource(path: path)
        named = try format ?? FileFormat(path: path)
        given = format
        text = source.text(encoding: encoding)
        self.encoding = encoding
        self.options = options
    }

    /// Opens the file: finds out everything about it that its name and the options do not tell.
    /// - Throws: `CLI-0101`, `CLI-0401`, `CLI-0403`.
    func reader(notes: ImportNotes) throws -> OpenFile {
        try noteEncoding(notes)
        let head = try head()
        var format = try format(head, notes)
        try check(format)
        if format.isTable { return try table(format, notes) }
        if let script = ScriptText(head) { throw script.error(text.name) }
        let isSequence = head.first == JSONCursor.recordSeparator
        if format == .json || isSequence {
            let outline = try JSONOutline(text, path: options.path, keepGoing: options.keepGoing)
            guard case .lines = outline.shape, options.path == nil else {
                return OpenFile(
                    format: .json, reader: try JSONDocumentReader(text, outline, options, notes))
            }
            if !isSequence { notes.add(.inputGuessed, "\(text.name): NDJSON, one document a line") }
            format = .ndjson
        }
        return OpenFile(format: format, reader: try NDJSONReader(text, options, notes: notes))
    }

    /// The format that option, name and content tell.
    private func format(_ head: [UInt8], _ notes: ImportNotes) throws -> FileFormat {
        let first = head.first
        if let named {
            guard given == nil, named == .ndjson, first == UInt8(ascii: "[") else { return named }
            notes.add(
                .inputGuessed, "\(text.name): JSON, an array of documents; --format ndjson takes it by line")
            return .json
        }
        // Nothing at all is an export without rows, unless the options say that it is a table.
        guard let first else { return options.isForTables ? .csv : .ndjson }
        if options.skippedLines > 0 { return .csv }
        let looksLikeJSON = "{[".utf8.contains(first) || first == JSONCursor.recordSeparator
        return looksLikeJSON || ScriptText(head) != nil ? .json : .csv
    }

    private func table(_ format: FileFormat, _ notes: ImportNotes) throws -> OpenFile {
        var options = options
        if given == .tsv { options.delimiter = options.delimiter ?? UInt8(ascii: "\t") }
        let reader = try CSVDocumentReader(text, options, notes: notes)
        if given == nil, let kind = reader.header.cells.flatMap(HeaderDoubt.kind) {
            notes.add(
                .inputGuessed,
                "\(text.name): read as a table, although its first row \(kind); --format names its format")
        }
        return OpenFile(
            format: format, columns: reader.columns, delimiter: reader.dialect.delimiter, reader: reader)
    }

    /// Refuses options that the format cannot follow, rather than ignore them.
    private func check(_ format: FileFormat) throws {
        if !format.isTable, options.isForTables {
            throw MimeoError(
                .usage,
                "--delimiter, --text, --types, --null, --no-header, --columns and --skip-lines are for "
                    + "tables; \(text.name) is \(format.rawValue)")
        }
        if format.isTable, options.path != nil || options.extendedJSON {
            throw MimeoError(.usage, "--path and --extended-json are for JSON; \(text.name) is a table")
        }
        if format == .ndjson, options.path != nil {
            throw MimeoError(.usage, "--path is for one outer object; \(text.name) has one object a line")
        }
    }

    private func noteEncoding(_ notes: ImportNotes) throws {
        var bytes = try text.open()
        let actual = try bytes.actualEncoding()
        let isAsked = encoding == actual || encoding == .utf16 && actual.rawValue.hasPrefix("utf-16")
        guard !isAsked, encoding != nil || actual != .utf8 else { return }
        notes.add(
            .inputGuessed, "\(text.name): the encoding is \(actual.rawValue), by the mark at its beginning")
    }

    /// The beginning of the text, from the first byte that is no space.
    private func head() throws -> [UInt8] {
        var bytes = try text.open()
        var head: [UInt8] = []
        while head.count < Limits.headBytes, let byte = try bytes.next() {
            if head.isEmpty, [0x20, 0x09, 0x0A, 0x0D].contains(byte) { continue }
            head.append(byte)
        }
        return head
    }
}

/// A file of known format, open for reading.
struct OpenFile {
    var format: FileFormat
    /// The columns of a table.
    var columns: [CSVDocumentReader.Column] = []
    var delimiter: UInt8?
    var reader: any DocumentReading
}
