import CRDT
import Identity
import ServiceKit

/// Accounts, sessions and devices as their lists show them: without any secret.
enum AccountViews {
    static func account(_ account: AccountRecord, _ grant: Grant, _ nowSeconds: Int64) -> Value {
        [
            "name": .string(account.name), "provider": .string(account.provider),
            "mail": account.mail.map { .string($0) } ?? .null,
            "set": account.set.map { .string($0) } ?? .null, "permissions": AdminRoutes.value(of: grant),
            "createdAt": .int(account.createdAtSeconds),
            "expiresAt": account.expiresAtSeconds.map { .int($0) } ?? .null,
            "hasPassword": .bool(account.passwordHash != nil), "secondFactor": .bool(account.hasSecondFactor),
            "sessions": .int(Int64(live(account, nowSeconds).count)),
            "lastLoginAt": account.sessions.last.map { .int($0.createdAtSeconds) } ?? .null,
        ]
    }

    /// The sessions that have neither ended nor expired, the latest first.
    static func sessions(_ account: AccountRecord, _ nowSeconds: Int64, current: String? = nil) -> [Value] {
        live(account, nowSeconds).reversed().map { session in
            [
                "id": .string(session.id), "createdAt": .int(session.createdAtSeconds),
                "expiresAt": .int(session.expiresAtSeconds), "address": .string(session.address),
                "peerKey": session.peerKey.map { .string($0) } ?? .null,
                "current": .bool(current.map { utf8Equal($0, session.id) } ?? false),
            ]
        }
    }

    static func device(_ key: APIKeyRecord) -> Value {
        [
            "id": .string(key.id), "name": .string(key.name), "user": .string(key.user),
            "approvedBy": key.device.map { .string($0.approvedBy) } ?? .null,
            "peerKey": (key.device?.peerKey ?? key.peers?.last?.peerKey).map { .string($0) } ?? .null,
            "createdAt": .int(key.createdAtSeconds), "expiresAt": .int(key.expiresAtSeconds),
            "lastAt": key.peers?.last.map { .int($0.lastAtSeconds) } ?? .null,
            "permissions": AdminRoutes.value(of: key.permissions),
        ]
    }

    static func join(_ join: JoinRecord) -> Value {
        [
            "code": .string(String(join.id.split(separator: "/").last ?? "")), "name": .string(join.name),
            "peerKey": join.peerKey.map { .string($0) } ?? .null, "address": .string(join.address),
            "createdAt": .int(join.createdAtSeconds), "expiresAt": .int(join.expiresAtSeconds),
            "answeredBy": join.answer.map { .string($0.by) } ?? .null,
        ]
    }

    static func link(_ link: AccountLinkRecord) -> Value {
        [
            "id": .string(link.id), "provider": .string(link.provider),
            "kind": .string(link.account == nil ? "invitation" : "reset"),
            "name": link.name.map { .string($0) } ?? .null, "mail": link.mail.map { .string($0) } ?? .null,
            "set": link.set.map { .string($0) } ?? .null,
            "permissions": link.permissions.map { AdminRoutes.value(of: $0) } ?? .null,
            "createdAt": .int(link.createdAtSeconds), "expiresAt": .int(link.expiresAtSeconds),
        ]
    }

    private static func live(_ account: AccountRecord, _ nowSeconds: Int64) -> [AccountSession] {
        account.sessions.filter { $0.endedAtSeconds == nil && $0.expiresAtSeconds > nowSeconds }
    }
}
