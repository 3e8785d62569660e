import CRDT
import Foundation
import Testing

@testable import Mimeo

/// A text as a file's content, in chunks of a few bytes, so that everything straddles a border.
func source(_ bytes: [UInt8], _ name: String = "f.csv", encoding: TextEncoding? = nil) -> TextSource {
    TextSource(name: name) {
        var rest = bytes[...]
        return FileBytes(name: name, encoding: encoding) {
            defer { rest = rest.dropFirst(3) }
            return Array(rest.prefix(3))
        }
    }
}

func source(_ text: String, _ name: String = "f.csv") -> TextSource { source(Array(text.utf8), name) }

/// The documents of a reader; a wrong record ends them as it ends the command.
func all(_ reader: any DocumentReading) throws -> [ObjectValue] {
    var reader = reader
    var documents: [ObjectValue] = []
    do {
        while let record = try reader.next() { documents.append(record.document) }
    } catch let error as RecordError {
        throw error.ending
    }
    return documents
}

/// The error of a body as text; nil if there is none.
func failure(_ body: () throws -> Void) -> String? {
    do {
        try body()
        return nil
    } catch { return "\(error)" }
}

/// The remarks of a body, each as `CODE message`.
func notes(_ body: (ImportNotes) throws -> Void) rethrows -> [String] {
    let notes = ImportNotes()
    try body(notes)
    return notes.all.map { "\($0.code.rawValue) \($0.message)" }
}

func table(
    _ text: String, _ options: ReadingOptions = ReadingOptions(), _ notes: ImportNotes = ImportNotes()
) throws -> [ObjectValue] {
    try all(try CSVDocumentReader(source(text), options, notes: notes))
}

func json(
    _ text: String, _ options: ReadingOptions = ReadingOptions(), _ notes: ImportNotes = ImportNotes()
) throws -> [ObjectValue] {
    try all(try JSONDocumentReader(source(text, "f.json"), options, notes: notes))
}

func object(_ entries: (String, Value)...) -> ObjectValue {
    ObjectValue(entries.map { (key: $0.0, value: $0.1) })
}
