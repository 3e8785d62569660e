import CRDT
import Foundation
import Identity
import OperationLog

/// The word of an operator that a restored log may be used as it is. A record, so that every service on the
/// log hears it.
public struct RestoreWord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.restores
    /// Random.
    public var id: String
    /// Seconds since 1970.
    public var acceptedAtSeconds: Int64

    /// A word of these facts.
    public init(id: String, acceptedAtSeconds: Int64) {
        (self.id, self.acceptedAtSeconds) = (id, acceptedAtSeconds)
    }
}

/// A log that was put back to an earlier state, and what that takes back: revocations that hold no longer,
/// keys that are valid again. Until an operator accepts it, no token and no login is accepted here.
///
/// It tells what this service had folded before. A service without an earlier fold cannot know.
public struct RestoreNotice: Sendable, Equatable, Codable {
    /// A sentence for each record that differs, at most `Limits.namedRecords`.
    public var takenBack: [String]
    /// How many records differ besides those.
    public var others = 0
    /// The ids of the words that were there before: they accept nothing new.
    var knownWords: Set<String>

    /// The differences between what was folded before and what the log says now; nil if there are none.
    init?(from old: SystemDirectory, to new: SystemDirectory, loss: LogLoss?) {
        var sentences = loss.map { [Self.sentence($0)] } ?? []
        sentences += Self.revocations(old, new) + Self.keys(old, new) + Self.databases(old, new)
        sentences += Self.erasures(old, new) + Self.credentials(old, new) + Self.accounts(old, new)
        guard !sentences.isEmpty else { return nil }
        takenBack = Array(sentences.prefix(Limits.namedRecords))
        others = sentences.count - takenBack.count
        knownWords = Set(old.restores.keys).union(new.restores.keys)
    }

    /// Returns whether an operator has spoken since.
    func isAccepted(in directory: SystemDirectory) -> Bool {
        directory.restores.keys.contains { !knownWords.contains($0) }
    }

    private static func sentence(_ loss: LogLoss) -> String {
        let database = loss.database.map { "database \($0)" } ?? "a database that is gone"
        return "the operations \(loss.head.next) to \(loss.previous) of \(database) are lost"
    }

    private static func revocations(_ old: SystemDirectory, _ new: SystemDirectory) -> [String] {
        old.revocations.values.sorted { $0.id < $1.id }.compactMap { revocation in
            let found = new.revocations[revocation.id]
            guard found != revocation else { return nil }
            let subject =
                "\(revocation.subject.rawValue) '\(revocation.value)' of database \(revocation.databaseID)"
            // A lift refuses the tokens from before it, so losing it matters too.
            guard revocation.liftedAtSeconds == nil else { return "the lifted revocation of \(subject)" }
            return "the revocation of \(subject) is taken back"
        }
    }

    private static func keys(_ old: SystemDirectory, _ new: SystemDirectory) -> [String] {
        let revived = new.apiKeys.values.filter { old.apiKeys[$0.id] == nil }.map {
            "the API key \($0.id) of database \($0.databaseID), which was deleted, is valid again"
        }
        let lost = old.apiKeys.values.filter { new.apiKeys[$0.id] == nil }.map {
            "the API key \($0.id) of database \($0.databaseID) is lost"
        }
        let signing = old.signingKeys.values.compactMap { key -> String? in
            guard let found = new.signingKeys[key.id] else { return "the signing key \(key.id) is lost" }
            let isRevived = key.retiresAtSeconds != nil && found.retiresAtSeconds == nil
            return isRevived ? "the signing key \(key.id), which was retired, signs again" : nil
        }
        return (revived + lost + signing).sorted()
    }

    /// Documents that somebody had the right to see erased are there again.
    private static func erasures(_ old: SystemDirectory, _ new: SystemDirectory) -> [String] {
        old.documentErasures.values.filter { new.documentErasures[$0.id] == nil }.map {
            "the erasure of \($0.digests.count) documents of database \($0.databaseID) is taken back"
        }.sorted()
    }

    private static func credentials(_ old: SystemDirectory, _ new: SystemDirectory) -> [String] {
        let revived = new.adminCredentials.values.filter { old.adminCredentials[$0.id] == nil }.map {
            "the admin credential \($0.id) (\($0.name)), which was deleted, is valid again"
        }
        let lost = old.adminCredentials.values.filter { new.adminCredentials[$0.id] == nil }.map {
            "the admin credential \($0.id) (\($0.name)) is lost"
        }
        return (revived + lost).sorted()
    }

    /// Somebody who was removed, or has another password, may come in again with the old one.
    private static func accounts(_ old: SystemDirectory, _ new: SystemDirectory) -> [String] {
        let revived = new.accounts.values.filter { old.accounts[$0.id] == nil }.map {
            "the account '\($0.name)' of database \($0.databaseID), which was removed, exists again"
        }
        let changed = old.accounts.values.compactMap { account -> String? in
            let name = "the account '\(account.name)' of database \(account.databaseID)"
            guard let found = new.accounts[account.id] else { return "\(name) is lost" }
            return found.passwordHash == account.passwordHash && found.permissions == account.permissions
                && found.set == account.set && found.hasSecondFactor == account.hasSecondFactor
                ? nil : "\(name) is as it was before"
        }
        let sets = Set(old.permissionSets.keys).union(new.permissionSets.keys).filter {
            old.permissionSets[$0] != new.permissionSets[$0]
        }
        return (revived + changed + sets.map { "the set of permissions \($0) is as it was before" }).sorted()
    }

    private static func databases(_ old: SystemDirectory, _ new: SystemDirectory) -> [String] {
        let databases = old.databases.values.compactMap { record -> String? in
            guard let found = new.databases[record.databaseID] else {
                return "the database \(record.id) is lost"
            }
            let isRevived = record.deletedAtSeconds != nil && found.deletedAtSeconds == nil
            return isRevived ? "the database \(record.id), which was deleted, exists again" : nil
        }
        let names = Set(old.providers.keys).union(new.providers.keys)
        let providers = names.filter { old.providers[$0] != new.providers[$0] }.map {
            "the login provider \($0) is as it was before"
        }
        return (databases + providers).sorted()
    }
}

/// Where a notice is kept until it is accepted: a restart does not forget it.
struct RestoreFile: Sendable {
    let path: String

    /// - Throws: `SRV-0203` for a file that cannot be read: it must not count as none.
    func read() throws(ServiceError) -> RestoreNotice? {
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        guard let content = FileManager.default.contents(atPath: path),
            content.count <= Limits.restoreNoticeBytes,
            let notice = try? JSONDecoder().decode(RestoreNotice.self, from: content)
        else {
            throw ServiceError(
                .dataFolderUnusable,
                "\(path) is damaged: the log was put back and nobody has accepted it; "
                    + "remove the file to accept that")
        }
        return notice
    }

    func write(_ notice: RestoreNotice) throws(ServiceError) {
        do {
            try JSONEncoder().encode(notice).write(to: URL(fileURLWithPath: path), options: .atomic)
        } catch {
            throw ServiceError(.dataFolderUnusable, "\(path) cannot be written")
        }
    }

    func remove() { try? FileManager.default.removeItem(atPath: path) }
}
