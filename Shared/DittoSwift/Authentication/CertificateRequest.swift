import AsyncHTTPClient
import CRDT
import Foundation
import Identity

/// One `POST /_ditto/auth/cert`: fetches the certificate by which this store authenticates itself to other
/// peers while no server can be reached.
struct CertificateRequest: Sendable {
    var accessToken: String
    /// The store's key; the request proves its possession.
    var key: PeerKey

    /// Sends it.
    /// - Parameter login: the URL of logins; the certificate endpoint is beside it.
    /// - Throws: `SDK-0302`, or the server's own code.
    func send(besides login: URL) async throws -> StoredCertificate {
        let url = login.deletingLastPathComponent().appendingPathComponent("cert")
        var request = HTTPClientRequest(url: url.absoluteString)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.headers.add(name: "Authorization", value: "Bearer \(accessToken)")
        let text = JSONText.print(["request": .string(key.signingRequest())])
        request.body = .bytes(Array(text.utf8))
        let response = try await HTTPConnections.execute(
            request, seconds: Limits.loginTimeoutSeconds)
        let body = Array(try await response.body.collect(upTo: Limits.loginAnswerBytes).readableBytesView)
        guard response.status == .ok,
            let answer = try? JSONDecoder().decode(StoredCertificate.self, from: Data(body))
        else {
            let answer = try? JSONText.parse(body)
            throw SDKError(
                refusedBy: answer?["error"]?["code"]?.stringValue ?? "SDK-0302",
                "the server issued no certificate: status \(response.status.code)")
        }
        return answer
    }
}

/// The certificates of a store, as stored: PEM texts.
struct StoredCertificate: Codable, Sendable, Equatable {
    /// The store's own.
    var certificate: String
    /// The authorities whose peers are trusted; the first is the one that signs now.
    var authorities: [String]

    /// The public key of the authority that signs now.
    var serverKey: String? { authorities.first.flatMap { CertificateAuthority.publicKeyString(pem: $0) } }
}
