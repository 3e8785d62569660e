import Crypto
import Foundation

/// Signs requests to S3 with AWS Signature Version 4.
struct RequestSigner {
    /// The parts of a request that are signed.
    struct Parts {
        var method: String
        /// The encoded path.
        var path: String
        var query: [(name: String, value: String)] = []
        /// Fields to be signed; their names in lower case.
        var fields: [(name: String, value: String)] = []
        /// SHA-256 of the body, in hexadecimal.
        var bodyDigest: String
    }

    let region: String
    let credentials: BucketCredentials

    /// The fields to send with a request: those given, and the signature's.
    func fields(of parts: Parts, host: String, atSeconds seconds: Int64) -> [(name: String, value: String)] {
        let time = Self.time(seconds)
        let day = String(time.prefix(8))
        var fields = parts.fields
        fields.append(("host", host))
        fields.append(("x-amz-content-sha256", parts.bodyDigest))
        fields.append(("x-amz-date", time))
        if let token = credentials.sessionToken { fields.append(("x-amz-security-token", token)) }
        fields.sort { $0.name < $1.name }
        let names = fields.map(\.name).joined(separator: ";")
        let canonical = [
            parts.method, parts.path, Self.query(parts.query),
            fields.map { "\($0.name):\($0.value)\n" }.joined(), names, parts.bodyDigest,
        ].joined(separator: "\n")
        let scope = "\(day)/\(region)/s3/aws4_request"
        let text = [
            "AWS4-HMAC-SHA256", time, scope, Self.hexadecimal(SHA256.hash(data: Data(canonical.utf8))),
        ].joined(separator: "\n")
        var key = Data("AWS4\(credentials.secret)".utf8)
        for step in [day, region, "s3", "aws4_request", text] {
            key = Data(
                HMAC<SHA256>.authenticationCode(for: Data(step.utf8), using: SymmetricKey(data: key)))
        }
        let authorization =
            "AWS4-HMAC-SHA256 Credential=\(credentials.accessKey)/\(scope), SignedHeaders=\(names), "
            + "Signature=\(Self.hexadecimal(key))"
        return fields.filter { $0.name != "host" } + [("authorization", authorization)]
    }

    /// A query in the order and the encoding that are signed.
    static func query(_ query: [(name: String, value: String)]) -> String {
        query.map { (encoded($0.name), encoded($0.value)) }.sorted { $0 < $1 }
            .map { "\($0.0)=\($0.1)" }.joined(separator: "&")
    }

    /// All but RFC 3986's unreserved characters percent-encoded.
    static func encoded(_ text: String) -> String {
        text.utf8.map { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E:
                String(UnicodeScalar(byte))
            default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
        }.joined()
    }

    static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// `20130524T000000Z`.
    static func time(_ seconds: Int64) -> String {
        var (moment, parts) = (time_t(seconds), tm())
        gmtime_r(&moment, &parts)
        func digits(_ number: Int32, _ count: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, count - text.count)) + text
        }
        return digits(parts.tm_year + 1_900, 4) + digits(parts.tm_mon + 1, 2) + digits(parts.tm_mday, 2) + "T"
            + digits(parts.tm_hour, 2) + digits(parts.tm_min, 2) + digits(parts.tm_sec, 2) + "Z"
    }

    /// Seconds since 1970 of `2009-10-12T17:50:30.000Z`; nil for another form.
    static func seconds(_ text: String) -> Int64? {
        let numbers = text.split(whereSeparator: { !$0.isNumber }).compactMap { Int32($0) }
        guard numbers.count >= 6, text.hasSuffix("Z"), 1_970...9_999 ~= numbers[0] else { return nil }
        var parts = tm()
        (parts.tm_year, parts.tm_mon, parts.tm_mday) = (numbers[0] - 1_900, numbers[1] - 1, numbers[2])
        (parts.tm_hour, parts.tm_min, parts.tm_sec) = (numbers[3], numbers[4], numbers[5])
        return Int64(timegm(&parts))
    }
}
