/// A list of optional values in the encoding of documents. Values read back exactly as a document holds
/// them: objects in the order of their keys' bytes, and nested as deep as in a document.
public enum ValueList {
    /// The first byte. No other encoding that was ever stored in the same place begins with it.
    public static let version: UInt8 = 1

    /// The version, then for each element a byte (1 for a value, 0 for nil) and the value.
    public static func encode(_ values: [Value?]) -> [UInt8] {
        var writer = ByteWriter()
        writer.byte(version)
        for value in values {
            writer.byte(value == nil ? 0 : 1)
            if let value { writer.value(value) }
        }
        return writer.bytes
    }

    /// Decodes the bytes of `encode`. Throws `unsupportedVersion`, `truncated`, `malformed` and the errors
    /// of values.
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
