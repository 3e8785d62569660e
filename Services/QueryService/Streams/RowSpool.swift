import CRDT
import Foundation
import Machine
import NIOCore
import ServiceKit

/// Lines on their way from an evaluation to a client that may be slower: in memory up to
/// `Limits.spoolHeldBytes`, then in a file without a name. The evaluation never waits for the client, so it
/// holds no snapshot open for one.
///
/// One thread at a time adds lines, one task takes them. Invariants: once there is a file, all later lines go
/// there, and they are taken after those in memory; the end comes after all lines. `state` guards everything;
/// files are written and read without its lock.
final class RowSpool: Sendable {
    /// A step of the one who takes lines.
    enum Step: Sendable {
        /// One line or more, whole.
        case lines(ByteBuffer)
        /// All lines were taken: the last one, or the error in its place.
        case end(Swift.Result<Value, any Error>)
    }

    /// A step as it was taken under the lock.
    private enum Part: Sendable {
        case held(ByteBuffer)
        case filed(SpoolFile, from: Int, count: Int)
        case end(Swift.Result<Value, any Error>)
    }

    private struct State: Sendable {
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

        /// Takes the next part; nil if there is none yet.
        mutating func take() -> Part? {
            if held.readableBytes > 0 {
                isTaken = true
                defer { held = ByteBuffer() }
                return .held(held)
            }
            if let file, taken < written {
                let count = min(written - taken, Limits.spoolReadBytes)
                defer { (taken, isTaken) = (taken + count, true) }
                return .filed(file, from: taken, count: count)
            }
            return end.map { .end($0) }
        }
    }

    private let folder: String
    private let limit: Int
    /// The memory and the room on disk of the lines.
    private let held: ClientHold
    private let filed: ClientHold
    private let state = Monitor(State())

    /// - Parameters:
    ///   - folder: the folder of the file, made if needed.
    ///   - account: whose lines they are.
    ///   - limit: most bytes of the file.
    init(folder: String, for account: Account, limit: Int = Limits.spoolFileBytes) {
        (self.folder, self.limit) = (folder, limit)
        (held, filed) = (ClientHold(account), ClientHold(account, of: .disk))
    }

    // MARK: Adding

    /// Begins with the first line; a second time if the evaluation has to run again.
    /// - Throws: `QUERY-0304` if the client has got lines of the first run.
    func begin() throws(QueryError) {
        let isTaken = state.change { state in
            guard !state.isTaken else { return true }
            state.held.clear()
            state.written = 0
            return false
        }
        filed.shrink(by: filed.bytes)
        if isTaken { throw QueryError(.unavailable, "the connection to the projection was lost") }
    }

    /// Adds lines.
    /// - Throws: `QUERY-0405` if they are more than the file may hold; `QUERY-0304` if they cannot be kept;
    ///   `SRV-0430` and `SRV-0503` if there is no room for them.
    func append(_ lines: ByteBuffer) throws {
        let place = state.read { state -> (file: SpoolFile?, written: Int)? in
            state.file == nil && state.held.readableBytes < Limits.spoolHeldBytes
                ? nil : (state.file, state.written)
        }
        guard let place else {
            var lines = lines
            try held.grow(to: min(held.bytes + lines.readableBytes, Limits.spoolHeldBytes))
            return state.change { $0.held.writeBuffer(&lines) }
        }
        guard place.written + lines.readableBytes <= limit else {
            throw QueryError(.answerTooLarge, "\(limit)")
        }
        try filed.grow(by: lines.readableBytes)
        let file: SpoolFile
        if let known = place.file { file = known } else { file = try SpoolFile(in: folder, filed) }
        try file.write(lines, at: place.written)
        state.change { state in
            state.file = file
            state.written = place.written + lines.readableBytes
        }
    }

    /// Notes that the answer was given before.
    func noteRepeated() { state.change { $0.isRepeated = true } }

    /// Ends the lines, with a last one or with an error.
    func finish(_ end: Swift.Result<Value, any Error>) { state.change { $0.end = end } }

    /// Adds the rows of an answer and ends with its last line, or with the error in its place.
    // Swift 6.3.1 crashes when it optimizes a task with these calls inlined.
    @inline(never)
    func finish(with answer: Swift.Result<ExecuteAnswer, any Error>) {
        finish(
            Swift.Result {
                let answer = try answer.get()
                try answer.add(to: self)
                return answer.lastLine
            })
    }

    // MARK: Taking

    /// Waits for the first line or the end, and returns whether the answer was given before.
    /// - Throws: the error, if there is no line before it.
    func first() async throws -> Bool {
        try await state.take { state -> Swift.Result<Bool, any Error>? in
            if state.held.readableBytes > 0 || state.written > 0 { return .success(state.isRepeated) }
            return state.end.map { end in end.map { _ in state.isRepeated } }
        }.get()
    }

    /// Waits for the next lines, or for the end after the last of them. `finish` is always called, also when
    /// the client has gone.
    func next() async throws(QueryError) -> Step {
        switch await state.take({ $0.take() }) {
        case .held(let lines): .lines(lines)
        case .filed(let file, let from, let count): .lines(try file.read(from: from, count: count))
        case .end(let end): .end(end)
        }
    }
}

/// A file without a name, which ends with this object.
private final class SpoolFile: Sendable {
    /// Gives the room of files back, which takes the system up to a second for a large one.
    private static let closing = BlockingExecutor(label: "mimeo.spools", isSerial: true)

    private let descriptor: Int32
    /// The room on disk, which is free once the file is closed.
    private let filed: ClientHold

    init(in folder: String, _ filed: ClientHold) throws(QueryError) {
        self.filed = filed
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

    deinit {
        guard descriptor >= 0 else { return }
        Self.closing.start { [descriptor, filed] in
            close(descriptor)
            withExtendedLifetime(filed) {}
        }
    }

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

/// Prints rows into a spool: as lines, or as the items of a list.
struct RowLines {
    private let spool: RowSpool
    private let form: AnswerForm
    private var buffer = ByteBuffer()
    /// How many rows were added.
    private(set) var count = 0
    /// The first number of the rows that JSON cannot hold.
    private(set) var unwritableNumber: Double?

    init(_ spool: RowSpool, _ form: AnswerForm) { (self.spool, self.form) = (spool, form) }

    /// Adds a row. Throws as `RowSpool.append`.
    mutating func add(_ row: Value) throws {
        switch form {
        case .cbor: buffer.writeBytes(form.bytes(row))
        case .json, .lines:
            if count > 0, form == .json { buffer.writeString(",") }
            buffer.writeBytes(form.bytes(row))
            buffer.writeString("\n")
        }
        count += 1
        unwritableNumber = unwritableNumber ?? row.unwritableNumber
        if buffer.readableBytes >= Limits.writeBytes { try flush() }
    }

    /// Hands over what is left. Throws as `RowSpool.append`.
    mutating func flush() throws {
        guard buffer.readableBytes > 0 else { return }
        try spool.append(buffer)
        buffer.clear()
    }
}

extension StreamWriter {
    /// Writes the lines of a spool as they come.
    /// - Returns: its end, once all of them are written.
    mutating func add(linesOf spool: RowSpool) async throws -> Swift.Result<Value, any Error> {
        while true {
            switch try await spool.next() {
            case .lines(let bytes): try await add(encoded: bytes)
            case .end(let end): return end
            }
        }
    }
}
