import CRDT
import Hummingbird
import Identity
import ServiceKit

/// `POST /_ditto/auth/attachment-urls`: signs URLs of attachments with the database's key, for whoever may
/// read something.
///
/// The gateway does not know which documents refer to an attachment. So a URL carries the right to read, and
/// the attachment-store asks at each use. Rotating the database's key ends the URLs that it has signed.
struct AttachmentURLs: Sendable {
    let state: GatewayState
    let authenticator: Authenticator
    let nowSeconds: @Sendable () -> Int64

    /// `{"ids": [...], "seconds": 300}`.
    /// - Throws: `AUTH-0401`, and as `Authenticator.identity`.
    func respond(to request: Request) async throws -> Response {
        let identity = try await authenticator.identity(for: request)
        guard identity.rights.read.allowsAnything else {
            throw IdentityError.notPermitted("read attachments")
        }
        let body = try await AdminBody(request, known: ["ids", "seconds"])
        guard let ids = body.value("ids")?.arrayValue?.map(\.stringValue),
            (1...Limits.urlsPerRequest).contains(ids.count), ids.allSatisfy(Self.isID)
        else { throw AdminBody.missing("ids") }
        let seconds = try body.number("seconds") ?? Limits.urlSeconds
        guard (1...Limits.longestURLSeconds).contains(seconds) else { throw AdminBody.missing("seconds") }
        let now = nowSeconds()
        let end = min(now + seconds, identity.expiresAtSeconds)
        // An API key's own identity is signed by nobody, and has the key's id: the URL ends with the key.
        let isKey = identity.signedBy == nil
        let signer = Identity(
            userID: identity.userID, databaseID: identity.databaseID, peerKey: identity.peerKey,
            rights: identity.rights, expiresAtSeconds: end,
            tokenID: isKey ? identity.tokenID.map { AccessToken.newID(ofAPIKey: $0) } : identity.tokenID)
        let key = try await state.signingKey(of: identity.databaseID)
        // Not before the signer's own token, so that a lifted revocation does not end it.
        let issued = max(now, identity.issuedAtSeconds)
        let urls = try ids.compactMap(\.self).map { id -> Value in
            let token = AccessToken.issueURL(signer, attachment: id, with: key, nowSeconds: issued)
            guard token.utf8.count <= Limits.urlTokenBytes else {
                throw AuthGatewayError(
                    .requestMalformed, "your permissions are too long for a URL: fetch with the token itself")
            }
            return ["id": .string(id), "url": .string("/api/v5/attachments/\(id)?signed=\(token)")]
        }
        state.noteEnd(end, in: identity.databaseID)
        let answer: Value = ["urls": .array(urls), "expiresAt": .int(end)]
        return .json(JSONText.print(answer).utf8, headers: [.cacheControl: "no-store"])
    }

    /// Letters, digits, `-` and `_`, as ids of attachments have: nothing else belongs into a path.
    private static func isID(_ text: String?) -> Bool {
        guard let text, (1...Limits.attachmentIDBytes).contains(text.utf8.count) else { return false }
        return DatabaseID(text).isValid
    }
}
