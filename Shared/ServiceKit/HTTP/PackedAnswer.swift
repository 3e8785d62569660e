import HTTPTypes
import Hummingbird
import Machine
import NIOCore

extension Response {
    /// The answer with its body packed, if the client takes gzip and packing is worth it: text or CBOR of at
    /// least `Limits.packedAnswerBytes`, or of unknown length. A part of something (206) stays as it is.
    func packed(for request: Request) -> Response {
        guard isPackable else { return self }
        var response = self
        response.headers.add(.vary, "Accept-Encoding")
        guard request.method != .head, Self.takesGzip(request.headers[.acceptEncoding]) else {
            return response
        }
        let body = body
        let isStream = body.contentLength == nil
        response.body = ResponseBody { writer in
            try await body.write(GzipWriter(inner: writer, isStream: isStream))
        }
        response.headers[.contentLength] = nil
        response.headers[.contentEncoding] = "gzip"
        return response
    }

    private var isPackable: Bool {
        guard status != .partialContent, status != .noContent, status != .notModified,
            headers[.contentEncoding] == nil, !isStream,
            body.contentLength ?? .max >= Limits.packedAnswerBytes
        else { return false }
        let type = (headers[.contentType] ?? "").prefix { $0 != ";" }.lowercased()
        return type.hasPrefix("text/") || type.hasSuffix("json") || type.hasSuffix("cbor")
    }

    /// Streams that stay open are not packed: each would hold the packer's quarter of a megabyte.
    private var isStream: Bool { headers[.cacheControl]?.contains("no-transform") ?? false }

    /// RFC 9110 section 12.5.3: the best of `gzip`, `x-gzip` and `*`, unless its weight is 0.
    static func takesGzip(_ field: String?) -> Bool {
        var any = false
        for item in (field ?? "").split(separator: ",") {
            let parts = item.split(separator: ";").map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }
            guard let name = parts.first else { continue }
            let weight = parts.dropFirst().first { $0.hasPrefix("q=") }?.dropFirst(2)
            let isWanted = weight.map { Double($0) ?? 0 > 0 } ?? true
            if name == "gzip" || name == "x-gzip" { return isWanted }
            if name == "*" { any = isWanted }
        }
        return any
    }
}

extension HTTPFields {
    /// Adds a name to a field that is a list, unless it is there.
    mutating func add(_ name: HTTPField.Name, _ item: String) {
        let items = (self[name] ?? "").split(separator: ",").map { $0.filter { $0 != " " } }
        guard !items.contains(where: { $0.lowercased() == item.lowercased() }) else { return }
        self[name] = (items + [item]).joined(separator: ", ")
    }
}

/// Packs what is written, in steps. A stream's pieces can each be unpacked when they arrive.
///
/// Long pieces of all answers take turns on one thread: packing takes as long as somebody wants, since the
/// client chooses the answer, and the threads of all requests would be busy with it.
private struct GzipWriter: ResponseBodyWriter {
    private static let packer = BlockingExecutor(label: "gzip", isSerial: true)

    var inner: any ResponseBodyWriter
    let isStream: Bool
    let deflater = Deflater()

    init(inner: any ResponseBodyWriter, isStream: Bool) {
        self.inner = inner
        self.isStream = isStream
    }

    mutating func write(_ buffer: ByteBuffer) async throws {
        var rest = buffer
        let (deflater, isLong) = (deflater, buffer.readableBytes > Limits.plainPackedBytes)
        while let step = rest.readSlice(length: min(rest.readableBytes, Limits.gzipStepBytes)),
            step.readableBytes > 0
        {
            let end: Deflater.End = isStream && rest.readableBytes == 0 ? .flush : .none
            let packed =
                isLong ? try await Self.packer.run { deflater.pack(step, end) } : deflater.pack(step, end)
            if packed.readableBytes > 0 { try await inner.write(packed) }
        }
    }

    consuming func finish(_ trailingHeaders: HTTPFields?) async throws {
        try await inner.write(deflater.pack(ByteBuffer(), .finish))
        try await inner.finish(trailingHeaders)
    }
}

/// Bodies that are packed once and sent often.
public enum Packed {
    /// The bytes in gzip.
    public static func gzip(_ bytes: ByteBuffer) -> ByteBuffer { Deflater().pack(bytes, .finish) }

    /// Returns whether the client takes gzip.
    public static func isTaken(by request: Request) -> Bool {
        Response.takesGzip(request.headers[.acceptEncoding])
    }
}
