import Foundation
import NIOSSL

extension TLSConfiguration {
    /// A client's TLS configuration: trusts the system's authorities, and those in the PEM file that the
    /// environment variable `SSL_CERT_FILE` names, as OpenSSL does. TLS 1.2 or later.
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
