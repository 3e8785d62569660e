import CConsoleFiles
import Crypto
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import ServiceKit

/// The files of the page, from the program itself, packed once when they are first asked for.
///
/// `index.html` names all others under `/console/VERSION/`, where VERSION is a hash of all files. So those
/// never change under their address and are kept by browsers for ever, and a new version is seen at once.
struct PageFiles: Sendable {
    static let shared = PageFiles()

    private struct File: Sendable {
        var type: String
        var tag: String
        var plain: ByteBuffer
        var packed: ByteBuffer
    }

    private let files: [String: File]
    private let version: String

    /// Nothing but the page's own files and calls: no inline script or style, no other origin, no frame.
    /// Pictures may also be attachments that the page has fetched with its credential.
    private static let policy =
        "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
        + "form-action 'self'; frame-ancestors 'none'"

    private init() {
        var found: [(path: String, bytes: UnsafeRawBufferPointer)] = []
        for index in 0..<mimeo_console_file_count() {
            let file = mimeo_console_file_at(index)
            found.append(
                (String(cString: file.path), UnsafeRawBufferPointer(start: file.bytes, count: file.length)))
        }
        var hash = SHA256()
        for file in found {
            hash.update(data: Data(file.path.utf8))
            hash.update(bufferPointer: file.bytes)
        }
        let version = Self.hexadecimal(hash.finalize())
        self.version = version
        var files: [String: File] = [:]
        for (path, bytes) in found {
            var plain = ByteBuffer(bytes: bytes)
            if path == "index.html" {
                plain = ByteBuffer(string: String(buffer: plain).replacing("VERSION", with: version))
            }
            files[path] = File(
                type: Self.type(of: path),
                tag: "\"\(Self.hexadecimal(SHA256.hash(data: Data(buffer: plain))))\"",
                plain: plain, packed: Packed.gzip(plain))
        }
        self.files = files
    }

    /// The page.
    func index(for request: Request) -> Response {
        guard let file = files["index.html"] else { preconditionFailure("the page is in the program") }
        return answer(file, request, cache: "no-cache")
    }

    /// A file that the page names.
    /// - Throws: `SRV-0404`; also for one of another version, so that no page mixes two of them.
    func file(for request: Request, _ context: ServiceContext) throws -> Response {
        let part = try context.parameters.require("part")
        let path = context.parameters.get("file").map { "\(part)/\($0)" } ?? part
        guard context.parameters.get("version") == version, let file = files[path] else {
            throw ServiceError(.notFound, "the console has no such file; load its page again")
        }
        return answer(file, request, cache: "public, max-age=31536000, immutable")
    }

    private func answer(_ file: File, _ request: Request, cache: String) -> Response {
        var headers: HTTPFields = [
            .contentType: file.type, .cacheControl: cache, .eTag: file.tag, .vary: "Accept-Encoding",
            .contentSecurityPolicy: Self.policy, .xContentTypeOptions: "nosniff",
        ]
        if let name = HTTPField.Name("Referrer-Policy") { headers[name] = "no-referrer" }
        if request.headers[.ifNoneMatch]?.contains(file.tag) == true {
            return Response(status: .notModified, headers: headers)
        }
        let isPacked = Packed.isTaken(by: request)
        if isPacked { headers[.contentEncoding] = "gzip" }
        return Response(
            status: .ok, headers: headers,
            body: ResponseBody(byteBuffer: isPacked ? file.packed : file.plain))
    }

    private static func type(of path: String) -> String {
        switch path.split(separator: ".").last {
        case "html": "text/html; charset=utf-8"
        case "css": "text/css; charset=utf-8"
        case "svg": "image/svg+xml"
        default: "text/javascript; charset=utf-8"
        }
    }

    private static func hexadecimal(_ digest: SHA256.Digest) -> String {
        digest.prefix(8).map { byte in
            let digits = String(byte, radix: 16)
            return digits.count == 1 ? "0\(digits)" : digits
        }.joined()
    }
}
