import Foundation
import NIOSSL

/// A certificate's file as a check of the configuration looks at it.
public enum CertificateFile {
    /// The time at which the first certificate of a chain that ends ends, in seconds since 1970.
    /// - Throws: `SRV-0106`, if the files cannot be used together.
    public static func end(certificate: String, key: String) throws(ServiceError) -> Int64 {
        do {
            let chain = try NIOSSLCertificate.fromPEMFile(certificate)
            let configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) },
                privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem)))
            _ = try NIOSSLContext(configuration: configuration)
            return try end(of: chain, certificate)
        } catch let error as ServiceError {
            throw error
        } catch {
            throw ServiceError(
                .certificateUnusable,
                "the certificate \(certificate) and its key \(key) cannot be used: \(error)")
        }
    }

    /// The same for a file of certificates without a key: a client's, or authorities.
    /// - Throws: `SRV-0106`.
    public static func end(of certificates: String) throws(ServiceError) -> Int64 {
        do {
            return try end(of: try NIOSSLCertificate.fromPEMFile(certificates), certificates)
        } catch let error as ServiceError {
            throw error
        } catch {
            throw ServiceError(
                .certificateUnusable, "the certificate \(certificates) cannot be used: \(error)")
        }
    }

    private static func end(of chain: [NIOSSLCertificate], _ path: String) throws(ServiceError) -> Int64 {
        guard let end = chain.map({ Int64($0.notValidAfter) }).min() else {
            throw ServiceError(.certificateUnusable, "\(path) has no certificate")
        }
        return end
    }
}
