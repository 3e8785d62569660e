import CRDT

/// One system parameter: its name, type and documentation. The reference page is generated from here.
public struct ParameterDefinition: Sendable {
    /// The name in lower case. Statements may write it in any case.
    public let name: String
    /// The type of its values.
    public let type: ParameterType
    /// The value if nobody set one.
    public let defaultValue: Value
    /// True if anything in Mimeo reads it. Others are accepted, kept and shown, so that programs written for
    /// the original run.
    public let hasEffect: Bool
    /// The parameter's effect, with its unit.
    public let documentation: String

    init(_ name: String, _ type: ParameterType, _ value: Value, works: Bool = false, _ documentation: String)
    {
        self.name = name
        self.type = type
        defaultValue = value
        hasEffect = works
        self.documentation = works ? documentation : documentation + " No effect in Mimeo yet."
    }

    // MARK: Shapes

    static func flag(_ name: String, _ value: Bool, works: Bool = false, _ text: String)
        -> ParameterDefinition
    {
        ParameterDefinition(name, .boolean, .bool(value), works: works, text)
    }

    static func count(
        _ name: String, _ value: Int64, in range: ClosedRange<Int64> = 0...Int64.max, works: Bool = false,
        _ text: String
    ) -> ParameterDefinition {
        ParameterDefinition(name, .integer(range), .int(value), works: works, text)
    }

    static func text(_ name: String, _ value: String, _ text: String) -> ParameterDefinition {
        ParameterDefinition(name, .string, .string(value), text)
    }
}

/// The type of a parameter's values.
public enum ParameterType: Sendable, Equatable {
    /// true or false.
    case boolean
    /// A whole number within bounds.
    case integer(ClosedRange<Int64>)
    /// A number within bounds.
    case number(ClosedRange<Double>)
    /// Any string.
    case string
    /// One of the words, in any case; stored as listed.
    case choice([String])
    /// An array of strings.
    case strings
    /// An array of `tcp://`, `ws://` and `wss://` addresses, or of objects with `address` and `type`.
    case peerAddresses
    /// Any object.
    case object
    /// An object from collection names to sync scopes.
    case syncScopes

    /// For the reference and for errors: `a whole number from 0 to 10`.
    public var description: String {
        switch self {
        case .boolean: "true or false"
        case .integer(let range) where range.upperBound == .max:
            range.lowerBound == .min ? "a whole number" : "a whole number from \(range.lowerBound)"
        case .integer(let range): "a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .number(let range): "a number from \(range.lowerBound) to \(range.upperBound)"
        case .string: "a string"
        case .choice(let words): "one of " + words.map { "'\($0)'" }.joined(separator: ", ")
        case .strings: "an array of strings"
        case .peerAddresses: "an array of tcp://host:port, ws:// and wss:// addresses"
        case .object: "an object"
        case .syncScopes:
            "an object from collection names to "
                + SyncScope.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")
        }
    }

    /// The value as it is stored; nil if it is not of this type.
    func accepted(_ value: Value) -> Value? {
        switch (self, value) {
        case (.boolean, .bool), (.string, .string), (.object, .object): value
        case (.integer(let range), .int(let number)): range.contains(number) ? value : Value?.none
        case (.number(let range), .int(let number)):
            range.contains(Double(number)) ? .double(Double(number)) : Value?.none
        case (.number(let range), .double(let number)): range.contains(number) ? value : Value?.none
        case (.choice(let words), .string(let text)):
            words.first { $0.lowercased() == text.lowercased() }.map { .string($0) }
        case (.strings, .array(let elements)):
            elements.allSatisfy { $0.stringValue != nil } ? value : Value?.none
        case (.peerAddresses, .array(let elements)):
            elements.allSatisfy(Self.isPeerAddress) ? value : Value?.none
        case (.syncScopes, .object(let scopes)): SyncScope.accepted(scopes).map { .object($0) }
        default: nil
        }
    }

    private static func isPeerAddress(_ entry: Value) -> Bool {
        let type = entry["type"]?.stringValue
        guard type == nil || type == "candidate" || type == "force" else { return false }
        let text = (entry.stringValue ?? entry["address"]?.stringValue ?? "").lowercased()
        return ["tcp://", "ws://", "wss://"].contains { text.hasPrefix($0) && text.count > $0.count }
    }

    /// The value of a text from the environment; nil if the text is not of this type.
    func parsed(_ text: String) -> Value? {
        switch self {
        case .string, .choice: return accepted(.string(text))
        case .boolean where text == "1" || text.lowercased() == "true": return true
        case .boolean where text == "0" || text.lowercased() == "false": return false
        default: return (try? JSONText.parse(text)).flatMap(accepted)
        }
    }
}

/// The peers that receive the documents of a collection (`USER_COLLECTION_SYNC_SCOPES`).
public enum SyncScope: String, Sendable, CaseIterable {
    /// To everybody; the default for collections that are not named.
    case allPeers = "AllPeers"
    /// To servers only.
    case bigPeerOnly = "BigPeerOnly"
    /// To peers that are not servers.
    case smallPeersOnly = "SmallPeersOnly"
    /// To nobody.
    case localPeerOnly = "LocalPeerOnly"

    /// The scopes spelled as they are listed; nil if a key is reserved or a value is not a scope.
    static func accepted(_ scopes: ObjectValue) -> ObjectValue? {
        var accepted: [ObjectValue.Entry] = []
        for (collection, value) in scopes.entries {
            guard !collection.isEmpty, !collection.hasPrefix(reservedCollectionPrefix),
                let name = value.stringValue?.lowercased(),
                let scope = allCases.first(where: { $0.rawValue.lowercased() == name })
            else { return nil }
            accepted.append((key: collection, value: .string(scope.rawValue)))
        }
        return ObjectValue(accepted)
    }
}

/// The reports of small peers, which tools ask and answer by fields of their own: UPDATE may change them.
let reportCollectionName = "__small_peer_info"

/// Collections whose names begin with it belong to the system: statements may read them, but not write them.
let reservedCollectionPrefix = "__"
