import Foundation

/// The file of an export, or standard output. A file gets its name when it is complete, so that a failed
/// export leaves an older one as it was.
final class ExportSink {
    private let path: String?
    private let handle: FileHandle
    private var pending: [UInt8] = []
    private var isFinished = false

    private static func partial(_ path: String) -> String { path + ".partial" }

    /// - Parameter path: nil is standard output.
    /// - Throws: `CLI-0406`.
    init(path: String?) throws {
        self.path = path
        guard let path else {
            handle = .standardOutput
            return
        }
        _ = FileManager.default.createFile(atPath: Self.partial(path), contents: nil)
        guard let file = FileHandle(forWritingAtPath: Self.partial(path)) else {
            throw MimeoError(.fileUnwritable, "\(path) cannot be written: see its folder and its permissions")
        }
        handle = file
    }

    deinit {
        if let path, !isFinished { try? FileManager.default.removeItem(atPath: Self.partial(path)) }
    }

    func write(_ text: String) throws {
        pending += text.utf8
        if pending.count >= Limits.fileChunkBytes { try flush() }
    }

    /// Writes the rest and gives the file its name.
    func finish() throws {
        try flush()
        guard let path else { return }
        try writing {
            try handle.synchronize()
            guard rename(Self.partial(path), path) == 0 else {
                throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
            }
        }
        isFinished = true
    }

    private func flush() throws {
        try writing { try handle.write(contentsOf: Data(pending)) }
        pending = []
    }

    private func writing(_ body: () throws -> Void) throws {
        do { try body() } catch {
            throw MimeoError(
                .fileUnwritable,
                "\(path ?? "standard output") cannot be written: \(error.localizedDescription)")
        }
    }
}
