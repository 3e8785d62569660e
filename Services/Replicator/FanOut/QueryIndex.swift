import CRDT
import DQL
import Exchange
import Sync
import Synchronization

/// The distinct queries that the sessions of one database follow, each with its followers. A change is
/// evaluated once for a query however many follow it. Queries for `field = value` are evaluated only if the
/// document has their value.
///
/// Invariants: equal queries (by canonical key) have one number for as long as one session follows them, and
/// numbers are never used again; a query stands under one field, or among those without one. Under a field
/// stand only queries that mean the same by its path: those that declare types of fields stand among the
/// others. `state` guards everything; it is held while a change is evaluated, so that a query that comes
/// meanwhile comes behind it. So evaluating is bounded: queries that go through a document's elements or are
/// long, and those beyond `Limits.evaluationsPerOperation`, are left to the sessions themselves.
final class QueryIndex: Sendable {
    private struct Entry {
        let query: SubscriptionQuery
        /// How often each session follows it.
        var followers: [UInt64: Int]
    }

    /// The queries of one collection that ask for a value of one field.
    private struct Field {
        let predicate: EqualityPredicate
        var numbers: [[UInt8]: Set<UInt64>] = [:]
    }

    private struct Collection {
        /// By the bytes of the path's names.
        var fields: [[[UInt8]]: Field] = [:]
        /// Queries that ask for no value of a field.
        var others: Set<UInt64> = []
        /// How many queries there are in all.
        var count = 0
    }

    private struct State {
        var lastNumber: UInt64 = 0
        var numbers: [[UInt8]: UInt64] = [:]
        var entries: [UInt64: Entry] = [:]
        var collections: [CollectionName: Collection] = [:]
        /// The queries of each session that shares its own.
        var sessions: [UInt64: Set<UInt64>] = [:]
    }

    /// A session follows a query, until this is let go of.
    private final class Followed: FollowedQuery {
        let number: UInt64
        private let session: UInt64
        private let index: QueryIndex

        init(_ number: UInt64, _ session: UInt64, _ index: QueryIndex) {
            self.number = number
            self.session = session
            self.index = index
        }

        deinit { index.unfollow(number, session) }
    }

    private let state = Mutex(State())

    /// A session shares from now on; it follows nothing yet.
    func enter(_ session: UInt64) { state.withLock { $0.sessions[session] = [] } }

    /// A session has ended.
    func leave(_ session: UInt64) { state.withLock { $0.sessions[session] = nil } }

    /// The queries that a session follows; nil for one that does not share.
    func followed(by session: UInt64) -> Set<UInt64>? { state.withLock { $0.sessions[session] } }

    /// The queries that a session follows, in the order in which they came here.
    func queries(of session: UInt64) -> [SubscriptionQuery] {
        state.withLock { state in
            (state.sessions[session] ?? []).sorted().compactMap { state.entries[$0]?.query }
        }
    }

    /// How many distinct queries are followed.
    var count: Int { state.withLock { $0.entries.count } }

    /// Lets a session follow a query.
    func follow(_ query: SubscriptionQuery, by session: UInt64) -> any FollowedQuery {
        let number = state.withLock { state in
            let number = state.numbers[query.canonicalKey] ?? Self.add(query, &state)
            state.entries[number]?.followers[session, default: 0] += 1
            state.sessions[session]?.insert(number)
            return number
        }
        return Followed(number, session, self)
    }

    private static func add(_ query: SubscriptionQuery, _ state: inout State) -> UInt64 {
        state.lastNumber += 1
        let number = state.lastNumber
        state.numbers[query.canonicalKey] = number
        state.entries[number] = Entry(query: query, followers: [:])
        var collection = state.collections[query.collection] ?? Collection()
        collection.count += 1
        if let (path, equality) = Self.equality(of: query) {
            collection.fields[path, default: Field(predicate: equality)]
                .numbers[equality.key, default: []].insert(number)
        } else {
            collection.others.insert(number)
        }
        state.collections[query.collection] = collection
        return number
    }

    /// The equality by which a query is looked up; nil for one that is evaluated itself.
    private static func equality(of query: SubscriptionQuery) -> ([[UInt8]], EqualityPredicate)? {
        guard !query.declaresTypes, let equality = query.equalities.first else { return nil }
        return (equality.path.map { Array($0.utf8) }, equality)
    }

    private func unfollow(_ number: UInt64, _ session: UInt64) {
        state.withLock { state in
            guard let left = state.entries[number]?.followers[session] else { return }
            guard left == 1 else {
                state.entries[number]?.followers[session] = left - 1
                return
            }
            state.entries[number]?.followers[session] = nil
            state.sessions[session]?.remove(number)
            if let entry = state.entries[number], entry.followers.isEmpty {
                Self.remove(number, entry.query, &state)
            }
        }
    }

    private static func remove(_ number: UInt64, _ query: SubscriptionQuery, _ state: inout State) {
        state.entries[number] = nil
        state.numbers[query.canonicalKey] = nil
        let name = query.collection
        state.collections[name]?.count -= 1
        if let (path, equality) = Self.equality(of: query) {
            let isLast = state.collections[name]?.fields[path]?.numbers[equality.key]?.count == 1
            if isLast {
                state.collections[name]?.fields[path]?.numbers[equality.key] = nil
                if state.collections[name]?.fields[path]?.numbers.isEmpty ?? false {
                    state.collections[name]?.fields[path] = nil
                }
            } else {
                state.collections[name]?.fields[path]?.numbers[equality.key]?.remove(number)
            }
        } else {
            state.collections[name]?.others.remove(number)
        }
        if state.collections[name]?.count == 0 { state.collections[name] = nil }
    }

    // MARK: Changes

    /// The queries and sessions that an operation concerns.
    struct Found {
        /// The matches of each change of the operation.
        var matches: [QueryMatches] = []
        /// All numbers in them, and of what is gone those of the collection's queries; ascending.
        var numbers: [UInt64] = []
        /// The sessions that follow any of them.
        var sessions: Set<UInt64> = []
    }

    /// The queries that the changes of one operation matter to. `document` says of each its states before and
    /// after, and whether it is gone.
    func find(
        _ changes: [(key: DocumentKey, before: EncodedState?, after: EncodedState?, isGone: Bool)]
    ) -> Found {
        state.withLock { state in
            var found = Found()
            var all: Set<UInt64> = []
            var budget = Limits.evaluationsPerOperation
            for change in changes {
                guard let collection = state.collections[change.key.collection] else {
                    found.matches.append(QueryMatches())
                    continue
                }
                guard !change.isGone else {
                    // A subscriber to anything in the collection may hold the tombstone.
                    found.matches.append(QueryMatches())
                    all.formUnion(collection.others)
                    for field in collection.fields.values {
                        for numbers in field.numbers.values { all.formUnion(numbers) }
                    }
                    continue
                }
                let before = Self.matches(change.key, change.before, collection, state.entries, &budget)
                let after = Self.matches(change.key, change.after, collection, state.entries, &budget)
                let undecided = before.undecided.union(after.undecided)
                found.matches.append(
                    QueryMatches(
                        before: before.matching.sorted(), after: after.matching.sorted(),
                        undecided: undecided.sorted()))
                all.formUnion(before.matching)
                all.formUnion(after.matching)
                all.formUnion(undecided)
            }
            for number in all {
                if let followers = state.entries[number]?.followers.keys {
                    found.sessions.formUnion(followers)
                }
            }
            found.numbers = all.sorted()
            return found
        }
    }

    /// The queries that one state matches, and those that say nothing about it. A state that cannot be read
    /// is left to every query of the collection.
    private static func matches(
        _ key: DocumentKey, _ state: EncodedState?, _ collection: Collection, _ entries: [UInt64: Entry],
        _ budget: inout Int
    ) -> (matching: Set<UInt64>, undecided: Set<UInt64>) {
        guard let state, state.count > 0 else { return ([], []) }
        var matching: Set<UInt64> = []
        var undecided: Set<UInt64> = []
        state.withUnsafeBytes { raw in
            func everything() -> Set<UInt64> {
                collection.fields.values.reduce(collection.others) { found, field in
                    field.numbers.values.reduce(found) { $0.union($1) }
                }
            }
            do {
                let document = try DocumentReader(raw)
                guard document.isLive else { return }
                let record = DocumentRecord(id: key.id, document: document)
                func evaluate(_ numbers: Set<UInt64>) {
                    for number in numbers {
                        guard let query = entries[number]?.query else { continue }
                        let isPlain =
                            !query.goesThroughElements
                            && query.statement.text.utf8.count <= Limits.plainSubscriptionBytes
                        guard budget > 0, isPlain else {
                            undecided.insert(number)
                            continue
                        }
                        budget -= 1
                        do {
                            if try query.matches(record) { matching.insert(number) }
                        } catch {
                            undecided.insert(number)
                        }
                    }
                }
                for field in collection.fields.values {
                    guard let value = try field.predicate.key(of: record), let numbers = field.numbers[value]
                    else { continue }
                    evaluate(numbers)
                }
                evaluate(collection.others)
            } catch {
                undecided = everything()
            }
        }
        return (matching, undecided)
    }
}
