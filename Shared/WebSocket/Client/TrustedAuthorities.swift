import Foundation
import NIOSSL

/// Recognizes a server that answers a TLS handshake in plain text.
public enum PlainServer {
    /// Returns whether an error says that the first bytes of the answer are no TLS record.
    public static func isMeant(by error: any Error) -> Bool {
        // BoringSSL's name for it, which NIOSSL passes on as text only.
        "\(error)".contains("WRONG_VERSION_NUMBER")
    }

    /// The remedy, for a person.
    public static func message(_ address: String) -> String {
        "\(address) answers without TLS: it speaks plain http. Write http:// in the server URL, or let the"
            + " server use TLS"
    }
}

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
