import CPageSums
import GRDB
import GRDBSQLite

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Remembers, beside a SQLite file, how far its write-ahead log was durable.
///
/// After a crash SQLite reads the write-ahead log up to the first frame that is not whole, and takes the rest
/// for a transaction that never ended. So damage of the log would silently take back commits. The mark names
/// the last frame that a commit has synced: a log that ends before it is damaged.
///
/// The mark is a file of 64 bytes, `<file>-mark`, mapped into memory: a commit costs it one small read of
/// the log and no call that waits. It is not synced. After a power cut it may be older than the log, and then
/// says less; an unreadable one says nothing.
package final class WriteAheadMark: @unchecked Sendable {
    // Unchecked: written on the connection it belongs to only.

    private let place: UnsafeMutableRawPointer
    private let boot: UInt64

    /// A state of the file that its owner wants to remember with the mark: three numbers of its choice.
    package typealias Note = (UInt64, UInt64, UInt64)

    /// Set by the owner within its transaction; stored with the commit.
    package var note: Note = (0, 0, 0)

    /// Maps the mark of a file, and creates it if necessary; nil where that is not possible.
    package init?(path: String) {
        let descriptor = open(path + "-mark", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        guard ftruncate(descriptor, off_t(Self.bytes)) == 0,
            let mapped = mmap(nil, Self.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0),
            mapped != MAP_FAILED
        else { return nil }
        place = mapped
        boot = Self.bootHash()
    }

    deinit { munmap(place, Self.bytes) }

    /// Records the log's last frame, whose header is given, as durable.
    func record(frame: Int64, header: UnsafeRawBufferPointer, frameBytes: Int64) {
        let words: [UInt64] = [
            header.loadUnaligned(fromByteOffset: 8, as: UInt64.self), UInt64(frame), UInt64(frameBytes), boot,
            note.0, note.1, note.2,
        ]
        let values = place.bindMemory(to: UInt64.self, capacity: Self.words)
        for (index, word) in words.enumerated() { values[index] = word }
        values[words.count] = Self.sum(words)
    }

    /// Notes that the log's frames were copied into the file: call it when the log is gone.
    package func settle() {
        let values = place.bindMemory(to: UInt64.self, capacity: Self.words)
        let words = (0..<(Self.words - 1)).map { $0 == 1 ? 0 : values[$0] }
        guard values[Self.words - 1] == Self.sum((0..<(Self.words - 1)).map { values[$0] }) else { return }
        values[1] = 0
        values[Self.words - 1] = Self.sum(words)
    }

    // MARK: Looking

    /// The content of a mark.
    package struct Content: Sendable {
        let salts: UInt64
        let frames: UInt64
        let frameBytes: UInt64
        let boot: UInt64
        /// The owner's numbers with the last commit.
        package let note: Note
        /// True if the file was not closed in order since.
        package var isOpen: Bool { frames > 0 }
        /// True if the machine has not been started again since.
        package var isOfThisStart: Bool { boot == WriteAheadMark.bootHash() }
    }

    /// The mark of a file; nil if there is none that is whole.
    package static func content(of path: String) -> Content? {
        let descriptor = open(path + "-mark", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var words = [UInt64](repeating: 0, count: Self.words)
        let got = words.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
        guard got == bytes, words[words.count - 1] == sum(Array(words.dropLast())) else { return nil }
        return Content(
            salts: words[0], frames: words[1], frameBytes: words[2], boot: words[3],
            note: (words[4], words[5], words[6]))
    }

    /// Says where the write-ahead log of a file lacks a commit that was durable; nil if it lacks none, as far
    /// as the mark tells. Also nil if the log cannot be read: opening it fails then, and says why. Call it
    /// before SQLite opens the file.
    /// - Parameter isSynced: false for a file whose commits do not wait for the disk. Then a mark from before
    ///   the machine's last start says nothing.
    package static func loss(of path: String, isSynced: Bool) -> String? {
        guard let mark = content(of: path), mark.frames > 0, isSynced || mark.isOfThisStart else {
            return nil
        }
        // A log that is not there was copied into the file by another program.
        guard hasLog(path) else { return nil }
        var found = page_sums_log()
        guard page_sums_read_log("\(path)-wal", &found) == 0 else { return nil }
        // An opening copied the marked frames into the file and made room for a commit that never came.
        guard found.is_blank == 0 else { return nil }
        if found.has_header == 0 {
            return "the header of the write-ahead log is damaged"
        }
        // A newer log: the marked frames were copied into the file before it began.
        guard found.salts == mark.salts, found.frames < mark.frames else { return nil }
        return "the write-ahead log ends at frame \(found.frames) of \(mark.frames) durable ones"
    }

    /// Forgets the mark of a file.
    package static func remove(of path: String) { _ = unlink(path + "-mark") }

    /// Prepares a file whose write-ahead log another program has copied into it: its pages have no sums yet.
    /// Call it while nobody has the file open.
    package static func adopt(_ path: String) {
        guard let mark = content(of: path), mark.frames > 0, !hasLog(path) else { return }
        // A page that cannot be adopted is damaged, and is found when it is read.
        _ = page_sums_adopt(path)
    }

    private static func hasLog(_ path: String) -> Bool {
        var status = stat()
        return stat("\(path)-wal", &status) == 0 && status.st_size > 0
    }

    private static let words = 8
    private static let bytes = words * 8

    /// FNV-1a over whole words: the mark is small.
    private static func sum(_ words: [UInt64]) -> UInt64 {
        words.reduce(0xCBF2_9CE4_8422_2325) { sum, word in
            let next = (sum ^ word) &* 0x0000_0100_0000_01B3
            return next ^ (next >> 32)
        }
    }

    /// Names the machine's start; 0 where the system does not tell.
    fileprivate static func bootHash() -> UInt64 {
        let descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return 0 }
        defer { close(descriptor) }
        var text = [UInt8](repeating: 0, count: 64)
        let got = read(descriptor, &text, text.count)
        guard got > 0 else { return 0 }
        return sum(text[..<got].map { UInt64($0) })
    }
}
