import CRDT

/// An error about one record of a file; the next record can still be read.
struct RecordError: Error, Equatable {
    /// `FILE:LINE`.
    var place: String
    var problem: String

    /// The same as the error that ends the command.
    var ending: MimeoError { MimeoError(.fileMalformed, "\(place): \(problem)") }
}

/// Remarks of an import, besides its result, about decisions that somebody may want to change. Only the first
/// remark is kept, with a count, of each kind that occurs per record.
final class ImportNotes {
    private(set) var all: [(code: MimeoNoteCode, message: String, count: Int)] = []

    /// Adds a remark.
    func add(_ code: MimeoNoteCode, _ message: String) {
        switch code {
        case .extendedJSON, .numberChanged, .keyRepeated, .valueChanged:
            guard let place = all.firstIndex(where: { $0.code == code }) else { break }
            all[place].count += 1
            return
        default: break
        }
        all.append((code, message, 1))
    }

    /// The remarks as `dql` prints warnings: an array of `{"code", "message"}`.
    var json: Value {
        .array(
            all.map { note in
                let more = note.count > 1 ? " (\(note.count) such)" : ""
                return ["code": .string(note.code.rawValue), "message": .string(note.message + more)]
            })
    }

    /// A text as a shell's command line has it.
    static func argument(_ text: String) -> String {
        let isPlain =
            !text.isEmpty && text.allSatisfy { $0.isLetter || $0.isNumber || "_./:=,+-".contains($0) }
        return isPlain ? text : "'\(text.replacing("'", with: "'\\''"))'"
    }

    /// A piece of a file's text for a message, in one line of bounded length.
    static func cut(_ text: String) -> String {
        let line = String(text.prefix(Limits.quotedCharacters + 1).map { $0.isNewline ? " " : $0 })
        return line.count > Limits.quotedCharacters ? line.dropLast() + "…" : line
    }
}
