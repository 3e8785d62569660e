import Foundation

/// A file of the application that becomes an attachment. It has to keep its content while it is copied: a
/// copy of bytes from before and after a change would be a file that never was.
///
/// Used by one task. Blocks on the disk.
final class SourceFile {
    private let path: String
    private let handle: FileHandle
    /// Length and time of the content, as they were at the opening.
    private let beginning: Content
    private var taken: Int64 = 0

    private struct Content: Equatable {
        var length: Int64
        var time: [Int]

        init(_ status: stat) {
            length = Int64(status.st_size)
            #if canImport(Darwin)
                time = [status.st_mtimespec.tv_sec, status.st_mtimespec.tv_nsec]
            #else
                time = [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
            #endif
        }
    }

    /// Opens a file. Pipes, devices and folders are refused: their bytes may never end.
    /// - Throws: `SDK-0701` to `SDK-0703`.
    init(_ path: String) throws(SDKError) {
        // Without waiting: a pipe that nobody writes would never be open.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw Self.failure(errno, path) }
        handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        self.path = path
        let status = try Self.status(of: descriptor, path)
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw SDKError(.attachmentFileUnusable, "\(path) is not a file")
        }
        beginning = Content(status)
    }

    /// The next bytes; nil at the end, once it was seen that the file is as it was.
    /// - Throws: `SDK-0703`, and `SDK-0707` for a file that has changed.
    func next(_ most: Int) throws(SDKError) -> Data? {
        let bytes: Data
        do {
            bytes = try handle.read(upToCount: most) ?? Data()
        } catch {
            throw SDKError(
                .attachmentFileUnusable, "\(path) cannot be read: \(error.localizedDescription)")
        }
        taken += Int64(bytes.count)
        // A file that grows as quickly as it is read ends here, too.
        guard bytes.isEmpty || taken > beginning.length else { return bytes }
        let status = try Self.status(of: handle.fileDescriptor, path)
        guard taken == beginning.length, Content(status) == beginning else {
            throw SDKError(
                .attachmentFileChanged,
                "\(path) changed while it was copied; make the attachment when nobody writes the file")
        }
        return nil
    }

    private static func status(of descriptor: Int32, _ path: String) throws(SDKError) -> stat {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure(errno, path) }
        return status
    }

    /// The error for a file that cannot be opened, by the system's reason.
    static func failure(_ reason: Int32, _ path: String) -> SDKError {
        switch reason {
        case ENOENT, ENOTDIR: SDKError(.attachmentFileMissing, "there is no file \(path)")
        case EACCES, EPERM: SDKError(.attachmentFileForbidden, "\(path) is not readable")
        default:
            SDKError(
                .attachmentFileUnusable, "\(path) cannot be read: \(String(cString: strerror(reason)))")
        }
    }
}
