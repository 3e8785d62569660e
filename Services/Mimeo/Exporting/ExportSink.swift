import Foundation

/// The file of an export, or standard output. A file gets its name when it is complete (`OutputFile`).
final class ExportSink {
    private let file: OutputFile?
    private let handle: FileHandle
    private var pending: [UInt8] = []
    private var isFinished = false

    /// - Parameter path: nil is standard output.
    /// - Throws: `CLI-0406`.
    init(path: String?) throws {
        file = path.map { OutputFile($0) }
        handle = try file?.begin() ?? .standardOutput
    }

    deinit { if !isFinished { file?.discard() } }

    func write(_ text: String) throws {
        pending += text.utf8
        if pending.count >= Limits.fileChunkBytes { try flush() }
    }

    /// Writes the rest and gives the file its name.
    func finish() throws {
        try flush()
        try writing { try file?.finish(handle) }
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
                "\(file?.path ?? "standard output") cannot be written: \(error.localizedDescription)")
        }
    }
}
