import Foundation
import NIOSSL

extension TLSConfiguration {
    /// A client's: trusts the system's authorities, and those in the PEM file that the environment names as
    /// `SSL_CERT_FILE`, as OpenSSL's and others' programs do.
    public static func trusting(
        _ environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        guard let path = environment["SSL_CERT_FILE"], !path.isEmpty else { return configuration }
        configuration.additionalTrustRoots = [.file(path)]
        return configuration
    }
}
