import CRDT
import Identity
import ServiceKit

/// The login of a peer with an API key, at the provider `api-key` that every database has.
///
/// The peer gets a token for its own peer key, like any peer, and its right to sync and to a certificate. The
/// token ends with the API key. The key lists the peers that have used it.
enum KeyLogin {
    /// The provider's name; one of an operator's with this name comes first.
    static let provider = "api-key"

    /// Answers a login whose token is an API key.
    static func answer(
        _ login: LoginRequest, _ state: GatewayState, nowSeconds now: Int64
    ) async throws -> ProviderAnswer {
        guard let key = APIKey(login.token) else { return .refused(clientInfo: nil) }
        var found = state.system.directory.record(of: key)
        if found == nil {
            // The key may have been made a moment ago.
            try? await state.system.refresh()
            found = state.system.directory.record(of: key)
        }
        guard let record = found, record.databaseID == login.databaseID, now < record.expiresAtSeconds else {
            return .refused(clientInfo: nil)
        }
        if let bound = record.device?.peerKey, login.peerKey.map({ utf8Equal($0, bound) }) != true {
            return .refused(clientInfo: nil, userID: record.user)
        }
        if let held = state.system.directory.revocation(of: .token, record.id, in: record.databaseID),
            held.liftedAtSeconds == nil
        {
            throw AuthGatewayError(.loginRevoked, "this API key was revoked; an administrator may lift that")
        }
        let end = accountEnd(of: record.device?.user, in: record.databaseID, state)
        guard now < end else {
            throw AuthGatewayError(.accountExpired, "the account's time is over; ask an administrator")
        }
        try await note(login.peerKey, record, state, now, until: end)
        return .accepted(
            AcceptedLogin(
                userID: record.user,
                seconds: min(Limits.keySessionSeconds, min(record.expiresAtSeconds, end) - now),
                grant: record.permissions, clientInfo: ["name": .string(record.name)],
                tokenID: AccessToken.newID(ofAPIKey: record.id)))
    }

    /// The end of the account that a device acts for; the end of time for another user.
    static func accountEnd(of user: String?, in database: DatabaseID, _ state: GatewayState) -> Int64 {
        guard let user, let name = AccountName(user),
            let account = state.system.directory.accounts[name.id(in: database)],
            utf8Equal(account.name, user)
        else { return .max }
        return account.expiresAtSeconds ?? .max
    }

    /// Notes the peer in the key's list, and keeps a device's key for another year; once a day.
    private static func note(
        _ peerKey: String?, _ record: APIKeyRecord, _ state: GatewayState, _ now: Int64, until end: Int64
    ) async throws {
        guard let peerKey else { return }
        let known = record.peers?.last { utf8Equal($0.peerKey, peerKey) }
        guard known.map({ now - $0.lastAtSeconds >= Limits.keyPeerSeconds }) ?? true else { return }
        try await state.system.write { writer in
            guard var record = try writer.get(record.id, as: APIKeyRecord.self) else { return }
            let others = (record.peers ?? []).filter { !utf8Equal($0.peerKey, peerKey) }
            record.peers = Array(
                (others + [KeyPeer(peerKey: peerKey, lastAtSeconds: now)]).suffix(Limits.keyPeers))
            if record.device != nil { record.expiresAtSeconds = min(now + Limits.apiKeyLifeSeconds, end) }
            try writer.put(record)
        }
    }
}
