import AsyncHTTPClient
import CRDT
import Foundation
import Machine

/// The codes of a device that asks to join (RFC 8628), for the person who approves it.
public struct DittoJoinCode: Equatable, Sendable {
    /// The short code, like `BCDF-GHJK`.
    public var userCode: String
    /// The page on which a person who is signed in types it.
    public var url: String
    /// The same page with the code in it: the text of a QR code.
    public var qrText: String
    /// Seconds until the code ends.
    public var expiresIn: TimeInterval
}

/// The two requests of a device that joins.
struct JoinRequest: Sendable {
    var databaseID: String
    var name: String
    var peerKey: String

    /// The answer to the first one.
    struct Codes: Sendable {
        var shown: DittoJoinCode
        /// The device's own code, a secret.
        var deviceCode: String
        /// Seconds between two questions.
        var interval: Double
    }

    /// Asks for codes.
    /// - Parameter login: the URL of logins; the endpoint is beside it.
    /// - Throws: `SDK-0302` to `SDK-0304`, `SDK-0307`, or the server's own code.
    func begin(besides login: URL) async throws -> Codes {
        let url = login.deletingLastPathComponent().appendingPathComponent("join")
        let answer = try await LoginRequest.post(
            ["databaseID": .string(databaseID), "name": .string(name), "peerKey": .string(peerKey)], to: url)
        guard let userCode = answer["userCode"]?.stringValue,
            let deviceCode = answer["deviceCode"]?.stringValue,
            let page = answer["verificationURI"]?.stringValue,
            let whole = answer["verificationURIComplete"]?.stringValue,
            let seconds = answer["expiresIn"]?.intValue, let interval = answer["interval"]?.intValue,
            interval > 0
        else { throw SDKError(.loginAnswerMalformed, "the server's answer to the device is malformed") }
        let shown = DittoJoinCode(userCode: userCode, url: page, qrText: whole, expiresIn: Double(seconds))
        return Codes(shown: shown, deviceCode: deviceCode, interval: Double(interval))
    }

    /// Asks again and again until a person has answered or the code has ended.
    /// - Returns: the device's API key.
    /// - Throws: as `begin`; `AUTH-0422` if the device was denied, `AUTH-0423` for a code that has ended;
    ///   `CancellationError`.
    static func key(for codes: Codes, besides login: URL) async throws -> String {
        let url = login.deletingLastPathComponent().appendingPathComponent("join/key")
        var interval = codes.interval
        let end = ContinuousClock.now + .seconds(codes.shown.expiresIn)
        while true {
            try await Alarm.sleep(for: .seconds(interval))
            do {
                let answer = try await LoginRequest.post(["deviceCode": .string(codes.deviceCode)], to: url)
                guard let key = answer["apiKey"]?.stringValue else {
                    throw SDKError(.loginAnswerMalformed, "the server's answer to the device is malformed")
                }
                return key
            } catch let error as SDKError {
                switch error.code {
                case "AUTH-0420": continue
                case "AUTH-0421": interval += 5
                // The server may be away for a while.
                case SDKErrorCode.serverUnreachable.rawValue where ContinuousClock.now < end: continue
                default: throw error
                }
            }
        }
    }
}

extension DittoAuthenticationProvider {
    /// The provider that every database has for API keys.
    public static var apiKey: DittoAuthenticationProvider { "api-key" }
}

extension DittoAuthenticator {
    /// Logs in as a device that joins with a code: the handler gets a code to show, and a person who is
    /// signed in at the server approves it with a name and permissions. Returns after the login that follows.
    ///
    /// The credential that the device gets is kept in its folder, so later calls log in at once and show no
    /// code, until somebody removes the device. `expirationHandler` may do nothing but call this.
    /// - Parameters:
    ///   - deviceName: what the person sees first; at most 64 bytes.
    ///   - onCode: called on the main queue where it is served.
    /// - Throws: `authenticationError(.failedToAuthenticate)` if the device was denied, or nobody approved it
    ///   in time; `CancellationError` when the task is cancelled.
    public func join(deviceName: String, onCode: @escaping (DittoJoinCode) -> Void) async throws {
        let handler = Handler(onCode)
        do {
            try await join(deviceName) { code in DefaultDelivery.shared.async { handler.call(code) } }
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }
}
