import Crypto
import Foundation

/// A secret that signs calls to a webhook, so that the webhook can verify the caller.
public struct SigningSecret: Sendable, Equatable {
    /// The header with `t=<unix seconds>,v1=<hex>[,v1=<hex>…]`, one `v1` for each secret valid at the time.
    public static let headerName = "ditto-signature"

    /// The key of the hash.
    public let key: [UInt8]
    /// First second since 1970 at which it signs.
    public var notBefore: Int64 = .min
    /// First second since 1970 at which it no longer signs.
    public var notAfter: Int64 = .max

    /// A secret that is always valid.
    public init(key: [UInt8]) { self.key = key }

    /// The header's value, with HMAC-SHA256 over `<t>.<body>`; nil if no secret is valid.
    public static func header(_ body: [UInt8], _ secrets: [SigningSecret], nowSeconds: Int64) -> String? {
        let signed = Data("\(nowSeconds).".utf8) + Data(body)
        let parts = secrets.filter { $0.notBefore <= nowSeconds && nowSeconds < $0.notAfter }.map { secret in
            let code = HMAC<SHA256>.authenticationCode(for: signed, using: SymmetricKey(data: secret.key))
            return "v1=" + code.map { String(UInt16($0) + 0x100, radix: 16).dropFirst() }.joined()
        }
        return parts.isEmpty ? nil : (["t=\(nowSeconds)"] + parts).joined(separator: ",")
    }
}
