import CRDT

/// The keys of an index as catalogs store them: an array of paths, directions, and whether documents without
/// the field are in it.
public enum KeyForm {
    /// The stored form.
    public static func encode(_ keys: [IndexDescription.Key]) -> [UInt8] {
        CBOR.encode(
            .array(
                keys.map { key in
                    .array([
                        .array(key.path.map { .string($0) }), .bool(key.isDescending),
                        .bool(key.includesMissing),
                    ])
                }))
    }

    /// The keys of a stored form; nil if it is damaged.
    public static func decode(_ bytes: [UInt8]) -> [IndexDescription.Key]? {
        let keys = (try? CBOR.decode(bytes))?.arrayValue ?? []
        let decoded = keys.compactMap { key -> IndexDescription.Key? in
            guard let parts = key.arrayValue, parts.count == 3,
                let path = parts[0].arrayValue?.compactMap(\.stringValue), !path.isEmpty,
                let isDescending = parts[1].boolValue, let includesMissing = parts[2].boolValue
            else { return nil }
            return IndexDescription.Key(
                path: path, isDescending: isDescending, includesMissing: includesMissing)
        }
        return keys.isEmpty || decoded.count != keys.count ? nil : decoded
    }
}
