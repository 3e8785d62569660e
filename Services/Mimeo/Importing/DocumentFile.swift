import CRDT
import Foundation

/// One document of a file.
struct DocumentRecord {
    /// `FILE:LINE`, or for a `.json` file the number of the document.
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
    /// - Throws: `CLI-0401`, `CLI-0403` with the place.
    mutating func next() throws -> DocumentRecord?
}

/// A file to import; its extension tells its kind.
struct DocumentFile {
    enum Kind: Equatable { case json, lines, table }

    let path: String
    let kind: Kind

    /// - Throws: `CLI-0402`.
    init(path: String) throws {
        self.path = path
        switch path.split(separator: ".").last?.lowercased() {
        case "json": kind = .json
        case "ndjson", "jsonl": kind = .lines
        case "csv": kind = .table
        default: throw MimeoError(.fileKindUnknown, "'\(path)' is not a .json, .ndjson, .jsonl or .csv file")
        }
    }

    /// Opens the file. Lines and tables are read on demand, a `.json` file at once.
    /// - Throws: `CLI-0401`, `CLI-0403`.
    func reader() throws -> any DocumentReading {
        switch kind {
        case .json: try JSONDocumentReader(path: path)
        case .lines: NDJSONReader(path: path, bytes: try FileBytes(path: path))
        case .table: try CSVDocumentReader(path: path, bytes: FileBytes(path: path))
        }
    }
}

/// The bytes of a file, read in chunks, without a byte order mark at the beginning.
struct FileBytes {
    /// U+FEFF in UTF-8.
    static let mark: [UInt8] = [0xEF, 0xBB, 0xBF]

    private let read: () throws -> [UInt8]
    private var chunk: [UInt8] = []
    private var place = 0
    private var hasBegun = false

    /// - Throws: `CLI-0401`.
    init(path: String) throws {
        guard let handle = FileHandle(forReadingAtPath: path) else {
            throw MimeoError(.fileUnreadable, "the file \(path) does not exist or cannot be opened")
        }
        self.init {
            do {
                return [UInt8](try handle.read(upToCount: Limits.fileChunkBytes) ?? Data())
            } catch {
                throw MimeoError(.fileUnreadable, "\(path) cannot be read: \(error.localizedDescription)")
            }
        }
    }

    /// - Parameter read: returns the next chunk; empty at the end.
    init(_ read: @escaping () throws -> [UInt8]) { self.read = read }

    /// The next byte; nil at the end.
    mutating func next() throws -> UInt8? {
        if !hasBegun { try skipMark() }
        if place == chunk.count {
            chunk = try read()
            place = 0
            guard !chunk.isEmpty else { return nil }
        }
        defer { place += 1 }
        return chunk[place]
    }

    private mutating func skipMark() throws {
        hasBegun = true
        while chunk.count < Self.mark.count {
            let more = try read()
            guard !more.isEmpty else { break }
            chunk += more
        }
        if chunk.starts(with: Self.mark) { place = Self.mark.count }
    }
}
