import CRDT
import Exchange
import Foundation
import Identity
import NIOCore
import NIOSSL
import Synchronization

/// The means by which a peer proves its identity, and checks others.
public struct MeshCredentials: Sendable {
    /// The peer's own key.
    public var key: PeerKey
    /// The certificate for the key, in DER; nil if there is none yet, or none is needed.
    public var certificate: [UInt8]?
    /// The authority that certificates come from.
    public var authority: MeshAuthority

    /// Credentials of these parts.
    public init(key: PeerKey, certificate: [UInt8]?, authority: MeshAuthority) {
        self.key = key
        self.certificate = certificate
        self.authority = authority
    }
}

/// The credentials of a peer that shares a key with others: it issues its own certificate, and another one
/// when half of its life is over.
public final class SharedCredentials: Sendable {
    private let shared: PeerKey
    private let databaseID: DatabaseID
    private let issued = Mutex<(key: String, der: [UInt8], renewsAt: Int64)?>(nil)

    /// - Parameter shared: the key that all peers share.
    public init(_ shared: PeerKey, databaseID: DatabaseID) {
        self.shared = shared
        self.databaseID = databaseID
    }

    /// The credentials of a peer key, in seconds since 1970.
    public func credentials(of key: PeerKey, nowSeconds: Int64) throws -> MeshCredentials {
        let authority = MeshAuthority.shared(shared)
        let certificate = try issued.withLock { issued -> [UInt8]? in
            let name = key.publicKeyString
            let life = Int64(Limits.renewedLife * Double(PeerCertificate.life.components.seconds))
            // A clock that was set back leaves a certificate that is not valid yet.
            if let issued, issued.key == name, (issued.renewsAt - life...issued.renewsAt).contains(nowSeconds)
            {
                return issued.der
            }
            let made = try authority.ownCertificate(of: key, databaseID: databaseID, nowSeconds: nowSeconds)
            issued = made.map { (name, $0.der, nowSeconds + life) }
            return made?.der
        }
        return MeshCredentials(key: key, certificate: certificate, authority: authority)
    }
}

/// Mutual TLS 1.3 within a pipe of bytes: the certificates come from the database's authority, and nothing
/// else is trusted. No resumption, so that each link proves its key anew.
final class LinkSecurity: Sendable {
    /// The protocol that both sides name (ALPN).
    static let applicationProtocol = "mimeo.mesh.1"

    private struct Prepared: Sendable {
        let certificate: [UInt8]
        let client: NIOSSLContext
        let server: NIOSSLContext
    }

    private let databaseID: DatabaseID
    private let nowSeconds: @Sendable () -> Int64
    private let credentials: @Sendable () throws -> MeshCredentials
    private let prepared = Mutex<Prepared?>(nil)

    /// - Parameters:
    ///   - nowSeconds: the time by which certificates are judged, in seconds since 1970.
    ///   - credentials: as of now; asked for each link.
    init(
        databaseID: DatabaseID, nowSeconds: @escaping @Sendable () -> Int64,
        credentials: @escaping @Sendable () throws -> MeshCredentials
    ) {
        self.databaseID = databaseID
        self.nowSeconds = nowSeconds
        self.credentials = credentials
    }

    /// The TLS of one link that is about to be made: nil for a link in the clear.
    /// - Throws: `AUTH-0109` without a certificate, `AUTH-0105` if the own one has expired.
    func tls() throws -> LinkTLS? {
        let own = try credentials()
        if case .none = own.authority { return nil }
        guard let certificate = own.certificate else {
            throw IdentityError(
                .tokenMissing, "this peer has no certificate: a login at its server brings one")
        }
        let ends = try own.authority.verify(
            certificate, databaseID: databaseID, nowSeconds: nowSeconds()
        ).expiresAtSeconds
        let contexts = try contexts(own.key, certificate)
        return LinkTLS(
            client: contexts.client, server: contexts.server, databaseID: databaseID,
            ownEndsAtSeconds: ends, ownCertificate: certificate,
            verify: { [databaseID, nowSeconds] der throws(IdentityError) in
                try own.authority.verify(der, databaseID: databaseID, nowSeconds: nowSeconds())
            })
    }

    /// Verifies a newer certificate that comes within a link, by the authority as of now.
    func identity(in der: [UInt8]) throws -> Identity {
        let authority = try credentials().authority
        do throws(IdentityError) {
            return try authority.verify(der, databaseID: databaseID, nowSeconds: nowSeconds())
        } catch {
            throw LinkTLS.reason(error, der, databaseID)
        }
    }

    private func contexts(_ key: PeerKey, _ certificate: [UInt8]) throws -> Prepared {
        try prepared.withLock { prepared in
            if let prepared, prepared.certificate == certificate { return prepared }
            let chain: [NIOSSLCertificateSource] = [
                .certificate(try NIOSSLCertificate(bytes: certificate, format: .der))
            ]
            let secret = NIOSSLPrivateKeySource.privateKey(
                try NIOSSLPrivateKey(bytes: Array(key.pem.utf8), format: .pem))
            var client = TLSConfiguration.makeClientConfiguration()
            client.certificateChain = chain
            client.privateKey = secret
            var server = TLSConfiguration.makeServerConfiguration(certificateChain: chain, privateKey: secret)
            Self.restrict(&client)
            Self.restrict(&server)
            let made = Prepared(
                certificate: certificate, client: try NIOSSLContext(configuration: client),
                server: try NIOSSLContext(configuration: server))
            prepared = made
            return made
        }
    }

    private static func restrict(_ configuration: inout TLSConfiguration) {
        configuration.minimumTLSVersion = .tlsv13
        configuration.applicationProtocols = [applicationProtocol]
        // With `.none` the callback that verifies would never be called.
        configuration.certificateVerification = .noHostnameVerification
        configuration.trustRoots = .certificates([])
        configuration.shutdownTimeout = .nanoseconds(Limits.lastFramesTimeout.nanoseconds)
    }
}

/// The TLS of one link.
struct LinkTLS: Sendable {
    fileprivate let client: NIOSSLContext
    fileprivate let server: NIOSSLContext
    fileprivate let databaseID: DatabaseID
    /// The end of the own certificate.
    let ownEndsAtSeconds: Int64
    /// The own certificate, in DER.
    let ownCertificate: [UInt8]
    fileprivate let verify: @Sendable ([UInt8]) throws(IdentityError) -> Identity

    /// The result of the verification: filled during the handshake.
    final class Verdict: Sendable {
        private let result = Mutex<Result<Identity, SyncError>?>(nil)

        /// The identity in the other side's certificate; nil before it was verified.
        var identity: Identity? { try? result.withLock { $0 }?.get() }
        /// The reason why its certificate was refused; nil if it was not.
        var refusal: SyncError? {
            guard case .failure(let error)? = result.withLock({ $0 }) else { return nil }
            return error
        }

        fileprivate func set(_ result: Result<Identity, SyncError>) { self.result.withLock { $0 = result } }
    }

    /// A handler of TLS for one end of a pipe.
    func handler(isDialer: Bool, verdict: Verdict) throws -> any ChannelHandler {
        let check: NIOSSLCustomVerificationCallback = { [verify, databaseID] chain, promise in
            let der = (try? chain.first?.toDERBytes()) ?? []
            do throws(IdentityError) {
                verdict.set(.success(try verify(der)))
                promise.succeed(.certificateVerified)
            } catch {
                verdict.set(.failure(Self.reason(error, der, databaseID)))
                promise.succeed(.failed)
            }
        }
        return isDialer
            ? try NIOSSLClientHandler(
                context: client, serverHostname: nil, customVerificationCallback: check)
            : NIOSSLServerHandler(context: server, customVerificationCallback: check)
    }

    /// The reason for a refused certificate. One that names another database says so: nothing of it is
    /// verified, but no right follows from it either.
    fileprivate static func reason(
        _ error: IdentityError, _ der: [UInt8], _ databaseID: DatabaseID
    ) -> SyncError {
        if let claimed = PeerCertificate.claimedDatabase(of: der), claimed != databaseID {
            return SyncError(.wrongDatabase, "the other side's certificate is for another database")
        }
        return SyncError(code: error.code.rawValue, message: error.message)
    }
}

extension Duration {
    /// Whole nanoseconds.
    var nanoseconds: Int64 {
        let parts = components
        return parts.seconds * 1_000_000_000 + parts.attoseconds / 1_000_000_000
    }
}
