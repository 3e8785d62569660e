import CRDT
import Foundation
import NIOCore
import ServiceKit
import Synchronization

/// Lines on their way from an evaluation to a client that may be slower: in memory up to
/// `Limits.spoolHeldBytes`, then in a file without a name. The evaluation never waits for the client, so it
/// holds no snapshot open for one.
///
/// One thread at a time adds lines, one task takes them. Invariant: once there is a file, all later lines go
/// there, and they are taken after those in memory. `state` guards everything; files are written and read
/// without the lock.
final class RowSpool: Sendable {
    private struct State {
        var held = ByteBuffer()
        var file: SpoolFile?
        /// Bytes of the file that were written and taken.
        var written = 0
        var taken = 0
        /// True once the client has got a line.
        var isTaken = false
        /// The last line, or the error in its place.
        var end: Swift.Result<Value, any Error>?
        var isRepeated = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let folder: String
    private let limit: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - folder: the folder of the file, made if needed.
    ///   - limit: most bytes of the file.
    init(folder: String, limit: Int = Limits.spoolFileBytes) { (self.folder, self.limit) = (folder, limit) }

    // MARK: Adding

    /// Begins with the first line; a second time if the evaluation has to run again.
    /// - Throws: `QUERY-0304` if the client has got lines of the first run.
    func begin() throws(QueryError) {
        let isTaken = state.withLock { state in
            guard !state.isTaken else { return true }
            state.held.clear()
            state.written = 0
            return false
        }
        if isTaken { throw QueryError(.unavailable, "the connection to the projection was lost") }
    }

    /// Adds lines.
    /// - Throws: `QUERY-0405` if they are more than the file may hold; `QUERY-0304` if they cannot be kept.
    func append(_ lines: ByteBuffer) throws(QueryError) {
        let place = state.withLock { state -> (file: SpoolFile?, written: Int)? in
            guard state.file == nil, state.held.readableBytes < Limits.spoolHeldBytes else {
                return (state.file, state.written)
            }
            var lines = lines
            state.held.writeBuffer(&lines)
            return nil
        }
        if let place {
            guard place.written + lines.readableBytes <= limit else {
                throw QueryError(.answerTooLarge, "\(limit)")
            }
            let file: SpoolFile
            if let known = place.file { file = known } else { file = try SpoolFile(in: folder) }
            try file.write(lines, at: place.written)
            state.withLock { state in
                state.file = file
                state.written = place.written + lines.readableBytes
            }
        }
        wake()
    }

    /// Notes that the answer was given before.
    func noteRepeated() { state.withLock { $0.isRepeated = true } }

    /// Ends the lines, with a last one or with an error.
    func finish(_ end: Swift.Result<Value, any Error>) {
        state.withLock { $0.end = end }
        wake()
    }

    private func wake() {
        state.withLock { state in
            defer { state.waiter = nil }
            return state.waiter
        }?.resume()
    }

    // MARK: Taking

    /// Waits for the first line or the end.
    /// - Throws: the error, if there is no line before it.
    func first() async throws -> (isRepeated: Bool, hasLines: Bool) {
        await wait { $0.held.readableBytes > 0 || $0.written > 0 }
        let (first, error) = state.withLock { state in
            let hasLines = state.held.readableBytes > 0 || state.written > 0
            guard !hasLines, case .failure(let error)? = state.end else {
                return ((state.isRepeated, hasLines), (any Error)?.none)
            }
            return ((state.isRepeated, hasLines), error)
        }
        if let error { throw error }
        return first
    }

    /// The next lines; nil after the last.
    func next() async throws(QueryError) -> ByteBuffer? {
        await wait { $0.held.readableBytes > 0 || $0.taken < $0.written }
        let step = state.withLock { state -> (bytes: ByteBuffer?, file: SpoolFile?, from: Int, count: Int) in
            state.isTaken = true
            if state.held.readableBytes > 0 {
                defer { state.held = ByteBuffer() }
                return (state.held, nil, 0, 0)
            }
            let count = min(state.written - state.taken, Limits.spoolReadBytes)
            defer { state.taken += count }
            return (nil, state.file, state.taken, count)
        }
        if let bytes = step.bytes { return bytes }
        guard let file = step.file, step.count > 0 else { return nil }
        return try file.read(from: step.from, count: step.count)
    }

    /// The last line, once all others are taken.
    var end: Swift.Result<Value, any Error>? { state.withLock { $0.end } }

    /// Waits until something is there, or the end. `finish` is always called.
    private func wait(until isThere: @Sendable (borrowing State) -> Bool) async {
        await withCheckedContinuation { continuation in
            let isDone = state.withLock { state in
                if isThere(state) || state.end != nil { return true }
                state.waiter = continuation
                return false
            }
            if isDone { continuation.resume() }
        }
    }
}

/// A file without a name, which ends with this object.
private final class SpoolFile: Sendable {
    private let descriptor: Int32

    init(in folder: String) throws(QueryError) {
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        } catch {
            throw Self.failure("\(folder) cannot be made")
        }
        let path = "\(folder)/rows-\(UUID().uuidString)"
        descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure("no file can be made in \(folder)") }
        unlink(path)
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    func write(_ bytes: ByteBuffer, at place: Int) throws(QueryError) {
        var (rest, offset) = (bytes, place)
        while rest.readableBytes > 0 {
            let count = rest.withUnsafeReadableBytes {
                pwrite(descriptor, $0.baseAddress, $0.count, off_t(offset))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Self.failure("rows cannot be written (error \(errno))") }
            rest.moveReaderIndex(forwardBy: count)
            offset += count
        }
    }

    func read(from place: Int, count: Int) throws(QueryError) -> ByteBuffer {
        var buffer = ByteBuffer()
        var missing = count
        while missing > 0 {
            let offset = off_t(place + count - missing)
            let got = buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: missing) { space in
                max(0, pread(descriptor, space.baseAddress, missing, offset))
            }
            guard got > 0 else { throw Self.failure("rows cannot be read (error \(errno))") }
            missing -= got
        }
        return buffer
    }

    private static func failure(_ reason: String) -> QueryError { QueryError(.unavailable, reason) }
}

/// Prints rows as lines into a spool.
struct RowLines {
    private let spool: RowSpool
    private var buffer = ByteBuffer()

    init(_ spool: RowSpool) { self.spool = spool }

    /// Adds a row. Throws as `RowSpool.append`.
    mutating func add(_ row: Value) throws(QueryError) {
        buffer.writeString(JSONText.print(row))
        buffer.writeString("\n")
        if buffer.readableBytes >= Limits.writeBytes { try flush() }
    }

    /// Hands over what is left. Throws as `RowSpool.append`.
    mutating func flush() throws(QueryError) {
        guard buffer.readableBytes > 0 else { return }
        try spool.append(buffer)
        buffer.clear()
    }
}
