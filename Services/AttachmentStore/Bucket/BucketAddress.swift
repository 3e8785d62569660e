import Foundation
import ServiceKit

/// A bucket of a service that speaks the S3 protocol, and the file with the credentials for it.
public struct BucketAddress: Sendable, Equatable {
    /// `http(s)://HOST[:PORT]`.
    public let origin: String
    /// The bucket's name.
    public let bucket: String
    /// The beginning of all keys: empty, or one that ends with a slash.
    public let prefix: String
    /// The region that requests are signed for.
    public let region: String
    /// The file with the credentials.
    public let credentialsFile: String

    /// The URL, without a slash at its end.
    public var text: String { "\(origin)/\(bucket)\(prefix.isEmpty ? "" : "/\(prefix.dropLast())")" }

    /// Host and port, as the `Host` field has them.
    var host: String { String(origin.drop { $0 != ":" }.dropFirst(3)) }

    /// - Parameters:
    ///   - url: `http(s)://HOST[:PORT]/BUCKET[/PREFIX]`.
    ///   - credentialsFile: two lines, the id of the access key and the secret; a third one for the token of
    ///     temporary credentials.
    /// - Throws: `SRV-0104` for a URL of another form. The message has no credentials.
    public init(url: String, region: String?, credentialsFile: String?) throws(ServiceError) {
        guard let credentialsFile else {
            throw ServiceError(
                .configurationInvalid, "--attachment-bucket needs --attachment-bucket-credentials")
        }
        let scheme = url.hasPrefix("https://") ? "https://" : url.hasPrefix("http://") ? "http://" : ""
        let parts = url.dropFirst(scheme.count).split(separator: "/", omittingEmptySubsequences: false)
        let names = parts.dropFirst().filter { !$0.isEmpty }
        guard !scheme.isEmpty, let host = parts.first, !host.isEmpty, let bucket = names.first,
            host.utf8.allSatisfy({ Self.isPlain($0) || [0x3A, 0x5B, 0x5D].contains($0) }),
            names.allSatisfy({ $0.utf8.allSatisfy(Self.isPlain) && $0 != "." && $0 != ".." })
        else {
            throw ServiceError(
                .configurationInvalid,
                "--attachment-bucket is a URL like https://s3.eu-central-1.amazonaws.com/BUCKET/PREFIX, "
                    + "with letters, digits, '.', '-' and '_' in its names, and without user or query")
        }
        origin = scheme + host
        self.bucket = String(bucket)
        prefix = names.dropFirst().map { $0 + "/" }.joined()
        self.region = region ?? "us-east-1"
        self.credentialsFile = credentialsFile
        guard !self.region.isEmpty, self.region.utf8.allSatisfy(Self.isPlain) else {
            throw ServiceError(
                .configurationInvalid, "--attachment-bucket-region is a name like eu-central-1")
        }
    }

    /// Letters, digits, `.`, `-` and `_`: the same in a path, a query and a signature.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
        default: false
        }
    }
}

/// The credentials for a bucket. Never printed.
struct BucketCredentials: Sendable, Equatable {
    var accessKey: String
    var secret: String
    var sessionToken: String?

    /// - Throws: `ATT-0402` for a file that cannot be read, or has another form.
    init(file: String) throws(AttachmentStoreError) {
        let text = FileManager.default.contents(atPath: file).flatMap { String(data: $0, encoding: .utf8) }
        let lines = (text ?? "").split(whereSeparator: \.isNewline).map { $0.trimmingPrefix { $0 == " " } }
            .map { String($0) }.filter { !$0.isEmpty }
        guard lines.count == 2 || lines.count == 3,
            lines.allSatisfy({ $0.utf8.allSatisfy { 0x21...0x7E ~= $0 } })
        else {
            throw AttachmentStoreError(
                .bucketRefused,
                "the file \(file) of the bucket's credentials must have the id of the access key and the "
                    + "secret, each on a line")
        }
        (accessKey, secret) = (lines[0], lines[1])
        sessionToken = lines.count == 3 ? lines[2] : nil
    }

    init(accessKey: String, secret: String, sessionToken: String? = nil) {
        (self.accessKey, self.secret, self.sessionToken) = (accessKey, secret, sessionToken)
    }
}
