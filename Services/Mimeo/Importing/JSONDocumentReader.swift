import CRDT
import Foundation

/// The documents of a `.json` file: the objects of an array, those of the only array in an object, or one
/// object.
struct JSONDocumentReader: DocumentReading {
    private let path: String
    private let documents: [Value]
    private let averageBytes: Int
    private var index = 0

    /// - Throws: `CLI-0401`, `CLI-0403`.
    init(path: String) throws {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        let size = (attributes?[.size] as? NSNumber)?.intValue ?? 0
        guard size <= Limits.jsonFileBytes else {
            throw MimeoError(
                .fileUnreadable,
                "\(path) is larger than \(Limits.jsonFileBytes) bytes; use .ndjson, which has no such limit")
        }
        guard let data = FileManager.default.contents(atPath: path) else {
            throw MimeoError(.fileUnreadable, "the file \(path) does not exist or cannot be opened")
        }
        try self.init(path: path, text: [UInt8](data))
    }

    /// - Throws: `CLI-0403`.
    init(path: String, text: [UInt8]) throws {
        self.path = path
        let value: Value
        do {
            let hasMark = text.starts(with: FileBytes.mark)
            value = try JSONText.parse(hasMark ? Array(text.dropFirst(FileBytes.mark.count)) : text)
        } catch {
            throw MimeoError(.fileMalformed, "\(path): \(error.message)")
        }
        documents = try Self.documents(value, path)
        averageBytes = text.count / max(1, documents.count)
    }

    mutating func next() throws -> DocumentRecord? {
        guard index < documents.count else { return nil }
        defer { index += 1 }
        let place = "\(path): document \(index + 1)"
        guard let document = documents[index].objectValue else {
            throw MimeoError(.fileMalformed, "\(place) is not an object")
        }
        return DocumentRecord(place: place, document: document, bytes: averageBytes)
    }

    private static func documents(_ value: Value, _ path: String) throws -> [Value] {
        switch value {
        case .array(let elements): return elements
        case .object(let object):
            let arrays = object.entries.compactMap(\.value.arrayValue)
            guard object.count == 1, let only = arrays.first else { return [value] }
            return only
        default: throw MimeoError(.fileMalformed, "\(path): must hold an array of objects or an object")
        }
    }
}

/// The documents of a `.ndjson` file: one object per line; empty lines are skipped.
struct NDJSONReader: DocumentReading {
    let path: String
    var bytes: FileBytes
    private var line = 0
    private var isAtEnd = false

    init(path: String, bytes: FileBytes) {
        self.path = path
        self.bytes = bytes
    }

    mutating func next() throws -> DocumentRecord? {
        while let text = try nextLine() {
            guard text.contains(where: { !" \t\r".utf8.contains($0) }) else { continue }
            let place = "\(path):\(line)"
            do {
                guard let document = try JSONText.parse(text).objectValue else {
                    throw MimeoError(.fileMalformed, "\(place): not a JSON object")
                }
                return DocumentRecord(place: place, document: document, bytes: text.count)
            } catch let error as CRDTError {
                throw MimeoError(.fileMalformed, "\(place): \(error.message)")
            }
        }
        return nil
    }

    private mutating func nextLine() throws -> [UInt8]? {
        guard !isAtEnd else { return nil }
        line += 1
        var text: [UInt8] = []
        while let byte = try bytes.next() {
            if byte == UInt8(ascii: "\n") { return text }
            guard text.count < Limits.recordBytes else {
                throw MimeoError(
                    .fileMalformed, "\(path):\(line): the line is longer than \(Limits.recordBytes) bytes")
            }
            text.append(byte)
        }
        isAtEnd = true
        return text
    }
}
