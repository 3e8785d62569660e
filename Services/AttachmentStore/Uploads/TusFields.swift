import Attachments
import Crypto
import Foundation
import HTTPTypes
import Hummingbird
import ServiceKit

/// The header fields of the tus protocol, version 1.0.0 (https://tus.io/protocols/resumable-upload).
enum TusField {
    static let resumable = named("Tus-Resumable")
    static let version = named("Tus-Version")
    static let extensions = named("Tus-Extension")
    static let maximumSize = named("Tus-Max-Size")
    static let checksumAlgorithms = named("Tus-Checksum-Algorithm")
    static let offset = named("Upload-Offset")
    static let length = named("Upload-Length")
    static let deferredLength = named("Upload-Defer-Length")
    static let metadata = named("Upload-Metadata")
    static let checksum = named("Upload-Checksum")
    static let expires = named("Upload-Expires")
    static let override = named("X-HTTP-Method-Override")
    /// The id of the blob that a finished upload has become. Ours, not of tus.
    static let attachment = named("Mimeo-Attachment-Id")

    /// The only version there is.
    static let protocolVersion = "1.0.0"
    static let pieceType = "application/offset+octet-stream"

    private static func named(_ text: String) -> HTTPField.Name {
        guard let name = HTTPField.Name(text) else { preconditionFailure("a valid field name") }
        return name
    }
}

/// `Upload-Metadata`: pairs of a key and base64, separated by commas; the base64 may be missing.
struct TusMetadata {
    /// The values of keys; one that is no UTF-8 is left out.
    let values: [String: String]

    /// - Throws: `ATT-0201`.
    init(_ text: String) throws(AttachmentStoreError) {
        guard text.utf8.count <= Attachments.Limits.uploadMetadataBytes else {
            throw Self.malformed(
                "Upload-Metadata has at most \(Attachments.Limits.uploadMetadataBytes) bytes")
        }
        var values: [String: String] = [:]
        for pair in text.split(separator: ",") {
            let parts = pair.split(separator: " ")
            guard let key = parts.first, parts.count <= 2, key.utf8.allSatisfy({ 0x21...0x7E ~= $0 }) else {
                throw Self.malformed("Upload-Metadata has pairs of a key and base64, separated by commas")
            }
            guard values[String(key)] == nil else {
                throw Self.malformed("Upload-Metadata has a key twice")
            }
            guard let data = parts.count == 1 ? Data() : Data(base64Encoded: String(parts[1])) else {
                throw Self.malformed("a value of Upload-Metadata is not base64")
            }
            values[String(key)] = String(data: data, encoding: .utf8) ?? ""
        }
        self.values = values
    }

    private static func malformed(_ message: String) -> AttachmentStoreError {
        AttachmentStoreError(.tusFieldInvalid, message)
    }
}

/// `Upload-Checksum`: a digest of one piece, compared before the piece counts.
struct TusChecksum {
    /// The algorithms in `Tus-Checksum-Algorithm`. The protocol asks for SHA-1.
    static let algorithms = ["sha1", "sha256"]

    private enum Hash {
        case sha1(Insecure.SHA1)
        case sha256(SHA256)
    }

    private var hash: Hash
    private let expected: [UInt8]

    /// - Throws: `ATT-0201` for another algorithm, or text that is no digest of it.
    init(_ text: String) throws(AttachmentStoreError) {
        let parts = text.split(separator: " ")
        guard parts.count == 2, let digest = Data(base64Encoded: String(parts[1])) else {
            throw AttachmentStoreError(
                .tusFieldInvalid, "Upload-Checksum is the name of an algorithm, a blank and base64")
        }
        switch (parts[0], digest.count) {
        case ("sha1", Insecure.SHA1.byteCount): hash = .sha1(Insecure.SHA1())
        case ("sha256", SHA256.byteCount): hash = .sha256(SHA256())
        default:
            throw AttachmentStoreError(
                .tusFieldInvalid, "Upload-Checksum takes \(Self.algorithms.joined(separator: " and "))")
        }
        expected = Array(digest)
    }

    mutating func update(_ chunk: [UInt8]) {
        switch hash {
        case .sha1(var sha1):
            sha1.update(data: chunk)
            hash = .sha1(sha1)
        case .sha256(var sha256):
            sha256.update(data: chunk)
            hash = .sha256(sha256)
        }
    }

    var isRight: Bool {
        switch hash {
        case .sha1(let sha1): Array(sha1.finalize()) == expected
        case .sha256(let sha256): Array(sha256.finalize()) == expected
        }
    }
}

extension Request {
    /// A number of bytes in a field of tus; nil without the field.
    /// - Throws: `ATT-0201` for other texts.
    func tusNumber(_ field: HTTPField.Name) throws(AttachmentStoreError) -> Int64? {
        let texts = headers[values: field]
        guard let text = texts.first else { return nil }
        guard texts.count == 1, text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let number = Int64(text) else {
            throw AttachmentStoreError(.tusFieldInvalid, "\(field.rawName) is a number of bytes")
        }
        return number
    }

    /// - Throws: `ATT-0202` for a request of another version, or none.
    func requireTus() throws(AttachmentStoreError) {
        guard headers[TusField.resumable] == TusField.protocolVersion else {
            throw AttachmentStoreError(
                .tusVersion, "send Tus-Resumable: \(TusField.protocolVersion)",
                headers: [TusField.version: TusField.protocolVersion])
        }
    }
}
