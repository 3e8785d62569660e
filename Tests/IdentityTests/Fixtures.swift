import CRDT
import Identity
import Testing

@testable import struct Identity.Claims

/// A database, its key, a user and a time that all token tests share.
struct Fixture {
    static let now: Int64 = 1_800_000_000
    let key: DatabaseSigningKey
    let keys: KeySet

    init(databaseID: DatabaseID = "cars") throws {
        key = try DatabaseSigningKey(databaseID: databaseID, number: 1)
        keys = KeySet([key.publicKey])
    }

    func identity(grant: Grant = .everything, expiresAtSeconds: Int64 = now + 3600) -> Identity {
        Identity(
            userID: "ada", databaseID: key.keyID.databaseID, peerKey: nil, grant: grant,
            expiresAtSeconds: expiresAtSeconds)
    }

    func claims() -> Claims {
        Claims(
            iss: AccessToken.issuer, sub: "ada", db: key.keyID.databaseID.text, pk: nil, grant: .everything,
            jti: nil, meta: nil, iat: Self.now, nbf: nil, exp: Self.now + 3600)
    }

    func verify(_ token: String, databaseID: DatabaseID? = nil, at time: Int64 = now) throws -> Identity {
        try AccessToken.verify(token, keys: keys, databaseID: databaseID, nowSeconds: time)
    }
}

/// The code of the error a call throws, or nil when it throws none.
func code(_ body: () throws -> Void) -> IdentityErrorCode? {
    do {
        try body()
        return nil
    } catch {
        return (error as? IdentityError)?.code
    }
}
