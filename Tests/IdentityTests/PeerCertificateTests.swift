import CRDT
import Crypto
import Foundation
import NIOCore
import NIOEmbedded
import NIOSSL
import SwiftASN1
import Testing
import X509

@testable import Identity

@Suite("Peer certificates")
struct PeerCertificateTests {
    private let now = Int64(Date().timeIntervalSince1970)
    private let authority: DatabaseSigningKey
    private let peer = PeerKey()

    init() throws { authority = try DatabaseSigningKey(databaseID: "cars", number: 3) }

    private func identity(_ key: PeerKey? = nil, expires: Int64 = 3600) -> Identity {
        Identity(
            userID: "ada", databaseID: "cars", peerKey: (key ?? peer).publicKeyString, grant: .readOnly,
            expiresAtSeconds: now + expires, issuedAtSeconds: now, tokenID: "t1", metadata: #"{"role":"x"}"#)
    }

    private func issue(_ key: PeerKey? = nil, expires: Int64 = 3600) throws -> PeerCertificate {
        let key = key ?? peer
        return try PeerCertificate.issue(
            to: identity(key, expires: expires), request: key.signingRequest(), with: authority,
            nowSeconds: now)
    }

    private func verify(
        _ der: [UInt8], keys: KeySet? = nil, databaseID: DatabaseID = "cars", at time: Int64? = nil
    ) throws -> Identity {
        try PeerCertificate.verify(
            der, authorities: keys ?? KeySet([authority.publicKey]), databaseID: databaseID,
            nowSeconds: time ?? now)
    }

    @Test("a certificate says who was certified, with rights and metadata, until its end")
    func roundTrip() throws {
        let certificate = try issue()
        let found = try verify(certificate.der)
        #expect(found.userID == "ada" && found.databaseID == "cars" && found.tokenID == "t1")
        #expect(found.peerKey == peer.publicKeyString)
        #expect(found.grant == .readOnly && found.metadata == #"{"role":"x"}"#)
        #expect(found.expiresAtSeconds == now + 3600 && found.issuedAtSeconds == now)
        #expect(try verify(certificate.der, at: now + 3599).userID == "ada")
        #expect(code { _ = try verify(certificate.der, at: now + 3600) } == .tokenExpired)
        #expect(code { _ = try verify(certificate.der, at: now - 61) } == .tokenNotYetValid)
        let long = try verify(try issue(expires: 1_000_000_000).der)
        #expect(long.expiresAtSeconds == now + Limits.certificateLife.components.seconds)
    }

    @Test("a request proves possession of the very key that the token names")
    func possession() throws {
        let other = PeerKey()
        let requests = [
            other.signingRequest(), "", "nonsense",
            String(repeating: "x", count: Limits.certificateBytes + 1),
            try issue().pem,
        ]
        for request in requests {
            #expect(
                code {
                    _ = try PeerCertificate.issue(
                        to: identity(), request: request, with: authority, nowSeconds: now)
                } == .requestRefused)
        }
        // Somebody's key, signed by somebody else's.
        let honest = try CertificateSigningRequest(pemEncoded: peer.signingRequest())
        let stolen = try CertificateSigningRequest(pemEncoded: other.signingRequest())
        let forged = try CertificateSigningRequest(
            version: .v1, subject: honest.subject, publicKey: honest.publicKey,
            attributes: CertificateSigningRequest.Attributes(), signatureAlgorithm: .ecdsaWithSHA256,
            signature: stolen.signature)
        let text = try forged.serializeAsPEM().pemString
        #expect(
            code {
                _ = try PeerCertificate.issue(
                    to: identity(), request: text, with: authority, nowSeconds: now)
            } == .requestRefused)
        let nobody = Identity(
            userID: "ada", databaseID: "cars", peerKey: nil, grant: .readOnly, expiresAtSeconds: now + 60)
        #expect(
            code {
                _ = try PeerCertificate.issue(
                    to: nobody, request: peer.signingRequest(), with: authority, nowSeconds: now)
            } == .requestRefused)
    }

    @Test("a forged certificate is refused: another authority, database or key, changed or cut bytes")
    func forged() throws {
        let honest = try issue().der
        let impostor = try DatabaseSigningKey(databaseID: "cars", number: 3)
        let foreign = try PeerCertificate.issue(
            to: identity(), request: peer.signingRequest(), with: impostor, nowSeconds: now)
        #expect(code { _ = try verify(foreign.der) } == .certificateRefused)
        #expect(code { _ = try verify(honest, keys: KeySet()) } == .certificateRefused)
        #expect(code { _ = try verify(honest, databaseID: "boats") } == .certificateRefused)
        for bytes in [[], [0x30], Array(honest.dropLast()), honest + [0]] {
            #expect(code { _ = try verify(bytes) } == .certificateRefused)
        }
        for index in stride(from: 0, to: honest.count, by: 7) {
            var changed = honest
            changed[index] ^= 0x55
            #expect(code { _ = try verify(changed) } == .certificateRefused, "byte \(index)")
        }
        let authorityPEM = CertificateAuthority.certificate(of: authority, createdAtSeconds: now)
        let authorityDER = try PEMDocument(pemString: authorityPEM).derBytes
        #expect(code { _ = try verify(authorityDER) } == .certificateRefused)
    }

    @Test("two peers authenticate each other in mutual TLS 1.3 without any server, until one has expired")
    func handshake() throws {
        let (one, other) = (PeerKey(), PeerKey())
        let authorities = [
            CertificateAuthority.certificate(of: authority, createdAtSeconds: now),
            CertificateAuthority.certificate(
                of: try DatabaseSigningKey(databaseID: "cars", number: 2), createdAtSeconds: now),
        ]
        let seen = try TLSPair(
            client: (one, try issue(one)), server: (other, try issue(other)), authorities: authorities
        ).handshake()
        #expect(try verify(seen.byClient).peerKey == other.publicKeyString)
        #expect(try verify(seen.byServer).peerKey == one.publicKeyString)
        let expired = try PeerCertificate.issue(
            to: identity(other, expires: -1), request: other.signingRequest(), with: authority,
            nowSeconds: now)
        #expect(throws: (any Error).self) {
            try TLSPair(
                client: (one, try issue(one)), server: (other, expired), authorities: authorities
            ).handshake()
        }
        #expect(throws: (any Error).self) {
            try TLSPair(
                client: (one, try issue(one)), server: (other, try issue(other)),
                authorities: [authorities[1]]
            ).handshake()
        }
        // Another's certificate without its key.
        #expect(throws: (any Error).self) {
            try TLSPair(
                client: (one, try issue(other)), server: (other, try issue(other)), authorities: authorities
            ).handshake()
        }
    }
}

/// Two ends of a TLS connection in memory.
private struct TLSPair {
    typealias End = (key: PeerKey, certificate: PeerCertificate)
    let client: End
    let server: End
    let authorities: [String]

    private func configuration(_ base: TLSConfiguration, _ end: End) throws -> TLSConfiguration {
        var configuration = base
        configuration.minimumTLSVersion = .tlsv13
        configuration.certificateVerification = .noHostnameVerification
        configuration.trustRoots = .certificates(
            try authorities.map { try NIOSSLCertificate(bytes: Array($0.utf8), format: .pem) })
        configuration.certificateChain = [
            .certificate(try NIOSSLCertificate(bytes: end.certificate.der, format: .der))
        ]
        configuration.privateKey = .privateKey(
            try NIOSSLPrivateKey(bytes: Array(end.key.pem.utf8), format: .pem))
        return configuration
    }

    /// Shakes hands, and gives the certificate that each end was shown.
    func handshake() throws -> (byClient: [UInt8], byServer: [UInt8]) {
        let here = EmbeddedChannel()
        let there = EmbeddedChannel()
        let greeting = try NIOSSLContext(configuration: configuration(.makeClientConfiguration(), client))
        let key = try NIOSSLPrivateKey(bytes: Array(server.key.pem.utf8), format: .pem)
        let base = TLSConfiguration.makeServerConfiguration(
            certificateChain: [], privateKey: .privateKey(key))
        let answering = try NIOSSLContext(configuration: configuration(base, server))
        let clientHandler = try NIOSSLClientHandler(context: greeting, serverHostname: nil)
        let serverHandler = NIOSSLServerHandler(context: answering)
        try here.pipeline.syncOperations.addHandler(clientHandler)
        try there.pipeline.syncOperations.addHandler(serverHandler)
        try here.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        try there.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 2)).wait()
        here.writeAndFlush(ByteBuffer(string: "hello"), promise: nil)
        var received: ByteBuffer?
        for _ in 0..<20 where received == nil {
            while let bytes = try here.readOutbound(as: ByteBuffer.self) { try there.writeInbound(bytes) }
            while let bytes = try there.readOutbound(as: ByteBuffer.self) { try here.writeInbound(bytes) }
            received = try there.readInbound(as: ByteBuffer.self)
        }
        struct NoHandshake: Error {}
        guard received.map({ String(buffer: $0) }) == "hello",
            let shown = clientHandler.peerCertificate, let showing = serverHandler.peerCertificate
        else { throw NoHandshake() }
        return (try shown.toDERBytes(), try showing.toDERBytes())
    }
}
