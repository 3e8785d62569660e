import CRDT

/// A decoded value survives being encoded; ids are canonical.
@Sendable func fuzzCBOR(_ bytes: [UInt8]) {
    if let value = try? CBOR.decode(bytes) {
        let again = CBOR.encode(value)
        require((try? CBOR.decode(again)) == value, "a CBOR value does not survive its encoding")
        _ = JSONText.print(value)
    }
    guard let id = try? DocumentID(canonical: bytes) else { return }
    require(id.bytes == bytes, "an id is not canonical")
    require((try? DocumentID(id.value)) == id, "an id's value has another id")
    _ = id.description
}

/// A parsed value survives being printed.
@Sendable func fuzzJSON(_ bytes: [UInt8]) {
    guard let value = try? JSONText.parse(bytes) else { return }
    let text = JSONText.print(value)
    require((try? JSONText.parse(text)) == value, "a JSON value does not survive being printed")
    require((try? CBOR.decode(CBOR.encode(value))) == value, "a JSON value does not survive CBOR")
}
