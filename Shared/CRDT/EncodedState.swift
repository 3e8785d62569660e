/// The encoding of a document's full state, as `Document.encoded` gives it: what stores hold and sessions
/// carry. Equality is that of the bytes. The type promises nothing about them: decoding checks.
public struct EncodedState: Hashable, Sendable {
    /// The encoding.
    public let bytes: [UInt8]
    /// A state of these bytes.
    public init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The number of bytes.
    public var count: Int { bytes.count }

    /// Hands out the bytes in place, valid during the call. Inlined, since readers ask for it per document.
    @inlinable
    public func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try bytes.withUnsafeBufferPointer { (buffer) throws(Failure) in
            try body(UnsafeRawBufferPointer(buffer))
        }
    }
}

extension EncodedState {
    /// Hashes the bytes in one go; the synthesized version would feed them one by one.
    public func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }
}

extension EncodedState: ExpressibleByArrayLiteral {
    /// A state of the bytes in the literal.
    public init(arrayLiteral bytes: UInt8...) { self.bytes = bytes }
}
