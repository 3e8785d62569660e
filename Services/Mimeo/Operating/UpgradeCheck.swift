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
        let stored: Int?
        let current: Int?
        let outcome: Outcome
        /// The code and reason of a refusal.
        var refusal: String?
        /// True if PostgreSQL does not answer.
        var isUnreachable = false
        /// A sentence on what else to know.
        let note: String

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

    private let resolved: LogPlace.Resolved
    private let projection: String?
    private let peerStores: [String]

    init(_ resolved: LogPlace.Resolved, projection: String?, peerStores: [String]) {
        (self.resolved, self.projection, self.peerStores) = (resolved, projection, peerStores)
    }

    /// - Throws: `SRV-0102` for a projection's URL that is none.
    func run() throws -> [Row] {
        var rows = [log()]
        if let projection, case .postgres(let url) = try StorageURL(projection, flag: "projection") {
            rows.append(projected(url))
        }
        rows += folds()
        return rows + peerStores.map { store("peer's store", URL(fileURLWithPath: $0), .migrated) }
    }

    private func log() -> Row {
        let place =
            switch resolved.log {
            case .postgres: "in PostgreSQL"
            case .sqlite(let path): path
            }
        do {
            guard let format = try resolved.storedFormat() else {
                if let old = OldInstallation(log: place, dataFolder: resolved.data) {
                    return refused("log", place, "\(old.refusal)")
                }
                return Row(
                    part: "log", place: place, stored: nil, current: nil, outcome: .new,
                    note: "there is none, and the start begins one")
            }
            let code = OperationLogErrorCode.newerFormat.rawValue
            return row(
                "log", place, format, newer: code, older: .migrated,
                "stop all instances of the earlier version before the first start of this one, and back up: "
                    + "only the backup leads back")
        } catch let error as OperationLogError {
            return refused("log", place, "\(error)", isUnreachable: error.code == .unreachable)
        } catch {
            return refused("log", place, "\(error)")
        }
    }

    private func projected(_ url: String) -> Row {
        let place = "in PostgreSQL"
        do {
            guard let format = try PostgresProjections.storedFormat(url: url) else {
                return Row(
                    part: "projection", place: place, stored: nil, current: nil, outcome: .new,
                    note: "there is none, and it is built from the log")
            }
            let code = ProjectionErrorCode.newerFormat.rawValue
            return row(
                "projection", place, format, newer: code, older: .migrated,
                "services of the earlier version stop folding; removing its schema `mimeo_projection` leads "
                    + "back: it is built from the log")
        } catch let error as ProjectionError {
            return refused("projection", place, "\(error)", isUnreachable: error.code == .unreachable)
        } catch {
            return refused("projection", place, "\(error)")
        }
    }

    /// The services' own copies of documents: every store below the data folder.
    private func folds() -> [Row] {
        let manager = FileManager.default
        let children = { (folder: String) in
            ((try? manager.contentsOfDirectory(atPath: folder)) ?? []).sorted().map { "\(folder)/\($0)" }
        }
        let folders = children(resolved.data).flatMap { [$0] + children($0) }
        return folders.filter { StoredFolds.isStore(URL(fileURLWithPath: $0)) }
            .map { store("fold", URL(fileURLWithPath: $0), .migrated) }
    }

    private func store(_ part: String, _ folder: URL, _ older: Row.Outcome) -> Row {
        do {
            guard let format = try StoredFolds.format(in: folder) else {
                return refused(part, folder.path, "there is no store in the folder")
            }
            let note =
                part == "fold"
                ? "at its first opening; going back takes removing the folder, and it is built from the log"
                : "at its first opening; it does not go back, so let the peer upload before"
            return row(part, folder.path, format, newer: "STORE-0103", older: older, note)
        } catch  where part == "fold" && StoredFolds.isBuiltAgain(after: error) {
            return Row(
                part: part, place: folder.path, stored: nil, current: nil, outcome: .rebuilt,
                note: "it cannot be read (\(error)), and is built from the log")
        } catch {
            return refused(part, folder.path, "\(error)")
        }
    }

    private func row(
        _ part: String, _ place: String, _ format: StoredFormat, newer code: String, older: Row.Outcome,
        _ note: String
    ) -> Row {
        let isNewer = format.stored > format.current
        let isSame = format.stored == format.current
        return Row(
            part: part, place: place, stored: format.stored, current: format.current,
            outcome: isNewer ? .refused : isSame ? .opened : older,
            refusal: isNewer
                ? "\(code): it has format \(format.stored); this version reads up to \(format.current)" : nil,
            note: isNewer ? "a newer version wrote it: use that one" : isSame ? "" : note)
    }

    private func refused(
        _ part: String, _ place: String, _ reason: String, isUnreachable: Bool = false
    ) -> Row {
        Row(
            part: part, place: place, stored: nil, current: nil, outcome: .refused, refusal: reason,
            isUnreachable: isUnreachable, note: "")
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
