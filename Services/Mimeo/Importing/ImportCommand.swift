import ArgumentParser
import CRDT
import Foundation
import ServiceKit

/// `mimeo import`: imports the documents of a file into a store or a server.
struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Import a CSV, JSON or NDJSON file into a store or a server.",
        discussion: """
            Tables (.csv, .tsv) have a header row, or --no-header. Each column gets one type: integer, \
            decimal or boolean if all its cells are and nothing is lost, otherwise text; a leading zero, a \
            plus sign, quotes or too many digits make it text. Empty cells and those of --null are left \
            out. The delimiter is found out (comma, semicolon, tab, pipe).
            JSON (.json, .geojson): an array of objects, one object, or an outer object with one array of \
            objects, whose elements are the documents. NDJSON (.ndjson, .jsonl, .jsonseq): one object per \
            line. For .txt and standard input the content tells. Files may be packed with gzip.
            Each transaction holds up to \(Limits.importBatchDocuments) documents (or about 4 MiB); after \
            an error the documents of earlier transactions stay imported.
            Prints a summary on a terminal, elsewhere {"collection", "format", "documents", "updated", \
            "ignored", "skipped", "commitID", "warnings"}, for a table also "delimiter" and "columns" with \
            the types. Exit code 1 if a record was wrong, also if --keep-going skipped it.
            """)

    @OptionGroup var target: TargetOptions
    @Option(help: "The collection to import into.")
    var collection: String
    @Option(
        help: ArgumentHelp("The field to copy to _id; it also stays a field.", valueName: "field"))
    var id: String?
    @Option(help: "The file's format, instead of the one its name tells: csv, tsv, json or ndjson.")
    var format: FileFormat?
    @Option(help: "The file's encoding: utf-8, utf-16, latin1 or windows-1252.")
    var encoding: TextEncoding?
    @Option(help: ArgumentHelp("A table's delimiter: a character, or tab.", valueName: "character"))
    var delimiter: String?
    @Option(
        name: .customLong("skip-lines"),
        help: ArgumentHelp("The number of lines before a table's first row.", valueName: "number"))
    var skippedLines = 0
    @Flag(name: .customLong("no-header"), help: "The first row of a table is a document, not the header.")
    var isWithoutHeader = false
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "The names of the columns of a table without a header.", valueName: "column,..."))
    var columns: String?
    @Option(
        name: .customLong("null"), parsing: .unconditionalSingleValue,
        help: ArgumentHelp(
            "A text, such as NA, for cells of a table that are left out; may be repeated.", valueName: "text")
    )
    var nulls: [String] = []
    @Option(
        parsing: .unconditionalSingleValue,
        help: ArgumentHelp("A column to read as text; may be repeated.", valueName: "column"))
    var text: [String] = []
    @Option(
        parsing: .unconditionalSingleValue,
        help: ArgumentHelp(
            "Types of columns: \(ColumnType.options). May be repeated.", valueName: "column=type,..."))
    var types: [String] = []
    @Option(
        help: ArgumentHelp(
            "The array of documents in a JSON object, as in data.rows; a dot is the object itself.",
            valueName: "keys"))
    var path: String?
    @Flag(help: "Turn MongoDB's extended JSON ($oid, $date, $numberLong, ...) into plain values.")
    var extendedJson = false
    @Option(
        help: ArgumentHelp(
            "If a document exists: fail, ignore, update (its fields are written, others stay), "
                + "update-local-diff (only fields that differ), or replace (other fields are removed).",
            valueName: "action"))
    var onConflict = OnConflict.update
    @Flag(help: "Skip records that are wrong; they are counted and reported on stderr.")
    var keepGoing = false
    @Flag(help: "Read everything, write nothing: print the types and the first documents.")
    var dryRun = false
    @Option(
        help: ArgumentHelp(
            "The form of the answer: text or json, instead of text on a terminal and json elsewhere.",
            valueName: "form"))
    var answer: AnswerForm?
    @Argument(
        help: ArgumentHelp("The file to import; - is standard input.", valueName: "file"),
        transform: GivenText.of("FILE"))
    var file: String

    func run() async throws {
        if !dryRun { _ = try target.target() }
        if file == "-", try target.readsStandardInput() {
            throw MimeoError(.usage, "standard input cannot be both the file and the secret")
        }
        let collection = try NamedCollection(
            collection, advice: ", which nobody can write; an import needs another one")
        let documents = try DocumentFile(
            path: file, format: format, encoding: encoding, options: try options())
        let progress = Progress()
        let notes = ImportNotes()
        let skips = SkippedRecords(keepGoing: keepGoing) { text in
            progress.clear()
            LineWriter.standardError.write(text: text)
        }
        defer { progress.clear() }
        let size = documents.source.size
        documents.source.onRead = { progress.show("checked", $0, of: size) }
        let open = try documents.reader(notes: notes)
        documents.source.onRead = { progress.show(dryRun ? "read" : "imported", $0, of: size) }
        let feed = RecordFeed(open.reader, idField: id, skips: skips)
        var answer = ObjectValue([
            (key: "collection", value: .string(self.collection)),
            (key: "format", value: .string(open.format.rawValue)),
        ])
        if dryRun {
            try tryOut(feed, &answer)
        } else {
            try await target.withRunner { runner in
                let importer = Importer(runner: runner, collection: collection, policy: onConflict)
                let outcome = try await importer.run(feed, skips: skips)
                answer["documents"] = .int(Int64(outcome.documents))
                answer["updated"] = .int(Int64(outcome.updated))
                answer["ignored"] = .int(Int64(outcome.ignored))
                answer["commitID"] = .int(Int64(clamping: outcome.commit))
                outcome.note(collection: self.collection, notes)
            }
        }
        progress.clear()
        answer["skipped"] = .int(Int64(skips.count))
        finish(&answer, open, notes, skips)
        switch AnswerForm.chosen(self.answer, isTerminal: isatty(STDOUT_FILENO) == 1) {
        case .json: LineWriter.standardOutput.write(.object(answer))
        case .text: LineWriter.standardOutput.write(text: CommandReport(answer).text)
        }
        if skips.count > 0 { throw ExitCode(1) }
    }

    /// Reads all documents and shows the first ones.
    private func tryOut(_ feed: RecordFeed, _ answer: inout ObjectValue) throws {
        var feed = feed
        var first: [Value] = []
        var count: Int64 = 0
        while let record = try feed.next() {
            count += 1
            if first.count < Limits.shownDocuments { first.append(.object(record.document)) }
        }
        answer["dryRun"] = true
        answer["documents"] = .int(count)
        answer["first"] = .array(first)
    }

    private func finish(
        _ answer: inout ObjectValue, _ open: OpenFile, _ notes: ImportNotes, _ skips: SkippedRecords
    ) {
        if let delimiter = open.delimiter {
            answer["delimiter"] = .string(CSVDialect.name(delimiter))
            answer["columns"] = .object(
                ObjectValue(unique: open.columns.map { ($0.name, .string($0.type.rawValue)) }))
        }
        if skips.count > 0 {
            notes.add(
                .recordsSkipped, "\(skips.count) \(skips.count == 1 ? "record was" : "records were") skipped")
        }
        answer["warnings"] = notes.json
    }

    private func options() throws -> ReadingOptions {
        var options = ReadingOptions(path: path, extendedJSON: extendedJson, keepGoing: keepGoing)
        if let delimiter {
            guard let byte = CSVDialect.parse(delimiter) else {
                throw MimeoError(.usage, "--delimiter '\(delimiter)' is not one ASCII character, or tab")
            }
            options.delimiter = byte
        }
        guard skippedLines >= 0 else { throw MimeoError(.usage, "--skip-lines must be 0 or more") }
        options.skippedLines = skippedLines
        options.columns = try columns.map(TableHeader.columns)
        options.hasHeader = columns == nil && !isWithoutHeader
        options.nulls = Set(nulls)
        options.types = try types.flatMap(Self.types) + text.map { ($0, .text) }
        return options
    }

    /// The pairs of a value of `--types`. A name may hold commas: a part without `=` belongs to the next one.
    static func types(_ option: String) throws -> [(name: String, type: ColumnType)] {
        var pairs: [(name: String, type: ColumnType)] = []
        var begun = ""
        for part in option.split(separator: ",", omittingEmptySubsequences: false) {
            begun += part
            guard let sign = part.lastIndex(of: "=") else {
                begun += ","
                continue
            }
            let typeName = String(part[part.index(after: sign)...])
            guard let type = ColumnType(option: typeName) else {
                throw MimeoError(
                    .usage, "--types: '\(typeName)' is not one of \(ColumnType.options) (dates stay text)")
            }
            pairs.append((String(begun.dropLast(typeName.count + 1)), type))
            begun = ""
        }
        guard begun.isEmpty else {
            throw MimeoError(.usage, "--types must be COLUMN=TYPE, separated by commas")
        }
        return pairs
    }
}
