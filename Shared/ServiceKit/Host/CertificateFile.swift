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
            guard let end = chain.map({ Int64($0.notValidAfter) }).min() else {
                throw ServiceError(.certificateUnusable, "\(certificate) has no certificate")
            }
            return end
        } catch let error as ServiceError {
            throw error
        } catch {
            throw ServiceError(
                .certificateUnusable,
                "the certificate \(certificate) and its key \(key) cannot be used: \(error)")
        }
    }
}
