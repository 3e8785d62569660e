import CRDT
import Foundation
import Identity

/// Parses a webhook's answer.
///
/// The spellings of both generations are accepted: `authenticated` or `authenticate`, `clientInfo` or
/// `userInfo`. Any value other than `true` is a refusal, not a malformed answer: published sample handlers
/// send an error object there. Unknown members are ignored, but not those of `permissions`. They make the
/// whole answer invalid, as a known member of the wrong type does: half a permission would be worse than
/// none.
package enum WebhookAnswer {
    /// - Parameter status: the HTTP status; only 200 to 299 can accept a login.
    /// - Throws: the reason why the answer is invalid, for the operator's log; it must not reach the client.
    package static func read(_ body: [UInt8], status: UInt) throws(Unusable) -> ProviderAnswer {
        let isSuccess = (200..<300).contains(status)
        guard let answer = try? JSONText.parse(body, roundsIntegers: true), let members = answer.objectValue
        else {
            // A refusal by status needs no body.
            if [401, 403].contains(status) { return .refused(clientInfo: nil) }
            throw Unusable("failed to decode response body: status \(status), and not a JSON object")
        }
        let clientInfo = members["clientInfo"] ?? members["userInfo"]
        let verdict = members["authenticated"] ?? members["authenticate"]
        guard isSuccess else {
            guard [400, 401, 403].contains(status) || verdict != nil else {
                throw Unusable("status \(status)")
            }
            return .refused(clientInfo: clientInfo, userID: try? userID(members))
        }
        guard let verdict else { throw Unusable("it has no member 'authenticated'") }
        guard verdict == .bool(true) else {
            return .refused(clientInfo: clientInfo, userID: try? userID(members))
        }
        return .accepted(
            AcceptedLogin(
                userID: try userID(members), seconds: try seconds(members), grant: try grant(members),
                clientInfo: clientInfo, metadata: try metadata(members)))
    }

    /// The reason why an answer is invalid, for the operator's log.
    package struct Unusable: Error, Equatable {
        let reason: String
        init(_ reason: String) { self.reason = reason }
    }

    private static func userID(_ members: ObjectValue) throws(Unusable) -> String {
        guard let userID = members["userID"]?.stringValue, !userID.isEmpty,
            userID.utf8.count <= Limits.userIDBytes
        else { throw Unusable("userID must be a string of 1 to \(Limits.userIDBytes) bytes") }
        return userID
    }

    private static func seconds(_ members: ObjectValue) throws(Unusable) -> Int64 {
        let seconds: Int64? =
            switch members["expirationSeconds"] {
            case .int(let number): number
            // Some languages have only one type of number.
            case .double(let number): Int64(exactly: number)
            default: nil
            }
        guard let seconds, 1...Int64(UInt32.max) ~= seconds else {
            throw Unusable("expirationSeconds must be a whole number from 1 to \(UInt32.max)")
        }
        return seconds
    }

    /// The metadata that is signed into the identity and that every peer sees.
    private static func metadata(_ members: ObjectValue) throws(Unusable) -> String? {
        guard let value = members["identityServiceMetadata"], value != .null else { return nil }
        let text = JSONText.print(value, sortedKeys: true)
        guard value.objectValue != nil, text.utf8.count <= Limits.metadataBytes else {
            throw Unusable(
                "identityServiceMetadata must be an object of at most \(Limits.metadataBytes) bytes")
        }
        return text
    }

    /// The grant of an answer; without `permissions` it grants nothing.
    private static func grant(_ members: ObjectValue) throws(Unusable) -> Grant {
        guard let permissions = members["permissions"], permissions != .null else { return .nothing }
        return try grant(permissions)
    }

    /// The grant of a `permissions` object, of a webhook or of a configuration.
    /// - Parameter isStored: true for one that was accepted before: unknown members were ignored once.
    static func grant(_ permissions: Value, isStored: Bool = false) throws(Unusable) -> Grant {
        do {
            if !isStored { try Grant.requireKnownMembers(of: permissions) }
        } catch {
            throw Unusable("permissions do not have the documented shape: \(error)")
        }
        guard permissions.objectValue != nil,
            let grant = try? JSONDecoder().decode(Grant.self, from: Data(JSONText.print(permissions).utf8))
        else { throw Unusable("permissions do not have the documented shape") }
        do {
            try grant.requireEnforceable()
        } catch {
            throw Unusable("permissions cannot be enforced: \(error)")
        }
        return grant
    }
}
