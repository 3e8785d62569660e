import Crypto
import Foundation
import JWTKit

/// The public keys of all databases, as `GET /_ditto/auth/jwks.json` lists them (RFC 7517).
public struct KeySet: Sendable, Equatable {
    private var keys: [KeyID: DatabasePublicKey] = [:]

    /// A set of the given keys.
    public init(_ keys: some Sequence<DatabasePublicKey> = []) {
        for key in keys { self.keys[key.keyID] = key }
    }

    /// The key with this id; nil when there is none.
    public subscript(_ id: KeyID) -> DatabasePublicKey? { keys[id] }

    /// How many keys there are.
    public var count: Int { keys.count }

    /// Adds a key; replaces a key with the same id.
    public mutating func insert(_ key: DatabasePublicKey) { keys[key.keyID] = key }

    /// The JSON text of the set, keys in the order of their ids.
    public func json() -> [UInt8] {
        let sorted = keys.values.sorted {
            ($0.keyID.databaseID, $0.keyID.number) < ($1.keyID.databaseID, $1.keyID.number)
        }
        let set = JWKS(
            keys: sorted.map { key in
                let point = key.key.rawRepresentation
                return JWK.ecdsa(
                    .es256, identifier: JWKIdentifier(string: key.keyID.description),
                    x: Base64URL.encode(point.prefix(point.count / 2)),
                    y: Base64URL.encode(point.suffix(point.count / 2)), curve: .p256)
            })
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Only strings and arrays are encoded, which cannot fail.
        return [UInt8]((try? encoder.encode(set)) ?? Data(#"{"keys":[]}"#.utf8))
    }

    /// Parses a key set. Skips keys of other types and keys whose ids are not ours, as RFC 7517 asks.
    /// - Throws: `AUTH-0303` when the text is not a key set, when a key of ours is not a P-256 point, or
    ///   when there are too many keys.
    public init(json: some Sequence<UInt8>) throws(IdentityError) {
        guard let set = try? JSONDecoder().decode(JWKS.self, from: Data(json)) else {
            throw IdentityError(.keySetInvalid, "the key set is not a JWKS document")
        }
        guard set.keys.count <= Limits.keysPerSet else {
            throw IdentityError(.keySetInvalid, "the key set has more than \(Limits.keysPerSet) keys")
        }
        for key in set.keys where key.keyType.rawValue == JWK.KeyType.ecdsa.rawValue {
            guard let id = key.keyIdentifier.flatMap({ KeyID($0.string) }) else { continue }
            guard key.curve?.rawValue == JWK.Curve.ecdsa(.p256).rawValue,
                let x = key.x.flatMap({ Base64URL.decode($0) }),
                let y = key.y.flatMap({ Base64URL.decode($0) }),
                let point = try? P256.Signing.PublicKey(rawRepresentation: x + y)
            else { throw IdentityError(.keySetInvalid, "key \(id) of the key set is not a P-256 point") }
            insert(DatabasePublicKey(keyID: id, key: point))
        }
    }
}
