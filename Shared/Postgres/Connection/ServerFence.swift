import Glibc
import OperationLog
import Synchronization

/// Keeps a process away from a PostgreSQL server that another one has replaced.
///
/// A standby has its primary's system identifier, and begins a new timeline when it is promoted. The former
/// primary stays on the old one, and may come back and take writes. The furthest timeline that this process
/// has met is kept in a file; a server of the same identifier on an earlier timeline is refused, with open
/// connections to it. Servers on the same timeline with less in the log, and servers of other identifiers,
/// are a restored log's: whoever folded what they lack notices (`RestoreNotice`).
///
/// An operator who wants the earlier server removes the file; the next connection notices that.
public final class ServerFence: Sendable {
    /// One server's timeline.
    struct Place: Equatable {
        /// The cluster, which its standbys share.
        let system: String
        /// Grows with each promotion, and with each restoration to a point in time.
        let timeline: Int64

        init(system: String, timeline: Int64) { (self.system, self.timeline) = (system, timeline) }

        /// Nil for a text that `text` did not make.
        init?(_ text: String) {
            let parts = text.split { $0 == " " || $0 == "\n" }
            guard parts.count == 2, let timeline = Int64(parts[1]), timeline > 0 else { return nil }
            self.init(system: String(parts[0]), timeline: timeline)
        }

        var text: String { "\(system) \(timeline)\n" }

        /// Returns whether a server here was replaced by one there.
        func isReplaced(by other: Place) -> Bool { system == other.system && timeline < other.timeline }
    }

    private struct State {
        var furthest: Place?
        var refusal: OperationLogError?
    }

    /// The file of the furthest place.
    public let file: String
    private let state: Mutex<State>

    /// A fence with this file, which is read now if it exists.
    /// - Throws: `LOG-0201` if it cannot be read, or is not a file of a fence.
    public init(file: String) throws(OperationLogError) {
        self.file = file
        state = Mutex(State(furthest: try Self.read(file)))
    }

    /// Why the server that was asked last is refused; nil once one was admitted.
    var refusal: OperationLogError? { state.withLock { $0.refusal } }

    /// Checks the server of a new connection. One that stands by is not judged: nothing is written there.
    /// - Throws: `LOG-0312` for a server that was replaced; `LOG-0201` if the file cannot be written;
    ///   `PostgresError`.
    func admit(_ connection: Connection) throws {
        let rows = try connection.query(
            """
            SELECT s.system_identifier::text, CASE WHEN NOT pg_is_in_recovery() THEN
                ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int8 ELSE 0 END
            FROM pg_control_system() s
            """)
        let place = Place(system: rows.text(0, 0), timeline: rows.int8(0, 1))
        guard place.timeline > 0 else { return }
        try admit(place)
        connection.place = place
    }

    func admit(_ place: Place) throws(OperationLogError) {
        let outcome = state.withLock { state -> Result<Void, OperationLogError> in
            do throws(OperationLogError) {
                if let furthest = state.furthest, place.isReplaced(by: furthest), access(file, F_OK) == 0 {
                    throw OperationLogError(
                        .replaced,
                        "this PostgreSQL is on timeline \(place.timeline), and was replaced by one on "
                            + "timeline \(furthest.timeline): stop it, or make it that one's standby; to go "
                            + "on with it and lose what the other one has, remove \(file)")
                }
                if state.furthest != place {
                    try Self.write(place, file)
                    state.furthest = place
                }
                state.refusal = nil
                return .success(())
            } catch {
                state.refusal = error
                return .failure(error)
            }
        }
        try outcome.get()
    }

    /// Returns whether a connection's server was still the furthest when that was last noticed.
    func isCurrent(_ connection: Connection) -> Bool {
        guard let place = connection.place else { return true }
        return state.withLock { state in state.furthest.map { !place.isReplaced(by: $0) } ?? true }
    }

    // MARK: The file

    private static func read(_ file: String) throws(OperationLogError) -> Place? {
        let descriptor = open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw unusable(file, String(cString: strerror(errno)))
        }
        defer { Glibc.close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 256)
        let length = Glibc.read(descriptor, &bytes, bytes.count)
        guard length >= 0, let place = Place(String(decoding: bytes.prefix(max(0, length)), as: UTF8.self))
        else { throw unusable(file, "it does not name a timeline; remove it") }
        return place
    }

    /// Durable when it returns: a process that is killed must not forget.
    private static func write(_ place: Place, _ file: String) throws(OperationLogError) {
        let next = file + ".next"
        let descriptor = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw unusable(next, String(cString: strerror(errno))) }
        let bytes = Array(place.text.utf8)
        let isWritten = Glibc.write(descriptor, bytes, bytes.count) == bytes.count && fsync(descriptor) == 0
        let reason = errno
        Glibc.close(descriptor)
        guard isWritten else { throw unusable(next, String(cString: strerror(reason))) }
        guard rename(next, file) == 0 else { throw unusable(file, String(cString: strerror(errno))) }
        let end = file.utf8.lastIndex(of: UInt8(ascii: "/"))
        let folder = open(end.map { String(file[..<$0]) } ?? ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard folder >= 0 else { throw unusable(file, String(cString: strerror(errno))) }
        defer { Glibc.close(folder) }
        guard fsync(folder) == 0 else { throw unusable(file, String(cString: strerror(errno))) }
    }

    private static func unusable(_ file: String, _ reason: String) -> OperationLogError {
        OperationLogError(.cannotOpen, "the file \(file) cannot be used: \(reason)")
    }
}
