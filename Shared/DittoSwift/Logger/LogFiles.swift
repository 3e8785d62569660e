import CRDT
import Dispatch
import Foundation
import Logging
import Machine
import Synchronization

/// One instance's log on disk: files of JSON lines in `ditto_logs`. The newest file grows until it is too
/// large or too old; the oldest are removed when there are too many.
///
/// `queue` owns the files. Logging never waits for the disk and never fails the application. Lines that
/// cannot be written are lost, and counted in the next line that can.
final class LogFiles: Sendable {
    /// The system parameters for files.
    struct Policy: Sendable {
        var bytes = 1_048_576
        var age = Duration.seconds(24 * 3_600)
        var count = 15
    }

    private struct State {
        var directory: String?
        var policy: @Sendable () -> Policy = { Policy() }
        /// Lines that wait for the directory or for the queue.
        var waiting: [String] = []
        var lost = 0
        var isWriting = false
        var isClosed = false
    }

    static let exporting = BlockingExecutor(label: "ditto.logs.export", isSerial: true)
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "ditto.logs", qos: .utility)
    /// Only used on `queue`.
    private let current = Mutex<Open?>(nil)

    private struct Open {
        let handle: FileHandle
        let began: ContinuousClock.Instant
        var bytes: Int
    }

    /// Starts writing to this persistence directory, which this process owns.
    func open(in directory: String, policy: @escaping @Sendable () -> Policy) {
        let folder = directory + "/ditto_logs"
        let starts = state.withLock { state in
            state.directory = folder
            state.policy = policy
            defer { state.isWriting = !state.waiting.isEmpty }
            return !state.waiting.isEmpty
        }
        LogSettings.shared.add(self)
        if starts { queue.async { self.write() } }
    }

    /// Adds a message.
    func add(_ level: DittoLogLevel, _ message: String, _ metadata: Logging.Logger.Metadata) {
        let line = Self.line(level, message, metadata)
        let starts = state.withLock { state in
            guard !state.isClosed else { return false }
            guard state.waiting.count < Limits.waitingLogLines else {
                state.lost += 1
                return false
            }
            state.waiting.append(line)
            guard state.directory != nil, !state.isWriting else { return false }
            state.isWriting = true
            return true
        }
        if starts { queue.async { self.write() } }
    }

    /// Writes the waiting lines and closes the files.
    func close() {
        state.withLock { $0.isClosed = true }
        LogSettings.shared.remove(self)
        queue.sync {
            write()
            current.withLock { open in
                try? open?.handle.close()
                open = nil
            }
        }
    }

    /// The files, oldest first, with everything logged so far.
    func flushed() -> [URL] {
        queue.sync {
            write()
            return files()
        }
    }

    private static func line(
        _ level: DittoLogLevel, _ message: String, _ metadata: Logging.Logger.Metadata
    ) -> String {
        let time = Date().formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        var members: [ObjectValue.Entry] = [
            (key: "time", value: .string(time)),
            (key: "level", value: .string(level.name)), (key: "message", value: .string(message)),
        ]
        let known = ["time", "level", "message"]
        for (key, value) in metadata.sorted(by: { $0.key < $1.key }) where !known.contains(key) {
            members.append((key: key, value: .string("\(value)")))
        }
        return JSONText.print(.object(ObjectValue(members))) + "\n"
    }

    // MARK: On the queue

    private func write() {
        while true {
            let (lines, lost, folder, policy) = state.withLock { state in
                let lines = state.directory == nil ? [] : state.waiting
                let lost = state.lost
                if !lines.isEmpty {
                    state.waiting = []
                    state.lost = 0
                }
                if lines.isEmpty { state.isWriting = false }
                return (lines, lost, state.directory, state.policy())
            }
            guard !lines.isEmpty, let folder else { return }
            var all = lines
            if lost > 0 {
                all.append(Self.line(.warning, "lines of the log were lost", ["count": "\(lost)"]))
            }
            append(all, folder, policy)
        }
    }

    private func append(_ lines: [String], _ folder: String, _ policy: Policy) {
        current.withLock { open in
            for line in lines {
                let data = Data(line.utf8)
                if let known = open,
                    known.bytes + data.count > policy.bytes || known.began.duration(to: .now) > policy.age
                {
                    try? known.handle.close()
                    open = nil
                }
                if open == nil { open = begin(folder, policy) }
                guard (try? open?.handle.write(contentsOf: data)) != nil else {
                    state.withLock { $0.lost += 1 }
                    try? open?.handle.close()
                    open = nil
                    continue
                }
                open?.bytes += data.count
            }
        }
    }

    /// Starts a new file and removes the oldest ones.
    private func begin(_ folder: String, _ policy: Policy) -> Open? {
        let manager = FileManager.default
        try? manager.createDirectory(
            atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let known = files()
        for old in known.dropLast(max(0, policy.count - 1)) { try? manager.removeItem(at: old) }
        let last = known.last.flatMap { Int($0.lastPathComponent.dropFirst(4).dropLast(6)) } ?? 0
        let name = String(last + 1)
        let path = folder + "/log-" + String(repeating: "0", count: max(0, 10 - name.count)) + name + ".jsonl"
        guard
            manager.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600]),
            let handle = FileHandle(forWritingAtPath: path)
        else { return nil }
        return Open(handle: handle, began: .now, bytes: 0)
    }

    private func files() -> [URL] {
        guard let folder = state.withLock({ $0.directory }) else { return [] }
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { $0.hasPrefix("log-") && $0.hasSuffix(".jsonl") }.sorted().map {
            URL(fileURLWithPath: folder + "/" + $0)
        }
    }
}

/// Collects the log files of all open instances.
enum LogExport {
    /// Writes the files to `url`; returns the size of the file written.
    /// - Throws: `SDK-0601` to `SDK-0604`.
    static func write(to url: URL) throws(SDKError) -> UInt64 {
        let manager = FileManager.default
        guard url.isFileURL || url.scheme == nil else {
            throw SDKError(.exportFailed, "'\(url.absoluteString)' is not a file URL")
        }
        let path = url.path
        guard !manager.fileExists(atPath: path) else {
            throw SDKError(.exportFileExists, "\(path) already exists")
        }
        var isDirectory: ObjCBool = false
        let folder = url.deletingLastPathComponent().path
        guard manager.fileExists(atPath: folder, isDirectory: &isDirectory), isDirectory.boolValue else {
            throw SDKError(.exportFolderMissing, "there is no directory \(folder)")
        }
        guard manager.isWritableFile(atPath: folder) else {
            throw SDKError(.exportForbidden, "\(folder) cannot be written to")
        }
        do {
            guard manager.createFile(atPath: path, contents: nil) else { throw CocoaError(.fileWriteUnknown) }
            let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
            var gzip = Gzip()
            var bytes: UInt64 = 0
            func write(_ part: [UInt8]) throws {
                try handle.write(contentsOf: part)
                bytes += UInt64(part.count)
            }
            for files in LogSettings.shared.files {
                for file in files.flushed() {
                    // A newer file may have replaced this one meanwhile.
                    guard let data = manager.contents(atPath: file.path) else { continue }
                    gzip.append([UInt8](data))
                    try write(gzip.take())
                }
            }
            try write(gzip.finish())
            try handle.close()
            return bytes
        } catch {
            throw SDKError(.exportFailed, "\(path) cannot be written: \(error.localizedDescription)")
        }
    }
}
