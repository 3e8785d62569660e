import Foundation
import NIOSSL

/// A certificate's file as a check of the configuration looks at it.
public enum CertificateFile {
    /// The time at which the own certificate of a chain ends, in seconds since 1970. Others are not looked
    /// at: a root that ended may be one of several ways to trust it.
    /// - Throws: `SRV-0106`, if the files cannot be used together.
    public static func end(certificate: String, key: String) throws(ServiceError) -> Int64 {
        do {
            let chain = try NIOSSLCertificate.fromPEMFile(certificate)
            let configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) },
                privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem)))
            _ = try NIOSSLContext(configuration: configuration)
            return try end(chain.first, certificate)
        } catch let error as ServiceError {
            throw error
        } catch {
            throw ServiceError(
                .certificateUnusable,
                "the certificate \(certificate) and its key \(key) cannot be used: \(error)")
        }
    }

    /// The same for a file of certificates without a key: a client's, or authorities, of which the last that
    /// ends counts.
    /// - Throws: `SRV-0106`.
    public static func end(
        of certificates: String, areAuthorities: Bool = false
    ) throws(ServiceError) -> Int64 {
        do {
            let all = try NIOSSLCertificate.fromPEMFile(certificates)
            return try end(
                areAuthorities ? all.max { $0.notValidAfter < $1.notValidAfter } : all.first, certificates)
        } catch let error as ServiceError {
            throw error
        } catch {
            throw ServiceError(
                .certificateUnusable, "the certificate \(certificates) cannot be used: \(error)")
        }
    }

    private static func end(_ certificate: NIOSSLCertificate?, _ path: String) throws(ServiceError) -> Int64 {
        guard let certificate else {
            throw ServiceError(.certificateUnusable, "\(path) has no certificate")
        }
        return Int64(certificate.notValidAfter)
    }
}
