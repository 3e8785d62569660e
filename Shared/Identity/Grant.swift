import CRDT
import DQL

/// The permissions of an identity: the object in a login answer, a webhook's verdict and an API key.
///
/// `{"read": {"everything": Bool, "queriesByCollection": {"cars": ["true"]}}, "write": {…}, "remoteQuery":
/// Bool, "qlVersion": 0|1}`. Every member is optional; a missing one grants nothing.
///
/// A query is a condition over `_id` alone, in the legacy language (`qlVersion` 0) or in DQL (1); `true` is
/// the whole collection. A grant with any other query is refused as a whole (`requireEnforceable()`),
/// because enforcing only a part of it could grant too much. `CompiledGrant` checks documents.
public struct Grant: Sendable, Hashable {
    /// The readable documents.
    public var read: AccessRules
    /// The writable documents.
    public var write: AccessRules
    /// True if other peers may be queried through the server.
    public var remoteQuery: Bool
    /// The language of the queries: 0 the legacy one, 1 DQL.
    public var queryLanguage: Int

    /// A grant of the given rules.
    public init(
        read: AccessRules = .nothing, write: AccessRules = .nothing, remoteQuery: Bool = false,
        queryLanguage: Int = 0
    ) {
        self.read = read
        self.write = write
        self.remoteQuery = remoteQuery
        self.queryLanguage = queryLanguage
    }

    /// Allows reading and writing every document.
    public static let everything = Grant(read: .everything, write: .everything, remoteQuery: true)
    /// Allows reading every document and writing none.
    public static let readOnly = Grant(read: .everything)
    /// Allows no reading and no writing.
    public static let nothing = Grant()

    /// Returns whether every document of a collection may be read.
    public func allowsReading(collection: CollectionName) -> Bool { read.allows(collection: collection) }

    /// Returns whether every document of a collection may be written.
    public func allowsWriting(collection: CollectionName) -> Bool { write.allows(collection: collection) }

    /// True if any document may be read. Sessions and attachments check this before they check documents.
    public var allowsReadingAnything: Bool { read.allowsAnything }

    /// True if any document may be written.
    public var allowsWritingAnything: Bool { write.allowsAnything }

    /// Returns whether this grant certainly allows all that another one allows: each of its queries is also
    /// one of this grant, or its collection is whole here. False says nothing.
    public func covers(_ other: Grant) -> Bool {
        let speaksAlike = queryLanguage == other.queryLanguage
        return read.covers(other.read, speaksAlike) && write.covers(other.write, speaksAlike)
            && (remoteQuery || !other.remoteQuery)
    }

    /// Refuses a permissions object with a member that it cannot have: a misspelt right would be no right,
    /// and nobody would hear of it. Tokens of ours may have further members, which a later version writes.
    ///
    /// Also refuses two names of collections that Unicode holds for equal, such as "é" in one code point and
    /// in two. They are two collections, and a reader of JSON keeps the rights of one of them.
    /// - Throws: `AUTH-0204`, which names the member; `AUTH-0205`, which names the collection.
    public static func requireKnownMembers(of permissions: Value) throws(IdentityError) {
        try requireKnown(CodingKeys.allCases.map(\.rawValue), in: permissions, "permissions")
        for side in [CodingKeys.read, .write].map(\.rawValue) {
            guard let rules = permissions[side] else { continue }
            try requireKnown(AccessRules.members, in: rules, "permissions.\(side)")
            // Swift compares texts as Unicode does.
            var names: Set<String> = []
            for (name, _) in rules[AccessRules.collectionsMember]?.objectValue?.entries ?? []
            where !names.insert(name).inserted {
                throw IdentityError(
                    .grantNamesAlike,
                    "permissions.\(side) has two collections \"\(name.prefix(Limits.shownCharacters))\", "
                        + "whose names differ in their bytes alone (in the Unicode form of a letter): keep "
                        + "the one that the documents are in")
            }
        }
    }

    private static func requireKnown(
        _ known: [String], in value: Value, _ place: String
    ) throws(IdentityError) {
        let names = value.objectValue?.entries.map(\.key) ?? []
        guard let unknown = names.first(where: { name in !known.contains { utf8Equal($0, name) } }) else {
            return
        }
        let shown = unknown.prefix(Limits.shownCharacters)
        let meant = Suggestion.closest(to: unknown, among: known).map { "did you mean \"\($0)\"? " } ?? ""
        let list = known.map { "\"\($0)\"" }.joined(separator: ", ")
        throw IdentityError(
            .grantMemberUnknown, "\"\(shown)\" is not a member of \(place); \(meant)it has \(list)")
    }

    /// - Throws: as `CompiledGrant`.
    public func requireEnforceable() throws(IdentityError) { _ = try CompiledGrant(self) }
}

/// One side of a grant.
public struct AccessRules: Sendable, Hashable {
    /// All documents of all collections.
    public var everything: Bool
    /// For each collection, queries over `_id` that are ORed together; `true` is the whole collection.
    public var queriesByCollection: [CollectionName: [String]]

    /// Rules of the given parts.
    public init(everything: Bool = false, queriesByCollection: [CollectionName: [String]] = [:]) {
        self.everything = everything
        self.queriesByCollection = queriesByCollection
    }

    /// All documents of all collections.
    public static let everything = AccessRules(everything: true)
    /// No document at all.
    public static let nothing = AccessRules()
    /// The query that means the whole collection.
    static let wholeCollection = "true"

    /// Compares the bytes of names and queries: canonically equal names are different collections.
    public static func == (left: AccessRules, right: AccessRules) -> Bool {
        left.everything == right.everything
            && left.queriesByCollection.count == right.queriesByCollection.count
            && left.queriesByCollection.allSatisfy { name, queries in
                right.queriesByCollection[name]?.elementsEqual(queries, by: utf8Equal) ?? false
            }
    }

    func allows(collection: CollectionName) -> Bool {
        everything || queriesByCollection[collection]?.contains(Self.wholeCollection) ?? false
    }

    func covers(_ other: AccessRules, _ speaksAlike: Bool) -> Bool {
        guard !everything else { return true }
        return !other.everything
            && other.queriesByCollection.allSatisfy { name, queries in
                let own = queriesByCollection[name] ?? []
                return own.contains { utf8Equal($0, Self.wholeCollection) }
                    || queries.allSatisfy { query in speaksAlike && own.contains { utf8Equal($0, query) } }
            }
    }

    var allowsAnything: Bool { everything || queriesByCollection.contains { !$0.value.isEmpty } }
}

extension Grant: Codable {
    private enum CodingKeys: String, CodingKey, CaseIterable {
        case read, write, remoteQuery
        case queryLanguage = "qlVersion"
    }

    /// Reads the permissions object; missing members grant nothing, unknown ones are ignored: see
    /// `requireKnownMembers`.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        read = try members.decodeIfPresent(AccessRules.self, forKey: .read) ?? .nothing
        write = try members.decodeIfPresent(AccessRules.self, forKey: .write) ?? .nothing
        remoteQuery = try members.decodeIfPresent(Bool.self, forKey: .remoteQuery) ?? false
        queryLanguage = try members.decodeIfPresent(Int.self, forKey: .queryLanguage) ?? 0
    }
}

extension AccessRules: Codable {
    private enum CodingKeys: String, CodingKey, CaseIterable {
        case everything, queriesByCollection
    }

    static let members = CodingKeys.allCases.map(\.rawValue)
    /// The member with the collections.
    static let collectionsMember = CodingKeys.queriesByCollection.rawValue

    /// Reads one side of the permissions object.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        everything = try members.decodeIfPresent(Bool.self, forKey: .everything) ?? false
        let queries = try members.decodeIfPresent([String: [String]].self, forKey: .queriesByCollection)
        queriesByCollection = Dictionary(
            uniqueKeysWithValues: (queries ?? [:]).map { (CollectionName($0.key), $0.value) })
    }

    /// Writes one side of the permissions object.
    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(everything, forKey: .everything)
        var names = members.nestedContainer(keyedBy: NameKey.self, forKey: .queriesByCollection)
        for (name, queries) in queriesByCollection {
            try names.encode(queries, forKey: NameKey(stringValue: name.text))
        }
    }

    /// A collection's name as the name of a member.
    private struct NameKey: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}
