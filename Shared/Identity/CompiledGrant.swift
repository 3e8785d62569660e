import CRDT
import DQL

/// A grant prepared for checking documents. Its queries are parsed once, when a token is accepted, and then
/// evaluated for each document.
public struct CompiledGrant: Sendable {
    /// The grant it was compiled from.
    public let grant: Grant
    /// The readable documents.
    public let read: CompiledRules
    /// The writable documents.
    public let write: CompiledRules

    /// - Throws: `AUTH-0201` for a query that does not use `_id` alone, `AUTH-0202` for more than
    ///   `Limits.queriesPerGrant` queries on a side or an unknown query language.
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

    /// A grant that cannot be enforced: it allows nothing.
    init(refusing grant: Grant) {
        self.grant = grant
        read = CompiledRules(everything: false)
        write = CompiledRules(everything: false)
    }

    /// Allows no reading and no writing.
    public static let nothing = CompiledGrant(everything: false)
    /// Allows reading and writing every document.
    public static let everything = CompiledGrant(everything: true)
}

extension CompiledGrant: Hashable {
    /// Equal when the grants are.
    public static func == (left: CompiledGrant, right: CompiledGrant) -> Bool { left.grant == right.grant }

    /// Hashes the grant.
    public func hash(into hasher: inout Hasher) { hasher.combine(grant) }
}

/// One side of a grant, prepared for checking documents.
///
/// A condition that cannot be evaluated on an id (because it would take too many steps) does not hold for
/// it.
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
                        "a \(side) query for collection '\(collection)' must use _id alone: \(error)")
                }
            }
            guard !conditions.isEmpty else { continue }
            byCollection[collection] =
                conditions.contains(where: \.isAlwaysTrue) ? .whole : .conditions(conditions)
        }
        self.byCollection = byCollection
    }

    /// The beginning of the names of collections that are the server's own, such as the answers to writes
    /// that a client may repeat. No grant covers them, whatever it says.
    public static let serversOwn = "__server_"

    private func rule(for collection: CollectionName) -> Rule? {
        // Nearly every name differs in the first byte.
        let name = collection.text.utf8
        if name.first == UInt8(ascii: "_"), name.starts(with: Self.serversOwn.utf8) { return nil }
        return everything ? .whole : byCollection[collection]
    }

    /// True if any document is allowed.
    public var allowsAnything: Bool { everything || !byCollection.isEmpty }

    /// Returns whether any document of a collection may be allowed.
    public func allowsAny(of collection: CollectionName) -> Bool { rule(for: collection) != nil }

    /// The name of a collection of which nothing is allowed, for an error: with a hint where a rule has a
    /// name that looks the same.
    public func shown(_ collection: CollectionName) -> String {
        // Swift compares texts as Unicode does.
        guard byCollection.keys.contains(where: { $0.text == collection.text && $0 != collection }) else {
            return collection.text
        }
        return "\(collection.text), only a collection whose name looks the same and has other bytes: names "
            + "are compared byte by byte, so write it in the same Unicode form"
    }

    /// Returns whether every document of a collection is allowed.
    public func allowsAll(of collection: CollectionName) -> Bool {
        if case .whole? = rule(for: collection) { true } else { false }
    }

    /// Returns whether a document is allowed.
    public func allows(_ collection: CollectionName, _ id: DocumentID) -> Bool {
        switch rule(for: collection) {
        case nil: false
        case .whole?: true
        case .conditions(let conditions)?: conditions.contains { (try? $0.holds(for: id)) ?? false }
        }
    }

    /// Returns whether a document is allowed.
    public func allows(_ key: DocumentKey) -> Bool { allows(key.collection, key.id) }

    /// A fingerprint of these rules: different rules have different fingerprints (except for hash
    /// collisions).
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

    /// A fingerprint of the rules for one collection: different conditions have different fingerprints. 0
    /// means nothing, 1 everything. The same in every process and version that parses the language in the
    /// same way.
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
