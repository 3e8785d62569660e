/// Keeps a flood of logins from filling the audit: the first of a kind in a minute is an entry of its own,
/// further ones are counted, and at the minute's end one entry has their number.
///
/// Two actions are of one kind if they differ in nothing but time and request. Beyond
/// `Limits.auditKinds` kinds of one action and result in a minute, all others count as one kind, without
/// user, peer and address. So strangers with many addresses or names add a bounded number of entries.
///
/// A value; its owner guards it.
struct AuditDigest {
    private struct Kind: Hashable {
        var action: String
        var result: AuditEntry.Result
        var code: String?
        var user: String?
        var address: String?
        var peer: String?
        var database: String?
        var provider: String?
    }

    private struct Group: Hashable {
        var action: String
        var result: AuditEntry.Result
    }

    private var began: Int64?
    private var repeated: [Kind: AuditEntry] = [:]
    private var kinds: [Group: Int] = [:]

    /// Takes an action; returns its entry if it has one of its own.
    mutating func take(_ entry: AuditEntry) -> AuditEntry? {
        began = began ?? entry.milliseconds
        let known = repeated[Self.kind(of: entry)]
        let group = Group(action: entry.action, result: entry.result)
        guard known == nil, kinds[group, default: 0] >= Limits.auditKinds else {
            return add(entry, to: Self.kind(of: entry), group)
        }
        // Users and addresses are lost; their number is not.
        var other = entry
        (other.user, other.peer, other.provider, other.database, other.code) = (nil, nil, nil, nil, nil)
        other.address = "others"
        other.request = nil
        return add(other, to: Self.kind(of: other), group)
    }

    private mutating func add(_ entry: AuditEntry, to kind: Kind, _ group: Group) -> AuditEntry? {
        if var known = repeated[kind] {
            known.count += 1
            known.milliseconds = max(known.milliseconds, entry.milliseconds)
            repeated[kind] = known
            return nil
        }
        kinds[group, default: 0] += 1
        var counter = entry
        (counter.count, counter.request) = (0, nil)
        repeated[kind] = counter
        return entry
    }

    private static func kind(of entry: AuditEntry) -> Kind {
        Kind(
            action: entry.action, result: entry.result, code: entry.code, user: entry.user,
            address: entry.address, peer: entry.peer, database: entry.database, provider: entry.provider)
    }

    /// The entries of the repeated actions if the minute is over, or if `isLast`; a new minute begins.
    mutating func end(at milliseconds: Int64, isLast: Bool = false) -> [AuditEntry] {
        guard let began, isLast || milliseconds - began >= Limits.auditWindowMilliseconds else { return [] }
        defer { self = AuditDigest() }
        return repeated.values.filter { $0.count > 0 }.sorted { $0.milliseconds < $1.milliseconds }
    }
}
