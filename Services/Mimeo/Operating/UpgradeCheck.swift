import CRDT
import Foundation
import OperationLog
import Postgres
import ServiceKit

/// The formats of a server's storage, compared with this version's. Reads only.
struct UpgradeCheck {
    /// A part of the storage, as this version finds it.
    struct Row: Sendable, Equatable {
        /// The action that a start of this version takes on the part.
        enum Outcome: String, Sendable {
            /// It does not exist; the start makes it.
            case new
            /// Its format is this version's.
            case opened
            /// It is brought to this version's format in place.
            case migrated
            /// A new one is built from the log beside it, or in its place.
            case rebuilt
            /// This version leaves it alone and does not start.
            case refused
        }

        let part: String
        let place: String
        var stored: Int?
        var current: Int?
        var outcome: Outcome
        /// The code and reason of a refusal.
        var refusal: String?
        /// True if PostgreSQL does not answer.
        var isUnreachable = false
        /// A sentence on what else to know.
        var note: String

        init(_ part: String, _ place: String, _ outcome: Outcome, note: String) {
            (self.part, self.place, self.outcome, self.note) = (part, place, outcome, note)
        }

        var text: String {
            let formats = [stored.map { "format \($0)" }, current.map { "this version's is \($0)" }]
                .compactMap(\.self).joined(separator: ", ")
            let facts = [refusal ?? formats, note].filter { !$0.isEmpty }.joined(separator: "; ")
            return "\(outcome.rawValue) \(part) \(place): \(facts)"
        }

        var value: Value {
            [
                "part": .string(part), "place": .string(place), "outcome": .string(outcome.rawValue),
                "stored": stored.map { .int(Int64($0)) } ?? .null,
                "current": current.map { .int(Int64($0)) } ?? .null,
                "refusal": refusal.map { .string($0) } ?? .null, "note": .string(note),
            ]
        }
    }

    /// The way back to the earlier version, from the shortest to the longest.
    enum WayBack: String {
        case replaceTheProgram, removeTheFolds, restoreTheBackup
    }

    /// A part of the storage, and what is known of it before its format is.
    private struct Part {
        let name: String
        let place: String
        /// The code of an unsupported format's refusal.
        let code: String
        /// A sentence on what to know if it is missing, and what if it is older.
        let missing, older: String
    }

    private let resolved: LogPlace.Resolved
    private let projection: StorageURL?
    private let peerStores: [String]

    /// - Throws: `SRV-0102` for a projection's URL that is none.
    init(_ resolved: LogPlace.Resolved, projection: String?, peerStores: [String]) throws(ServiceError) {
        (self.resolved, self.peerStores) = (resolved, peerStores)
        self.projection = try projection.map { text throws(ServiceError) in
            try StorageURL(text, flag: "projection")
        }
    }

    func run() -> [Row] {
        var rows = [log()]
        if case .postgres(let url) = projection { rows.append(projected(url)) }
        rows += folds()
        return rows + peerStores.map { peerStore($0) }
    }

    private func log() -> Row {
        let place =
            switch resolved.log {
            case .postgres: "in PostgreSQL"
            case .sqlite(let path): path
            }
        let part = Part(
            name: "log", place: place, code: OperationLogErrorCode.unsupportedFormat.rawValue,
            missing: "there is none, and the start begins one",
            older: "stop all instances of the earlier version before the first start of this one, and back "
                + "up: only the backup leads back")
        let row = row(part) { try resolved.storedFormat() }
        guard row.outcome == .new, let old = OldInstallation(log: place, dataFolder: resolved.data) else {
            return row
        }
        return refused(part, "\(old.refusal)")
    }

    private func projected(_ url: String) -> Row {
        let part = Part(
            name: "projection", place: "in PostgreSQL", code: ProjectionErrorCode.unsupportedFormat.rawValue,
            missing: "there is none, and it is built from the log",
            older: "services of the earlier version stop folding; removing its schema `mimeo_projection` "
                + "leads back: it is built from the log")
        return row(part) { try PostgresProjections.storedFormat(url: url) }
    }

    /// The services' own copies of documents: every store in or below the data folder's folders, and those of
    /// a projection that is elsewhere; and the folders that cannot be listed, where one may be.
    private func folds() -> [Row] {
        var (folders, rows): ([String], [Row]) = ([], [])
        func children(_ folder: String) -> [String] {
            do {
                return try Self.names(in: folder).map { "\(folder)/\($0)" }
            } catch {
                let part = Part(name: "fold", place: folder, code: "", missing: "", older: "")
                rows.append(refused(part, "\(error)"))
                return []
            }
        }
        for folder in children(resolved.data) { folders += [folder] + children(folder) }
        if case .sqlite(let folder) = projection { folders += [folder] + children(folder) }
        var known: Set<String> = []
        let stores = folders.filter { folder in
            StoredFolds.isStore(URL(fileURLWithPath: folder))
                && known.insert(URL(fileURLWithPath: folder).standardizedFileURL.path).inserted
                && !rows.contains { $0.place == folder }
        }
        return stores.map { fold($0) } + rows
    }

    /// The sorted names in a folder; none in what is missing or no folder.
    private static func names(in folder: String) throws -> [String] {
        // The file system's own, of which no service has anything.
        guard !folder.hasSuffix("/lost+found") else { return [] }
        guard let opened = opendir(folder) else {
            let failure = errno
            if failure == ENOENT || failure == ENOTDIR { return [] }
            throw MimeoError(
                .fileUnreadable, "\(folder) cannot be read: \(String(cString: strerror(failure)))")
        }
        closedir(opened)
        return try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
    }

    private func fold(_ folder: String) -> Row {
        let part = Part(
            name: "fold", place: folder, code: "STORE-0103", missing: "",
            older: "at its first opening; going back takes removing the folder, and it is built from the log")
        return row(part) { try StoredFolds.format(in: URL(fileURLWithPath: folder)) }
    }

    private func peerStore(_ folder: String) -> Row {
        let part = Part(
            name: "peer's store", place: folder, code: "STORE-0103", missing: "",
            older: "at its first opening; it does not go back, so let the peer upload before")
        let row = row(part) { try StoredFolds.format(in: URL(fileURLWithPath: folder)) }
        return row.outcome == .new ? refused(part, "there is no store in the folder") : row
    }

    private func row(_ part: Part, _ format: () throws -> StoredFormat?) -> Row {
        do {
            guard let format = try format() else {
                return Row(part.name, part.place, .new, note: part.missing)
            }
            return row(part, format)
        } catch  where part.name == "fold" && StoredFolds.isBuiltAgain(after: error) {
            return Row(
                part.name, part.place, .rebuilt,
                note: "it cannot be read (\(error)), and is built from the log")
        } catch {
            return refused(part, "\(error)", isUnreachable: Self.isUnreachable(error))
        }
    }

    private func row(_ part: Part, _ format: StoredFormat) -> Row {
        var row = Row(part.name, part.place, .opened, note: "")
        (row.stored, row.current) = (format.stored, format.current)
        if format.isTooOld, part.name == "fold" {
            (row.outcome, row.note) = (.rebuilt, "no release wrote its format, and it is built from the log")
        } else if format.isTooOld {
            (row.outcome, row.note) = (
                .refused, "a version before 0.2.0 wrote it: open it once with the last"
            )
            row.refusal =
                "\(part.code): it has format \(format.stored); this version reads \(format.oldest) and later"
        } else if format.isOlder {
            (row.outcome, row.note) = (.migrated, part.older)
        } else if format.stored > format.current {
            (row.outcome, row.note) = (.refused, "a newer version wrote it: use that one")
            row.refusal =
                "\(part.code): it has format \(format.stored); this version reads up to "
                + "\(format.current)"
        }
        return row
    }

    private func refused(_ part: Part, _ reason: String, isUnreachable: Bool = false) -> Row {
        var row = Row(part.name, part.place, .refused, note: "")
        (row.refusal, row.isUnreachable) = (reason, isUnreachable)
        return row
    }

    private static func isUnreachable(_ error: any Error) -> Bool {
        (error as? OperationLogError)?.code == .unreachable
            || (error as? ProjectionError)?.code == .unreachable
    }

    // MARK: The whole

    /// The way back after a start of this version.
    static func wayBack(_ rows: [Row]) -> WayBack {
        let changed = rows.filter { [.migrated, .rebuilt].contains($0.outcome) }
        if changed.contains(where: { $0.part != "fold" }) { return .restoreTheBackup }
        return changed.isEmpty ? .replaceTheProgram : .removeTheFolds
    }

    /// A sentence for people.
    static func verdict(_ rows: [Row]) -> String {
        if rows.contains(where: { $0.outcome == .refused }) {
            return "this version does not start on this storage, which stays as it is"
        }
        switch wayBack(rows) {
        case .replaceTheProgram:
            return "this version starts and changes no format; going back is replacing the program"
        case .removeTheFolds:
            return "this version starts and changes folds only; going back takes removing their folders"
        case .restoreTheBackup:
            return "this version starts and changes formats for good; going back is restoring a backup"
        }
    }

    /// The JSON form.
    static func value(_ rows: [Row]) -> Value {
        let isRefused = rows.contains { $0.outcome == .refused }
        let changes = rows.contains { [.migrated, .rebuilt].contains($0.outcome) }
        return [
            "version": .string(BuildVersion.text), "starts": .bool(!isRefused), "changes": .bool(changes),
            "wayBack": isRefused ? .null : .string(wayBack(rows).rawValue),
            "parts": .array(rows.map(\.value)),
        ]
    }
}
