internal import CMimeo
import CRDT
import DittoSwift
import Foundation

/// Values and texts that come in.
enum Incoming {
    /// Text with a length.
    /// - Throws: `NATIVE-0104` for a missing pointer, an impossible length, or text that is not UTF-8.
    static func text(_ pointer: UnsafePointer<CChar>?, _ size: Int, _ name: String) throws -> String {
        guard let pointer else { throw BorderError(.argumentUnusable, "the \(name) is missing") }
        try checkSize(size, name)
        let bytes = UnsafeRawBufferPointer(start: pointer, count: size)
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw BorderError(.argumentUnusable, "the \(name) is not UTF-8")
        }
        return text
    }

    /// A path, which the system would cut at a zero.
    /// - Throws: as `text`.
    static func path(_ pointer: UnsafePointer<CChar>?, _ size: Int) throws -> String {
        let path = try text(pointer, size, "path")
        guard isPath(path) else {
            throw BorderError(.argumentUnusable, "the path is empty or has a zero in it")
        }
        return path
    }

    static func isPath(_ text: String) -> Bool { !text.isEmpty && !text.utf8.contains(0) }

    /// - Throws: `NATIVE-0104` for a size that no memory has: it arrives as a negative one.
    static func checkSize(_ size: Int, _ name: String) throws {
        guard size >= 0 else {
            throw BorderError(.argumentUnusable, "the length of the \(name) is impossible")
        }
    }

    /// A map in CBOR or JSON; an empty one for no pointer. JSON begins with `{` or white space, which no map
    /// in CBOR does.
    static func map(_ pointer: UnsafeRawPointer?, _ size: Int, _ name: String) throws -> ObjectValue {
        try checkSize(size, name)
        guard let pointer, size > 0 else { return ObjectValue() }
        let bytes = [UInt8](UnsafeRawBufferPointer(start: pointer, count: size))
        let isJSON = bytes[0] == UInt8(ascii: "{") || bytes[0] <= 0x20 && bytes[0] > 0x08
        let value = isJSON ? try JSONText.parse(bytes) : try CBOR.decode(bytes)
        guard let object = value.objectValue else {
            throw BorderError(.noMap, "the \(name) are \(isJSON ? "no JSON object" : "no CBOR map")")
        }
        return object
    }
}

/// A statement with its arguments.
struct Statement {
    let text: String
    let arguments: ObjectValue

    /// - Throws: as `Incoming.text` and `Incoming.map`.
    init(
        _ text: UnsafePointer<CChar>?, _ size: Int, _ arguments: UnsafeRawPointer?, _ argumentsSize: Int
    ) throws {
        self.text = try Incoming.text(text, size, "statement")
        self.arguments = try Incoming.map(arguments, argumentsSize, "arguments")
    }
}

/// The format of values that go out.
enum Format: UInt32, Sendable {
    case cbor = 0
    case json = 1
    /// JSON where nothing is lost, else CBOR.
    case either = 2

    init(flags: UInt32) throws {
        guard let format = Format(rawValue: flags) else {
            throw BorderError(.choiceUnknown, "\(flags) is no format")
        }
        self = format
    }

    /// An array of values, or one value, in this format.
    func bytes(_ value: Value) -> (bytes: [UInt8], format: Format) {
        if self == .json || self == .either && value.isWritableInJSON {
            return (JSONText.bytes(value), .json)
        }
        return (CBOR.encode(value), .cbor)
    }
}

extension Value {
    /// True if JSON loses nothing of it: there is no binary data in it, no infinity and no NaN.
    fileprivate var isWritableInJSON: Bool {
        switch self {
        case .binary: false
        case .double(let number): number.isFinite
        case .array(let elements): elements.allSatisfy(\.isWritableInJSON)
        case .object(let object): object.entries.allSatisfy(\.value.isWritableInJSON)
        default: true
        }
    }
}

/// Bytes that C reads until it releases their handle.
final class Bytes: Held {
    static let kind = "a result"
    // Safe: written before anybody else knows of it, and only read afterwards.
    private nonisolated(unsafe) let memory: UnsafeMutableRawBufferPointer

    init(_ bytes: [UInt8]) {
        memory = .allocate(byteCount: max(1, bytes.count), alignment: 8)
        memory.copyBytes(from: bytes)
    }

    deinit { memory.deallocate() }

    func end() {}

    /// Never nil, also for no bytes.
    var start: UnsafePointer<UInt8>? {
        memory.baseAddress.map { UnsafePointer($0.assumingMemoryBound(to: UInt8.self)) }
    }
}

extension mimeo_result {
    /// Values that a new handle keeps.
    init(_ values: [Value], _ format: Format, commit: UInt64 = 0, isWrite: Bool = false) {
        let (bytes, used) = format.bytes(.array(values))
        self.init(bytes, used, count: values.count, commit: commit, isWrite: isWrite)
    }

    /// One value that a new handle keeps.
    init(one value: Value, _ format: Format) {
        let (bytes, used) = format.bytes(value)
        self.init(bytes, used, count: 1)
    }

    init(_ bytes: [UInt8], _ format: Format, count: Int, commit: UInt64 = 0, isWrite: Bool = false) {
        let kept = Bytes(bytes)
        self.init(
            handle: HandleTable.shared.add(kept), data: kept.start, size: bytes.count, count: UInt64(count),
            commit: commit, format: format.rawValue, is_write: isWrite ? 1 : 0)
    }

    /// The rows of a statement, or the ids of the documents that it wrote.
    init(_ result: DittoQueryResult, _ format: Format) {
        let isWrite = result.items.isEmpty && result.isWrite
        self.init(
            isWrite ? result.mutatedValues : result.items.map(\.row), format, commit: result.commitID ?? 0,
            isWrite: isWrite)
    }
}
