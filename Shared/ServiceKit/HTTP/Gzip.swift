import CZlib
import NIOCore

/// Unpacks gzip (RFC 1952) step by step: one member or several. A small input can have a huge output, so each
/// step is at most `Limits.gzipStepBytes`.
///
/// Safe although unchecked: one reader owns it and calls it from one task at a time.
final class Inflater: @unchecked Sendable {
    /// The input is no gzip, or ends too early.
    struct Malformed: Error {}

    private let stream: UnsafeMutablePointer<z_stream>
    private var input = ByteBuffer()
    private var isWithinMember = false
    private var hasMember = false

    init() {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        // 16 more than the largest window: gzip, and not zlib's own form.
        let result = inflateInit2_(
            stream, MAX_WBITS + 16, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        precondition(result == Z_OK, "zlib cannot begin: \(result)")
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Adds input; the one before must be used up (`next` has returned nil).
    func feed(_ bytes: ByteBuffer) { input = bytes }

    /// The next bytes of the output, or nil when there is no more input.
    func next() throws(Malformed) -> ByteBuffer? {
        while input.readableBytes > 0 {
            if hasMember, !isWithinMember, input.getInteger(at: input.readerIndex, as: UInt8.self) == 0 {
                // Some tools pad a file with zeros after its last member.
                input.moveReaderIndex(forwardBy: 1)
                continue
            }
            var output = ByteBuffer()
            var result = Z_OK
            let (stream, step) = (stream, Limits.gzipStepBytes)
            input.readWithUnsafeMutableReadableBytes { from in
                stream.pointee.next_in = from.baseAddress?.assumingMemoryBound(to: UInt8.self)
                stream.pointee.avail_in = UInt32(from.count)
                output.writeWithUnsafeMutableBytes(minimumWritableBytes: step) { to in
                    stream.pointee.next_out = to.baseAddress?.assumingMemoryBound(to: UInt8.self)
                    stream.pointee.avail_out = UInt32(step)
                    result = inflate(stream, Z_NO_FLUSH)
                    return step - Int(stream.pointee.avail_out)
                }
                return from.count - Int(stream.pointee.avail_in)
            }
            isWithinMember = result != Z_STREAM_END
            switch result {
            case Z_OK, Z_BUF_ERROR: break
            case Z_STREAM_END:
                hasMember = true
                inflateReset(stream)
            default: throw Malformed()
            }
            if output.readableBytes > 0 { return output }
        }
        return nil
    }

    /// - Throws: `Malformed` if the input ended within a member.
    func finish() throws(Malformed) { if isWithinMember { throw Malformed() } }
}

/// Unpacks gzip that its owner reads piece by piece, such as a file. It holds a piece of the input and a step
/// of the output.
public struct GzipReader {
    /// The input is damaged, ends too early, or goes on with something that is no gzip.
    public struct Malformed: Error {}

    /// The first two bytes of every gzip file.
    public static let mark: [UInt8] = [0x1F, 0x8B]

    private let inflater = Inflater()
    private let read: () throws -> [UInt8]

    /// - Parameter read: returns the next packed bytes; empty at the end.
    public init(read: @escaping () throws -> [UInt8]) { self.read = read }

    /// The next unpacked bytes; empty at the end.
    /// - Throws: `Malformed`, and the errors of `read`.
    public func next() throws -> [UInt8] {
        while true {
            do throws(Inflater.Malformed) {
                if let piece = try inflater.next() { return Array(piece.readableBytesView) }
            } catch { throw Malformed() }
            let more = try read()
            guard more.isEmpty else {
                inflater.feed(ByteBuffer(bytes: more))
                continue
            }
            do throws(Inflater.Malformed) { try inflater.finish() } catch { throw Malformed() }
            return []
        }
    }
}

/// Packs with gzip step by step.
///
/// Safe although unchecked: one writer owns it and calls it from one task at a time.
final class Deflater: @unchecked Sendable {
    private let stream: UnsafeMutablePointer<z_stream>

    init() {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let memoryLevel: Int32 = 8
        let result = deflateInit2_(
            stream, Limits.gzipLevel, Z_DEFLATED, MAX_WBITS + 16, memoryLevel, Z_DEFAULT_STRATEGY,
            ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        precondition(result == Z_OK, "zlib cannot begin: \(result)")
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    enum End {
        /// More follows, which may be packed together with this.
        case none
        /// The other side can unpack all so far.
        case flush
        /// Nothing follows.
        case finish
    }

    /// Packs bytes; the answer may be empty while zlib gathers more.
    func pack(_ bytes: ByteBuffer, _ end: End) -> ByteBuffer {
        let mode =
            switch end {
            case .none: Z_NO_FLUSH
            case .flush: Z_SYNC_FLUSH
            case .finish: Z_FINISH
            }
        var input = bytes
        var output = ByteBuffer()
        input.readWithUnsafeMutableReadableBytes { from in
            stream.pointee.next_in = from.baseAddress?.assumingMemoryBound(to: UInt8.self)
            stream.pointee.avail_in = UInt32(from.count)
            var isFull = true
            while isFull {
                let step = Limits.gzipStepBytes
                output.writeWithUnsafeMutableBytes(minimumWritableBytes: step) { to in
                    stream.pointee.next_out = to.baseAddress?.assumingMemoryBound(to: UInt8.self)
                    stream.pointee.avail_out = UInt32(step)
                    deflate(stream, mode)
                    return step - Int(stream.pointee.avail_out)
                }
                isFull = stream.pointee.avail_out == 0
            }
            return from.count
        }
        return output
    }
}
