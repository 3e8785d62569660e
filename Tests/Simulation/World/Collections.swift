import CRDT
import DQL
import Identity

/// What the applications of every world keep, and what they may.
enum Collections {
    /// Registers, maps, deletions, evictions, subscriptions that documents enter and leave.
    static let plain: [CollectionName] = ["cars", "boats"]
    /// Every write adds a field of its own, which nothing removes, and counts one: what is lost or counted
    /// twice shows, and so does what is seen before its cause.
    static let notes: CollectionName = "notes"
    /// Transfers between two documents: the sum is zero in every snapshot.
    static let accounts: CollectionName = "accounts"
    /// What is looked at after every commit.
    static let observed = [notes, accounts]
    /// Documents that every store writes at every start (INITIAL).
    static let seeds: CollectionName = "seeds"
    /// Here the right to read comes and goes, for all documents or for some.
    static let guarded: CollectionName = "boats"
    /// Here the right to write comes and goes.
    static let kept: CollectionName = "cars"
    /// Nobody may read here.
    static let secrets: CollectionName = "secrets"
    /// Nobody may write here.
    static let locked: CollectionName = "locked"

    static let statements = [
        "SELECT * FROM cars", "SELECT * FROM cars WHERE color = 'red'",
        "SELECT * FROM cars WHERE color = 'blue'", "SELECT * FROM cars WHERE tags.a = true",
        "SELECT * FROM boats", "SELECT * FROM boats WHERE color = 'red'", "SELECT * FROM boats WHERE n > 50",
        "SELECT * FROM secrets", "SELECT * FROM notes", "SELECT * FROM accounts", "SELECT * FROM seeds",
        "SELECT * FROM seeds WHERE color = 'red'",
    ]
    /// What the first peers of a world hold from beginning to end.
    static let everything = ["SELECT * FROM notes", "SELECT * FROM accounts"]

    static let grant = Grant(
        read: rules(without: secrets), write: rules(without: locked), remoteQuery: false, queryLanguage: 1)

    private static func rules(without missing: CollectionName) -> AccessRules {
        let all = plain + [notes, accounts, seeds, secrets, locked]
        let granted = all.filter { $0 != missing }.map { ($0, ["true"]) }
        return AccessRules(queriesByCollection: Dictionary(uniqueKeysWithValues: granted))
    }

    static func mayRead(_ key: DocumentKey) -> Bool { grant.allowsReading(collection: key.collection) }

    static func isNote(_ key: DocumentKey) -> Bool { key.collection == notes }
    static func isAccount(_ key: DocumentKey) -> Bool { key.collection == accounts }
    static func isLocked(_ key: DocumentKey) -> Bool { key.collection == locked }
}

/// A property that does not hold, in words.
struct Violation: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

extension SubscriptionQuery {
    /// Whether a document lives in the collection and matches.
    func covers(_ key: DocumentKey, _ state: EncodedState) throws -> Bool {
        guard collection == key.collection else { return false }
        return try state.withUnsafeBytes { bytes in
            let reader = try DocumentReader(bytes)
            return try reader.isLive && matches(DocumentRecord(id: key.id, document: reader))
        }
    }
}
