import Crypto
import Foundation

/// One-time codes of a second factor (RFC 6238): SHA-1, six digits, 30 seconds, as every authenticator
/// application has them.
enum OneTimeCode {
    /// Seconds of a time step.
    static let stepSeconds: Int64 = 30

    /// A new secret: 160 random bits in base32.
    static func newSecret() -> String {
        var generator = SystemRandomNumberGenerator()
        return base32((0..<20).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    /// The time step whose code this is: the present one, or the one before or after, since clocks differ.
    /// Nil for a wrong code, and for one of a step that is not after `last`: a code counts once.
    static func step(of code: String, secret: String, after last: Int64, nowSeconds: Int64) -> Int64? {
        guard let key = bytes(ofBase32: secret) else { return nil }
        let present = nowSeconds / stepSeconds
        return (present - 1...present + 1).first { step in
            step > last && Self.code(key, step).utf8.elementsEqual(code.utf8)
        }
    }

    /// The address by which authenticator applications take a secret over.
    static func uri(_ secret: String, name: String, issuer: String) -> String {
        func encoded(_ text: String) -> String {
            text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        }
        return "otpauth://totp/\(encoded(issuer)):\(encoded(name))?secret=\(secret)&issuer=\(encoded(issuer))"
    }

    /// The code of a time step.
    static func code(_ key: [UInt8], _ step: Int64) -> String {
        let counter = withUnsafeBytes(of: UInt64(bitPattern: step).bigEndian) { Data($0) }
        let mac = Array(HMAC<Insecure.SHA1>.authenticationCode(for: counter, using: SymmetricKey(data: key)))
        let offset = Int(mac[mac.count - 1] & 0x0f)
        let number = mac[offset..<offset + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) } & 0x7fff_ffff
        return String(String(number % 1_000_000 + 1_000_000).dropFirst())
    }

    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")

    private static func base32(_ bytes: [UInt8]) -> String {
        var (text, bits, count) = ("", UInt32(0), 0)
        for byte in bytes {
            (bits, count) = (bits << 8 | UInt32(byte), count + 8)
            while count >= 5 {
                text.append(digits[Int(bits >> UInt32(count - 5) & 31)])
                count -= 5
            }
        }
        return text
    }

    /// Nil for a text that is no base32.
    static func bytes(ofBase32 text: String) -> [UInt8]? {
        var (bytes, bits, count): ([UInt8], UInt32, Int) = ([], 0, 0)
        for digit in text {
            guard let value = digits.firstIndex(of: digit) else { return nil }
            (bits, count) = (bits << 5 | UInt32(value), count + 5)
            guard count >= 8 else { continue }
            bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count - 8)))
            count -= 8
        }
        return bytes
    }
}
