import CRDT
import Crypto
import Foundation
import SwiftASN1
import X509

/// The certificate by which a peer proves its identity to other peers: X.509 v3 for the peer's own key,
/// signed by the database's key as certificate authority, with the identity in an extension.
///
/// Two peers with such certificates authenticate each other (mutual TLS 1.3) without a third party, until
/// one of them expires.
public struct PeerCertificate: Sendable {
    /// The extension with the identity: JSON, under an experimental arc that belongs to nobody. Not
    /// critical, so that a TLS library that does not know it accepts the certificate. We refuse a
    /// certificate without it.
    static let identityOID: ASN1ObjectIdentifier = [1, 3, 6, 1, 3, 4049, 1]

    /// The longest life of a certificate.
    public static let life = Limits.certificateLife

    /// The certificate in DER.
    public let der: [UInt8]
    /// The identity it certifies.
    public let identity: Identity

    /// The content of the extension.
    private struct Content: Codable {
        var sub: String
        var db: String
        var grant: Grant
        var jti: String?
        var meta: String?
    }

    /// Issues a certificate for a signing request that the requester's own peer key has signed.
    /// - Parameters:
    ///   - identity: the requester, with the peer key that its token names.
    ///   - request: untrusted: PKCS#10 in PEM.
    /// - Throws: `AUTH-0305` for a malformed request, or one that the token's peer key has not signed.
    public static func issue(
        to identity: Identity, request text: String, with authority: DatabaseSigningKey, nowSeconds: Int64
    ) throws(IdentityError) -> PeerCertificate {
        precondition(identity.databaseID == authority.keyID.databaseID, "a database's key signs for it alone")
        let key = try provenKey(of: text)
        guard let peerKey = identity.peerKey,
            peerKey == PeerKey.prefix + Base64URL.encode(key.compressedRepresentation)
        else { throw .requestRefused }
        let content = Content(
            sub: identity.userID, db: identity.databaseID.text, grant: identity.grant, jti: identity.tokenID,
            meta: identity.metadata)
        let life = Limits.certificateLife.components.seconds
        let end = min(identity.expiresAtSeconds, nowSeconds + life)
        do {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            let certificate = try Certificate(
                version: .v3, serialNumber: Certificate.SerialNumber(),
                publicKey: Certificate.PublicKey(key),
                notValidBefore: date(nowSeconds - Limits.clockSkew.components.seconds),
                notValidAfter: date(end), issuer: try CertificateAuthority.name(of: authority.keyID),
                subject: try DistinguishedName { CommonName(peerKey) },
                signatureAlgorithm: .ecdsaWithSHA256,
                extensions: try Certificate.Extensions {
                    Critical(BasicConstraints.notCertificateAuthority)
                    Critical(KeyUsage(digitalSignature: true))
                    try ExtendedKeyUsage([.serverAuth, .clientAuth])
                    Certificate.Extension(
                        oid: identityOID, critical: false, value: Array(try encoder.encode(content))[...])
                },
                issuerPrivateKey: Certificate.PrivateKey(authority.privateKey))
            var serializer = DER.Serializer()
            try serializer.serialize(certificate)
            return PeerCertificate(der: serializer.serializedBytes, identity: identity)
        } catch {
            preconditionFailure("what was checked before is a certificate: \(error)")
        }
    }

    /// Verifies a certificate that a peer presents: signature, time, database, key and identity.
    /// - Parameters:
    ///   - der: untrusted.
    ///   - authorities: the trusted keys of one database.
    /// - Throws: `AUTH-0306`, `AUTH-0105`, `AUTH-0106`, `AUTH-0201`, `AUTH-0202`.
    public static func verify(
        _ der: [UInt8], authorities: KeySet, databaseID: DatabaseID, nowSeconds: Int64
    ) throws(IdentityError) -> Identity {
        guard der.count <= Limits.certificateBytes,
            let certificate = try? Certificate(derEncoded: der),
            let issuer = certificate.issuer.commonName.flatMap({ KeyID($0) }),
            issuer.databaseID == databaseID, let authority = authorities[issuer],
            certificate.signatureAlgorithm == .ecdsaWithSHA256,
            Certificate.PublicKey(authority.key).isValidSignature(certificate.signature, for: certificate)
        else { throw .certificateRefused }
        // The signature is valid: from here on the content comes from the authority.
        let now = date(nowSeconds)
        guard now < certificate.notValidAfter else { throw .refused(.tokenExpired) }
        guard now >= certificate.notValidBefore else { throw .refused(.tokenNotYetValid) }
        guard let key = P256.Signing.PublicKey(certificate.publicKey),
            let found = certificate.extensions[oid: identityOID],
            (try? certificate.extensions.basicConstraints) == .notCertificateAuthority,
            let content = try? JSONDecoder().decode(Content.self, from: Data(found.value)),
            DatabaseID(content.db) == databaseID, !content.sub.isEmpty
        else { throw .certificateRefused }
        return Identity(
            userID: content.sub, databaseID: databaseID,
            peerKey: PeerKey.prefix + Base64URL.encode(key.compressedRepresentation),
            rights: try CompiledGrant(content.grant),
            expiresAtSeconds: Int64(certificate.notValidAfter.timeIntervalSince1970),
            issuedAtSeconds: Int64(certificate.notValidBefore.timeIntervalSince1970)
                + Limits.clockSkew.components.seconds,
            tokenID: content.jti, signedBy: issuer, metadata: content.meta)
    }

    /// The database whose authority a certificate names. Nothing is verified: only for saying why a
    /// certificate was refused.
    public static func claimedDatabase(of der: [UInt8]) -> DatabaseID? {
        guard der.count <= Limits.certificateBytes, let certificate = try? Certificate(derEncoded: der) else {
            return nil
        }
        return certificate.issuer.commonName.flatMap { KeyID($0) }?.databaseID
    }

    /// The certificate in PEM.
    public var pem: String { PEMDocument(type: "CERTIFICATE", derBytes: der).pemString }

    /// The bytes of a certificate in PEM; empty for any other text.
    public static func der(pem: String) -> [UInt8] {
        (try? PEMDocument(pemString: pem))?.derBytes ?? []
    }

    /// The public key of a request. The request's own signature proves that the requester holds it.
    private static func provenKey(of text: String) throws(IdentityError) -> P256.Signing.PublicKey {
        guard text.utf8.count <= Limits.certificateBytes,
            let request = try? CertificateSigningRequest(pemEncoded: text),
            let key = P256.Signing.PublicKey(request.publicKey),
            request.signatureAlgorithm == .ecdsaWithSHA256,
            request.publicKey.isValidSignature(request.signature, for: request)
        else { throw .requestRefused }
        return key
    }

    private static func date(_ seconds: Int64) -> Date { Date(timeIntervalSince1970: Double(seconds)) }
}

/// A database's key as a certificate authority.
public enum CertificateAuthority {
    /// The self-signed certificate that peers trust, in PEM. Created again on each call: only its key and
    /// its name matter, and they stay the same.
    /// - Parameter createdAtSeconds: the time when the key was created.
    public static func certificate(of key: DatabaseSigningKey, createdAtSeconds: Int64) -> String {
        do {
            let start = Date(
                timeIntervalSince1970: Double(createdAtSeconds - Limits.clockSkew.components.seconds))
            let name = try name(of: key.keyID)
            let publicKey = Certificate.PublicKey(key.privateKey.publicKey)
            let certificate = try Certificate(
                version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: publicKey,
                notValidBefore: start,
                notValidAfter: start + Double(Limits.authorityLife.components.seconds), issuer: name,
                subject: name, signatureAlgorithm: .ecdsaWithSHA256,
                extensions: try Certificate.Extensions {
                    Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                    Critical(KeyUsage(keyCertSign: true))
                },
                issuerPrivateKey: Certificate.PrivateKey(key.privateKey))
            return try certificate.serializeAsPEM().pemString
        } catch {
            preconditionFailure("a P-256 key signs its own certificate: \(error)")
        }
    }

    /// The public key of an authority's certificate, in the form of a peer key (`pk…`); nil for any other
    /// text.
    public static func publicKeyString(pem: String) -> String? {
        guard pem.utf8.count <= Limits.certificateBytes, let certificate = try? Certificate(pemEncoded: pem),
            let key = P256.Signing.PublicKey(certificate.publicKey)
        else { return nil }
        return PeerKey.prefix + Base64URL.encode(key.compressedRepresentation)
    }

    /// The public key of an authority's certificate, with its id; nil for any other text.
    public static func publicKey(pem: String) -> DatabasePublicKey? {
        guard pem.utf8.count <= Limits.certificateBytes, let certificate = try? Certificate(pemEncoded: pem),
            let key = P256.Signing.PublicKey(certificate.publicKey),
            let id = certificate.subject.commonName.flatMap({ KeyID($0) })
        else { return nil }
        return DatabasePublicKey(keyID: id, key: key)
    }

    /// The authority's name is the key's id, so a certificate says which of a database's keys signed it.
    static func name(of keyID: KeyID) throws -> DistinguishedName {
        try DistinguishedName { CommonName(keyID.description) }
    }
}

extension PeerKey {
    /// A certificate signing request (PKCS#10, PEM) that proves possession of this key.
    public func signingRequest() -> String {
        do {
            let request = try CertificateSigningRequest(
                version: .v1, subject: try DistinguishedName { CommonName(publicKeyString) },
                privateKey: Certificate.PrivateKey(privateKey),
                attributes: CertificateSigningRequest.Attributes(),
                signatureAlgorithm: .ecdsaWithSHA256)
            return try request.serializeAsPEM().pemString
        } catch {
            preconditionFailure("a P-256 key signs its own request: \(error)")
        }
    }
}

extension DistinguishedName {
    /// The common name, if the name consists of exactly one; else nil.
    fileprivate var commonName: String? {
        guard count == 1, let part = first, part.count == 1, let attribute = part.first,
            attribute.type == .RDNAttributeType.commonName
        else { return nil }
        return String(attribute.value)
    }
}
