import ArgumentParser
import CRDT

/// The formats of an export.
enum ExportFormat: String, CaseIterable, ExpressibleByArgument {
    case ndjson, json, csv

    /// - Parameter columns: the names that are known before there is a row.
    func writer(
        _ sink: ExportSink, _ notes: ImportNotes, columns: [String]
    ) throws -> any ExportWriting {
        switch self {
        case .ndjson: JSONLines(sink: sink, notes: notes)
        case .json: JSONArray(sink: sink, notes: notes)
        case .csv: try CSVWriter(sink: sink, notes: notes, names: columns)
        }
    }
}

/// Writes rows in one format.
protocol ExportWriting {
    mutating func add(_ row: ObjectValue) throws
    /// Writes the end, and what a person or script has to know about the format into the answer.
    mutating func finish(_ answer: inout ObjectValue) throws
}

/// One row a line.
struct JSONLines: ExportWriting {
    let sink: ExportSink
    let notes: ImportNotes

    func add(_ row: ObjectValue) throws {
        noteChanges(row, notes)
        try sink.write(JSONText.print(.object(row)) + "\n")
    }

    func finish(_ answer: inout ObjectValue) throws {}
}

/// An array, one row a line.
struct JSONArray: ExportWriting {
    let sink: ExportSink
    let notes: ImportNotes
    private var isEmpty = true

    init(sink: ExportSink, notes: ImportNotes) {
        self.sink = sink
        self.notes = notes
    }

    mutating func add(_ row: ObjectValue) throws {
        noteChanges(row, notes)
        try sink.write((isEmpty ? "[\n" : ",\n") + JSONText.print(.object(row)))
        isEmpty = false
    }

    mutating func finish(_ answer: inout ObjectValue) throws { try sink.write(isEmpty ? "[]\n" : "\n]\n") }
}

/// Tells that a row holds values that JSON cannot write.
func noteChanges(_ row: ObjectValue, _ notes: ImportNotes) {
    func change(_ value: Value) -> String? {
        switch value {
        case .double(let number) where !number.isFinite: "\(number) was written as null"
        case .binary: "binary data was written as base64 text"
        case .array(let elements): elements.lazy.compactMap(change).first
        case .object(let object): object.entries.lazy.compactMap { change($0.value) }.first
        default: nil
        }
    }
    guard let change = change(.object(row)) else { return }
    let id = row["_id"].map { ImportNotes.cut(JSONText.print($0)) } ?? "without an id"
    notes.add(.valueChanged, "document \(id): \(change)")
}
