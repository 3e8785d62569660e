import CRDT
import Foundation
import Identity

/// What a webhook's answer means.
///
/// The spellings of both generations are read: `authenticated` or `authenticate`, `clientInfo` or
/// `userInfo`. Whatever is not a plain `true` is a refusal and no malformed answer: seed code sends an error
/// object there. What is unknown is ignored; what is known and of another type makes the answer useless, for
/// half a permission would be worse than none.
package enum WebhookAnswer {
    /// - Parameter status: the HTTP status; only 200 to 299 can accept.
    /// - Throws: why it cannot be used, for the operator's log; nothing of it is for the client.
    package static func read(_ body: [UInt8], status: UInt) throws(Unusable) -> ProviderAnswer {
        let isSuccess = (200..<300).contains(status)
        guard let answer = try? JSONText.parse(body), let members = answer.objectValue else {
            // A refusal by status needs no body.
            if [401, 403].contains(status) { return .refused(clientInfo: nil) }
            throw Unusable("failed to decode response body: status \(status), and no JSON object")
        }
        let clientInfo = members["clientInfo"] ?? members["userInfo"]
        let verdict = members["authenticated"] ?? members["authenticate"]
        guard isSuccess else {
            guard [400, 401, 403].contains(status) || verdict != nil else {
                throw Unusable("status \(status)")
            }
            return .refused(clientInfo: clientInfo)
        }
        guard let verdict else { throw Unusable("it has no member 'authenticated'") }
        guard verdict == .bool(true) else { return .refused(clientInfo: clientInfo) }
        return .accepted(
            AcceptedLogin(
                userID: try userID(members), seconds: try seconds(members), grant: try grant(members),
                clientInfo: clientInfo, metadata: try metadata(members)))
    }

    /// For the operator.
    package struct Unusable: Error, Equatable {
        let reason: String
        init(_ reason: String) { self.reason = reason }
    }

    private static func userID(_ members: ObjectValue) throws(Unusable) -> String {
        guard let userID = members["userID"]?.stringValue, !userID.isEmpty,
            userID.utf8.count <= Limits.userIDBytes
        else { throw Unusable("userID is no text of 1 to \(Limits.userIDBytes) bytes") }
        return userID
    }

    private static func seconds(_ members: ObjectValue) throws(Unusable) -> Int64 {
        let seconds: Int64? =
            switch members["expirationSeconds"] {
            case .int(let number): number
            // Some languages have one kind of number.
            case .double(let number): Int64(exactly: number)
            default: nil
            }
        guard let seconds, 1...Int64(UInt32.max) ~= seconds else {
            throw Unusable("expirationSeconds is no whole number from 1 to \(UInt32.max)")
        }
        return seconds
    }

    /// What is signed into the identity, for every peer to see.
    private static func metadata(_ members: ObjectValue) throws(Unusable) -> String? {
        guard let value = members["identityServiceMetadata"], value != .null else { return nil }
        let text = JSONText.print(value, sortedKeys: true)
        guard value.objectValue != nil, text.utf8.count <= Limits.metadataBytes else {
            throw Unusable(
                "identityServiceMetadata is no object of at most \(Limits.metadataBytes) bytes")
        }
        return text
    }

    /// Nothing is granted where nothing is said.
    private static func grant(_ members: ObjectValue) throws(Unusable) -> Grant {
        guard let permissions = members["permissions"], permissions != .null else { return .nothing }
        return try grant(permissions)
    }

    /// The permissions object of a webhook and of a configuration.
    static func grant(_ permissions: Value) throws(Unusable) -> Grant {
        guard permissions.objectValue != nil,
            let grant = try? JSONDecoder().decode(Grant.self, from: Data(JSONText.print(permissions).utf8))
        else { throw Unusable("permissions are not of the documented shape") }
        do {
            try grant.requireEnforceable()
        } catch {
            throw Unusable("permissions cannot be enforced: \(error)")
        }
        return grant
    }
}
