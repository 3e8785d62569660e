import AuthGateway
import CRDT
import Identity

/// A webhook's answer: what it accepts has a user, an end and a grant that can be enforced, and what is no
/// plain `true` is accepted never.
@Sendable func fuzzWebhookAnswer(_ bytes: [UInt8]) {
    for status: UInt in [200, 204, 302, 401, 403, 404] {
        guard let answer = try? WebhookAnswer.read(bytes, status: status) else { continue }
        guard case .accepted(let login) = answer else { continue }
        require(status < 300, "a refusal's status lets a user in")
        require(!login.userID.isEmpty && login.seconds > 0, "a login has no user or no time")
        require((try? CompiledGrant(login.grant)) != nil, "a grant that cannot be enforced is taken")
        let members = (try? JSONText.parse(bytes))?.objectValue
        require(
            members?["authenticated"] == .bool(true) || members?["authenticate"] == .bool(true),
            "an answer that does not say so is taken for a yes")
        if let metadata = login.metadata {
            require(
                (try? JSONText.parse(Array(metadata.utf8)))?.objectValue != nil,
                "metadata is no object")
        }
    }
}
