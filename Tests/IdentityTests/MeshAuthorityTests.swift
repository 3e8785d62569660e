import CRDT
import Foundation
import Testing

@testable import Identity

@Suite("The authority of a mesh")
struct MeshAuthorityTests {
    private let now: Int64 = 1_900_000_000
    private let peer = PeerKey()

    @Test("holders of one key accept each other's own certificates, with every right, for seven days")
    func shared() throws {
        let key = PeerKey()
        let (here, there) = (MeshAuthority.shared(key), MeshAuthority.shared(try PeerKey(pem: key.pem)))
        let own = try #require(try here.ownCertificate(of: peer, databaseID: "boats", nowSeconds: now))
        let seen = try there.verify(own.der, databaseID: "boats", nowSeconds: now + 1)
        #expect(seen.peerKey == peer.publicKeyString && seen.grant == .everything)
        #expect(seen.expiresAtSeconds == now + 7 * 86_400)
        #expect(
            code { _ = try there.verify(own.der, databaseID: "boats", nowSeconds: now + 7 * 86_400) }
                == .tokenExpired)
    }

    @Test("a certificate of another key, or for another database, is refused; the latter is known by name")
    func foreign() throws {
        let key = PeerKey()
        let own = try #require(
            try MeshAuthority.shared(key).ownCertificate(of: peer, databaseID: "boats", nowSeconds: now))
        let others: [MeshAuthority] = [
            .shared(PeerKey()), .database(KeySet()), .none,
            .database(KeySet([try DatabaseSigningKey(databaseID: "boats", number: 1).publicKey])),
        ]
        for other in others {
            #expect(
                code { _ = try other.verify(own.der, databaseID: "boats", nowSeconds: now) }
                    == .certificateRefused)
        }
        #expect(
            code { _ = try MeshAuthority.shared(key).verify(own.der, databaseID: "cars", nowSeconds: now) }
                == .certificateRefused)
        #expect(PeerCertificate.claimedDatabase(of: own.der) == "boats")
        #expect(PeerCertificate.claimedDatabase(of: [1, 2, 3]) == nil)
    }

    @Test("the database's authority is read from the certificate that a login brings")
    func database() throws {
        let signing = try DatabaseSigningKey(databaseID: "boats", number: 4)
        let pem = CertificateAuthority.certificate(of: signing, createdAtSeconds: now)
        let authority = try #require(CertificateAuthority.publicKey(pem: pem))
        #expect(authority == signing.publicKey)
        #expect(CertificateAuthority.publicKey(pem: "-----BEGIN CERTIFICATE-----") == nil)
        let identity = Identity(
            userID: "ada", databaseID: "boats", peerKey: peer.publicKeyString, grant: .readOnly,
            expiresAtSeconds: now + 60)
        let certificate = try PeerCertificate.issue(
            to: identity, request: peer.signingRequest(), with: signing, nowSeconds: now)
        let mesh = MeshAuthority.database(KeySet([authority]))
        #expect(try mesh.verify(certificate.der, databaseID: "boats", nowSeconds: now).grant == .readOnly)
        #expect(try mesh.ownCertificate(of: peer, databaseID: "boats", nowSeconds: now) == nil)
    }
}
