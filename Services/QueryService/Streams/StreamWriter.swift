import CRDT
import HTTPTypes
import Hummingbird
import NIOCore
import ServiceKit

/// The two forms of a stream: JSON values a line, or Server-Sent Events.
enum StreamFormat: Sendable {
    case lines
    case events

    static let types = ["application/x-ndjson", "text/event-stream"]

    /// The form that `Accept` asks for; `preferred` without a word about it.
    /// - Throws: `SRV-0406`.
    init(_ request: Request, preferred: StreamFormat) throws(ServiceError) {
        guard let accept = request.headers[.accept] else {
            self = preferred
            return
        }
        let offered: [(String, StreamFormat)] =
            preferred == .lines
            ? [(Self.types[0], .lines), (Self.types[1], .events)]
            : [(Self.types[1], .events), (Self.types[0], .lines)]
        guard let best = MediaTypes(accept).best(of: offered.map(\.0)),
            let found = offered.first(where: { $0.0 == best })
        else { throw ServiceError(.notAcceptable, "a stream is \(Self.types.joined(separator: " or "))") }
        self = found.1
    }

    var type: String { self == .lines ? Self.types[0] : Self.types[1] }
}

/// Writes a stream. A client that reads nothing for some time is cut off, and the write fails.
struct StreamWriter {
    let format: StreamFormat
    private let context: ServiceContext
    private var writer: any ResponseBodyWriter
    private var buffer = ByteBuffer()
    private var lastWrite = ContinuousClock.now

    init(_ format: StreamFormat, _ context: ServiceContext, _ writer: any ResponseBodyWriter) {
        self.format = format
        self.context = context
        self.writer = writer
    }

    /// The answer of a stream. No cache keeps it, and no proxy gathers or packs it.
    /// - Parameter staysOpen: false for one that ends soon by itself, and so may be packed.
    static func response(
        _ format: StreamFormat, headers: HTTPFields = [:], staysOpen: Bool = true, _ context: ServiceContext,
        _ body: @escaping @Sendable (inout StreamWriter) async throws -> Void
    ) -> Response {
        var headers = headers
        headers[.contentType] = format == .events ? "\(format.type); charset=utf-8" : format.type
        headers[.cacheControl] = staysOpen ? "no-store, no-transform" : "no-store"
        if let name = HTTPField.Name("X-Accel-Buffering") { headers[name] = "no" }
        return Response(
            status: .ok, headers: headers,
            body: ResponseBody { writer in
                var stream = StreamWriter(format, context, writer)
                try await body(&stream)
                try await stream.flush()
                try await stream.writer.finish(nil)
            })
    }

    /// Adds a value, as a line, or as an event with a name and an id. Written when enough has gathered.
    mutating func add(_ value: Value, event: String, id: Offset? = nil) async throws {
        try await add(json: JSONText.print(value), event: event, id: id)
    }

    /// The same with the value's JSON text, which has no line breaks.
    mutating func add(json: String, event: String, id: Offset? = nil) async throws {
        switch format {
        case .lines:
            buffer.writeString(json)
            buffer.writeString("\n")
        case .events:
            buffer.writeString("event: \(event)\n")
            if let id { buffer.writeString("id: \(id)\n") }
            buffer.writeString("data: ")
            buffer.writeString(json)
            buffer.writeString("\n\n")
        }
        if buffer.readableBytes >= Limits.writeBytes { try await flush() }
    }

    /// Adds events that are encoded already.
    mutating func add(encoded: ByteBuffer) async throws {
        var encoded = encoded
        buffer.writeBuffer(&encoded)
        if buffer.readableBytes >= Limits.writeBytes { try await flush() }
    }

    /// Writes all that was added.
    mutating func flush() async throws {
        guard buffer.readableBytes > 0 else { return }
        let full = buffer
        buffer = ByteBuffer()
        var writer = writer
        try await context.writing { try await writer.write(full) }
        self.writer = writer
        lastWrite = .now
    }

    /// Writes a sign of life if nothing was written for some time: a comment, or an empty line.
    mutating func beAlive() async throws {
        try await flush()
        guard ContinuousClock.now - lastWrite >= Limits.aliveInterval else { return }
        buffer.writeString(format == .events ? ": alive\n\n" : "\n")
        try await flush()
    }
}
