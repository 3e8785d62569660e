/// Several values that may be missing, in the encoding of documents: so that they come back exactly as a
/// document has them, objects in the order of their keys' bytes, and as deep as a document goes.
public enum ValueList {
    /// The first byte; no other encoding that ever stood in its place begins with it.
    public static let version: UInt8 = 1

    /// The version, then each value behind a byte that says whether there is one.
    public static func encode(_ values: [Value?]) -> [UInt8] {
        var writer = ByteWriter()
        writer.byte(version)
        for value in values {
            writer.byte(value == nil ? 0 : 1)
            if let value { writer.value(value) }
        }
        return writer.bytes
    }

    /// Throws for what `encode` does not give.
    public static func decode(_ bytes: UnsafeRawBufferPointer) throws(CRDTError) -> [Value?] {
        var reader = ByteReader(bytes)
        guard try reader.byte() == version else {
            throw CRDTError(.unsupportedVersion, "an encoding of values is not known here")
        }
        var values: [Value?] = []
        while !reader.isAtEnd {
            switch try reader.byte() {
            case 0: values.append(nil)
            case 1: values.append(try reader.value(depth: 0))
            default: throw .malformed("a value is neither there nor missing", at: reader.place)
            }
        }
        return values
    }
}
