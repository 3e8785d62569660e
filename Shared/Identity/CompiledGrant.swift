import CRDT
import DQL

/// A grant made ready to be asked about documents: its queries are read once, when a token is accepted, and
/// asked for each document.
public struct CompiledGrant: Sendable {
    /// What it was made of.
    public let grant: Grant
    /// What may be read.
    public let read: CompiledRules
    /// What may be written.
    public let write: CompiledRules

    /// - Throws: `AUTH-0201` for a query that is none over `_id` alone, `AUTH-0202` when there are more than
    ///   `Limits.queriesPerGrant` on a side, or their language is unknown.
    public init(_ grant: Grant) throws(IdentityError) {
        guard grant.queryLanguage == 0 || grant.queryLanguage == 1 else {
            throw IdentityError(.grantMalformed, "qlVersion is 0 or 1, not \(grant.queryLanguage)")
        }
        self.grant = grant
        let isLegacy = grant.queryLanguage == 0
        read = try CompiledRules(grant.read, side: "read", isLegacy: isLegacy)
        write =
            grant.write == grant.read
            ? read : try CompiledRules(grant.write, side: "write", isLegacy: isLegacy)
    }

    private init(everything: Bool) {
        grant = everything ? .everything : .nothing
        read = CompiledRules(everything: everything)
        write = CompiledRules(everything: everything)
    }

    /// Of a grant that cannot be enforced: it allows nothing.
    init(refusing grant: Grant) {
        self.grant = grant
        read = CompiledRules(everything: false)
        write = CompiledRules(everything: false)
    }

    /// Neither reads nor writes.
    public static let nothing = CompiledGrant(everything: false)
    /// Reads and writes every document.
    public static let everything = CompiledGrant(everything: true)
}

extension CompiledGrant: Hashable {
    /// By what they were made of.
    public static func == (left: CompiledGrant, right: CompiledGrant) -> Bool { left.grant == right.grant }

    /// Hashes what it was made of.
    public func hash(into hasher: inout Hasher) { hasher.combine(grant) }
}

/// One side of a grant, ready to be asked.
///
/// A condition that cannot be evaluated on an id (it goes through too much of it) does not hold for it.
public struct CompiledRules: Sendable {
    private enum Rule: Sendable {
        case whole
        case conditions([IDCondition])
    }

    private let everything: Bool
    private let byCollection: [CollectionName: Rule]

    init(everything: Bool) {
        self.everything = everything
        byCollection = [:]
    }

    init(_ rules: AccessRules, side: String, isLegacy: Bool) throws(IdentityError) {
        everything = rules.everything
        var count = 0
        var byCollection: [CollectionName: Rule] = [:]
        for (collection, queries) in rules.queriesByCollection {
            count += queries.count
            guard count <= Limits.queriesPerGrant else {
                throw IdentityError(
                    .grantMalformed, "the grant has more than \(Limits.queriesPerGrant) queries for \(side)")
            }
            var conditions: [IDCondition] = []
            for query in queries {
                do {
                    conditions.append(try IDCondition(query, isLegacy: isLegacy))
                } catch {
                    throw IdentityError(
                        .grantNotEnforceable,
                        "a \(side) query for collection '\(collection)' is none over _id alone: \(error)")
                }
            }
            guard !conditions.isEmpty else { continue }
            byCollection[collection] =
                conditions.contains(where: \.isAlwaysTrue) ? .whole : .conditions(conditions)
        }
        self.byCollection = byCollection
    }

    private func rule(for collection: CollectionName) -> Rule? {
        everything ? .whole : byCollection[collection]
    }

    /// Whether something at all is allowed.
    public var allowsAnything: Bool { everything || !byCollection.isEmpty }

    /// Whether there may be documents of a collection that are allowed.
    public func allowsAny(of collection: CollectionName) -> Bool { rule(for: collection) != nil }

    /// Whether every document of a collection is allowed.
    public func allowsAll(of collection: CollectionName) -> Bool {
        if case .whole? = rule(for: collection) { true } else { false }
    }

    /// Whether a document is allowed.
    public func allows(_ collection: CollectionName, _ id: DocumentID) -> Bool {
        switch rule(for: collection) {
        case nil: false
        case .whole?: true
        case .conditions(let conditions)?: conditions.contains { (try? $0.holds(for: id)) ?? false }
        }
    }

    /// Whether a document is allowed.
    public func allows(_ key: DocumentKey) -> Bool { allows(key.collection, key.id) }

    /// A number that stands for all that is allowed: other rules, another number.
    public var mark: UInt64 {
        if everything { return 1 }
        var bytes: [UInt8] = []
        for name in byCollection.keys.sorted() {
            for number in [UInt64(name.text.utf8.count), mark(of: name)] {
                withUnsafeBytes(of: number.bigEndian) { bytes += $0 }
            }
            bytes += name.text.utf8
        }
        return hash64(bytes)
    }

    /// A number that stands for what is allowed of a collection: other conditions, another number. 0 is
    /// nothing, 1 everything; the same in every process and version that reads the language alike.
    public func mark(of collection: CollectionName) -> UInt64 {
        switch rule(for: collection) {
        case nil: return 0
        case .whole?: return 1
        case .conditions(let conditions)?:
            let keys = conditions.map(\.canonicalKey).sorted { compareBytes($0, $1) < 0 }
            var bytes: [UInt8] = []
            for key in keys {
                withUnsafeBytes(of: UInt64(key.count).bigEndian) { bytes += $0 }
                bytes += key
            }
            return max(2, hash64(bytes))
        }
    }
}
