import CRDT
import Logging

/// One line of the audit: who did what, from where, and with which result. It never holds a secret: no token,
/// no key, no body of a request.
public struct AuditEntry: Sendable, Equatable {
    /// The end of an action.
    public enum Result: String, Sendable {
        /// It was done.
        case ok
        /// It was refused: by a provider, a right or a limit.
        case refused
        /// It failed through no fault of whoever asked.
        case failed
    }

    /// Milliseconds since 1970; of the last action, where the entry stands for several.
    public var milliseconds: Int64
    /// The action: `login`, `certificate`, or the method and route of an admin request.
    public var action: String
    /// Its end.
    public var result: Result
    /// The error's stable code; nil for an action that was done.
    public var code: String?
    /// The user, or `admin`; nil where nobody has told.
    public var user: String?
    /// The client's address.
    public var address: String
    /// The peer key that the client named.
    public var peer: String?
    /// The database.
    public var database: String?
    /// The login provider.
    public var provider: String?
    /// The path of an admin request.
    public var path: String?
    /// The id of the request (`X-Request-ID`).
    public var request: String?
    /// Number of actions that this entry stands for.
    public var count: Int64 = 1

    /// An entry of one action.
    public init(
        milliseconds: Int64, action: String, result: Result, code: String? = nil, user: String? = nil,
        address: String
    ) {
        self.milliseconds = milliseconds
        self.action = action
        self.result = result
        self.code = code
        self.user = user
        self.address = address
    }

    /// Texts of a client are cut, since they stand in the log for months.
    var bounded: AuditEntry {
        var entry = self
        for field in [\AuditEntry.code, \.user, \.peer, \.database, \.provider, \.path, \.request] {
            entry[keyPath: field] = entry[keyPath: field].map(Self.cut)
        }
        entry.address = Self.cut(address)
        return entry
    }

    private static func cut(_ text: String) -> String {
        let limit = Limits.auditTextCharacters
        return text.count <= limit ? text : "\(text.prefix(limit))…"
    }

    private var members: [(name: String, value: String?)] {
        [
            ("action", action), ("result", result.rawValue), ("code", code), ("user", user),
            ("address", address), ("peer", peer), ("database", database), ("provider", provider),
            ("path", path), ("request", request),
        ]
    }

    /// The document with an id. Ids sort by time.
    func document(id: String) -> ObjectValue {
        var entries: [(key: String, value: Value)] = [("_id", .string(id)), ("at", .int(milliseconds))]
        for case (let name, let value?) in members { entries.append((name, .string(value))) }
        entries.append(("count", .int(count)))
        return ObjectValue(entries)
    }

    /// A new id: the time in 12 hexadecimal digits, the entry's number in its process in 8, and 32 random
    /// bits. So entries of one process and millisecond keep their order.
    static func id(_ milliseconds: Int64, _ number: UInt32, _ random: UInt32) -> String {
        "\(time(milliseconds))-\(padded(UInt64(number), to: 8))\(padded(UInt64(random), to: 8))"
    }

    /// The beginning of all ids of a time.
    static func time(_ milliseconds: Int64) -> String { padded(UInt64(max(0, milliseconds)), to: 12) }

    private static func padded(_ number: UInt64, to width: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    /// The message of the log line.
    static let lineMessage = "audit"

    /// The fields of the log line.
    var metadata: Logger.Metadata {
        var metadata: Logger.Metadata = [:]
        for case (let name, let value?) in members { metadata[name] = "\(value)" }
        if count > 1 { metadata["count"] = "\(count)" }
        return metadata
    }
}
