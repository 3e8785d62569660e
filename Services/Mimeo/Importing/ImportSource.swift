import Foundation
import ServiceKit

/// A text that can be read several times: types and lists are found in a first pass, documents read in a
/// second one.
struct TextSource {
    /// Name in messages.
    let name: String
    /// Starts again at the beginning; earlier readers must not be used afterwards.
    let open: () throws -> FileBytes
}

/// The file to import, or standard input, which a temporary file without a name holds.
///
/// Belongs to one task. Only the bytes of the last `open` may be read.
final class ImportSource {
    /// Name in messages.
    let name: String
    /// Size of the file in bytes; packed, if it is.
    let size: Int
    /// Number of its bytes read since the last `open`.
    private(set) var position = 0

    /// Called with `position` after each read.
    var onRead: ((Int) -> Void)?

    private let handle: FileHandle
    private let isPacked: Bool

    /// - Parameter path: `-` is standard input.
    /// - Throws: `CLI-0401`; `CLI-0402` for an archive and other files that are no text.
    init(path: String) throws {
        let name = path == "-" ? "standard input" : path
        let given = path == "-" ? FileHandle.standardInput : FileHandle(forReadingAtPath: path)
        guard let given else {
            throw MimeoError(.fileUnreadable, "the file \(path) does not exist or cannot be opened")
        }
        // A pipe can be read only once.
        let handle = Self.isFile(given) ? given : try Self.spooled(given, name)
        size = Int(try Self.reading(name) { try handle.seekToEnd() })
        try Self.reading(name) { try handle.seek(toOffset: 0) }
        let head = [UInt8](try Self.reading(name) { try handle.read(upToCount: 16) } ?? Data())
        isPacked = head.starts(with: GzipReader.mark)
        (self.name, self.handle) = (name, handle)
        if let kind = ForeignFile(head) {
            throw MimeoError(.fileKindUnknown, "\(name) is \(kind.name); \(kind.remedy)")
        }
    }

    /// The text in an encoding.
    func text(encoding: TextEncoding?) -> TextSource {
        TextSource(name: name) { [self] in
            try Self.reading(name) { try handle.seek(toOffset: 0) }
            position = 0
            guard isPacked else { return FileBytes(name: name, encoding: encoding) { try self.chunk() } }
            let gzip = GzipReader { try self.chunk() }
            return FileBytes(name: name, encoding: encoding) { [name] in
                do { return try gzip.next() } catch is GzipReader.Malformed {
                    throw MimeoError(.fileMalformed, "\(name): the gzip data is damaged or cut off")
                }
            }
        }
    }

    private func chunk() throws -> [UInt8] {
        let bytes = [UInt8](
            try Self.reading(name) { try handle.read(upToCount: Limits.fileChunkBytes) } ?? Data())
        position += bytes.count
        onRead?(position)
        return bytes
    }

    private static func isFile(_ handle: FileHandle) -> Bool {
        var status = stat()
        return fstat(handle.fileDescriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
    }

    /// Copies everything into a temporary file, whose name is removed at once.
    private static func spooled(_ input: FileHandle, _ name: String) throws -> FileHandle {
        let spool = try TemporaryFile.open()
        while true {
            let bytes = try reading(name) { try input.read(upToCount: Limits.fileChunkBytes) } ?? Data()
            guard !bytes.isEmpty else { return spool }
            try TemporaryFile.writing { try spool.write(contentsOf: bytes) }
        }
    }

    private static func reading<Result>(_ name: String, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch {
            throw MimeoError(.fileUnreadable, "\(name) cannot be read: \(error.localizedDescription)")
        }
    }
}

/// Temporary files without a name: they vanish with their last descriptor, also when the process is killed.
enum TemporaryFile {
    /// Opens a new one for reading and writing.
    /// - Throws: `CLI-0401`.
    static func open() throws -> FileHandle {
        var path = Array((NSTemporaryDirectory() + "/mimeo-XXXXXX").utf8CString)
        let descriptor = mkstemp(&path)
        guard descriptor >= 0 else {
            throw MimeoError(
                .fileUnreadable, "no temporary file can be made in \(NSTemporaryDirectory()): see TMPDIR")
        }
        unlink(path)
        return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    /// Translates the error of a write to one.
    static func writing<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch {
            throw MimeoError(
                .fileUnreadable,
                "a temporary file in \(NSTemporaryDirectory()) cannot be written: "
                    + error.localizedDescription
            )
        }
    }
}
