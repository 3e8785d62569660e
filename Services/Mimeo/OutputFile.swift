import Foundation

/// The place of a file that a command writes as a whole.
///
/// A regular file is replaced when the new one is complete, so that a failure leaves the old one as it was;
/// it keeps its mode, and links to it stay. Anything else, such as a pipe or a device, is written to.
struct OutputFile {
    /// The file itself, where the path is a link.
    let path: String
    /// False for a pipe, a device or another thing that is written to.
    let isReplaced: Bool
    /// The mode of the file that is replaced; nil where there is none.
    private let mode: mode_t?

    init(_ path: String) {
        var info = stat()
        guard stat(path, &info) == 0 else {
            (self.path, isReplaced, mode) = (path, true, nil)
            return
        }
        isReplaced = info.st_mode & S_IFMT == S_IFREG
        mode = isReplaced ? info.st_mode & 0o7777 : nil
        let resolved = isReplaced ? realpath(path, nil) : nil
        defer { free(resolved) }
        self.path = resolved.map { String(cString: $0) } ?? path
    }

    private var partial: String { path + ".partial" }

    /// Opens it for writing.
    /// - Parameter isPrivate: true if only its owner may read it, whatever was there.
    /// - Throws: `CLI-0406`.
    func begin(isPrivate: Bool = false) throws -> FileHandle {
        if isReplaced { unlink(partial) }
        let flags = isReplaced ? O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC : O_WRONLY | O_CLOEXEC
        let descriptor = open(isReplaced ? partial : path, flags, isPrivate ? 0o600 : 0o666)
        guard descriptor >= 0 else {
            throw MimeoError(.fileUnwritable, "\(path) cannot be written: see its folder and its permissions")
        }
        if let mode, !isPrivate { fchmod(descriptor, mode) }
        return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    /// The file is complete and gets its name.
    func finish(_ handle: FileHandle) throws {
        guard isReplaced else { return }
        try handle.synchronize()
        guard rename(partial, path) == 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
    }

    /// Removes what is not complete.
    func discard() { if isReplaced { unlink(partial) } }
}
