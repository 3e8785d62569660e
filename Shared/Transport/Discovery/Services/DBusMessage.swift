/// A value of those types of D-Bus that are in avahi's messages.
enum DBusValue: Sendable, Equatable {
    case byte(UInt8)
    case flag(Bool)
    case uint16(UInt16)
    case int32(Int32)
    case uint32(UInt32)
    case text(String)
    /// The path of an object.
    case path(String)
    case signature(String)
    /// An array of values of one type, which its signature names.
    case list(of: String, [DBusValue])

    /// An array of bytes.
    static func bytes(_ bytes: some Sequence<UInt8>) -> DBusValue { .list(of: "y", bytes.map { .byte($0) }) }

    /// The type's signature.
    var type: String {
        switch self {
        case .byte: "y"
        case .flag: "b"
        case .uint16: "q"
        case .int32: "i"
        case .uint32: "u"
        case .text: "s"
        case .path: "o"
        case .signature: "g"
        case .list(let element, _): "a" + element
        }
    }

    /// The text of a text or path; nil for others.
    var string: String? {
        switch self {
        case .text(let text), .path(let text): text
        default: nil
        }
    }

    /// The number of a signed integer; nil for others.
    var integer: Int32? { if case .int32(let number) = self { number } else { nil } }

    /// The bytes of an array of bytes; nil for others.
    var octets: [UInt8]? {
        guard case .list("y", let values) = self else { return nil }
        return values.compactMap { if case .byte(let byte) = $0 { byte } else { nil } }
    }

    /// The values of an array of arrays of bytes; nil for others.
    var octetLists: [[UInt8]]? {
        guard case .list("ay", let values) = self else { return nil }
        return values.compactMap(\.octets)
    }
}

/// A message of D-Bus, the bus over which avahi is asked. Only what that needs is here.
struct DBusMessage: Sendable, Equatable {
    enum Kind: UInt8, Sendable { case call = 1, reply, error, signal }

    var kind: Kind
    var serial: UInt32 = 0
    /// False for a call that wants no answer.
    var wantsReply = true
    var path: String?
    var interface: String?
    var member: String?
    var errorName: String?
    var replySerial: UInt32?
    var destination: String?
    var sender: String?
    var body: [DBusValue] = []

    private static let noReplyExpected: UInt8 = 1
    /// A service that does not run is not started for us.
    private static let noAutoStart: UInt8 = 2

    /// The bytes.
    var encoded: [UInt8] {
        var content = DBusWriter()
        for value in body { content.write(value) }
        var writer = DBusWriter()
        writer.bytes = [
            UInt8(ascii: "l"), kind.rawValue, (wantsReply ? 0 : Self.noReplyExpected) | Self.noAutoStart, 1,
        ]
        writer.write(.uint32(UInt32(content.bytes.count)))
        writer.write(.uint32(serial))
        var fields: [(UInt8, DBusValue)] = []
        if let path { fields.append((1, .path(path))) }
        if let interface { fields.append((2, .text(interface))) }
        if let member { fields.append((3, .text(member))) }
        if let errorName { fields.append((4, .text(errorName))) }
        if let replySerial { fields.append((5, .uint32(replySerial))) }
        if let destination { fields.append((6, .text(destination))) }
        if let sender { fields.append((7, .text(sender))) }
        if !body.isEmpty { fields.append((8, .signature(body.map(\.type).joined()))) }
        writer.array(alignment: 8) { writer in
            for (code, value) in fields {
                writer.align(8)
                writer.write(.byte(code))
                writer.write(.signature(value.type))
                writer.write(value)
            }
        }
        writer.align(8)
        return writer.bytes + content.bytes
    }

    /// Bytes by which the length of a message is known.
    static let prefixBytes = 16

    /// The length of the message that begins with `bytes`, of which `prefixBytes` are needed.
    /// - Returns: nil if it is no message, or longer than `Limits.busMessageBytes`.
    static func length(_ bytes: [UInt8]) -> Int? {
        guard bytes.count >= prefixBytes, let isBig = isBigEndian(bytes) else { return nil }
        var reader = DBusReader(bytes, isBigEndian: isBig, at: 4)
        guard let content = try? reader.number32() else { return nil }
        reader.place = 12
        guard let fields = try? reader.number32(), content <= UInt32(Limits.busMessageBytes),
            fields <= UInt32(Limits.busMessageBytes)
        else { return nil }
        let length = (prefixBytes + Int(fields) + 7) / 8 * 8 + Int(content)
        return length <= Limits.busMessageBytes ? length : nil
    }

    private static func isBigEndian(_ bytes: [UInt8]) -> Bool? {
        switch bytes.first {
        case UInt8(ascii: "l"): false
        case UInt8(ascii: "B"): true
        default: nil
        }
    }

    /// Reads a whole message; nil if it is none. A body with types that avahi does not use is empty.
    init?(decoding bytes: [UInt8]) {
        guard Self.length(bytes) == bytes.count, let isBig = Self.isBigEndian(bytes),
            let kind = Kind(rawValue: bytes[1])
        else { return nil }
        self.init(kind: kind)
        wantsReply = bytes[2] & Self.noReplyExpected == 0
        var reader = DBusReader(bytes, isBigEndian: isBig, at: 8)
        do {
            serial = try reader.number32()
            let end = try reader.number32() + UInt32(Self.prefixBytes)
            var signature = ""
            while reader.place < Int(end) {
                try reader.align(8)
                let code = try reader.byte()
                let type = try reader.signature()
                let value = try reader.value(of: type)
                switch (code, value) {
                case (1, .path(let text)): path = text
                case (2, .text(let text)): interface = text
                case (3, .text(let text)): member = text
                case (4, .text(let text)): errorName = text
                case (5, .uint32(let number)): replySerial = number
                case (6, .text(let text)): destination = text
                case (7, .text(let text)): sender = text
                case (8, .signature(let text)): signature = text
                default: break
                }
            }
            try reader.align(8)
            body = (try? reader.values(of: signature)) ?? []
        } catch {
            return nil
        }
    }

    init(kind: Kind) { self.kind = kind }
}

/// Writes values as D-Bus aligns them, the least byte first.
private struct DBusWriter {
    var bytes: [UInt8] = []

    mutating func align(_ count: Int) {
        while !bytes.count.isMultiple(of: count) { bytes.append(0) }
    }

    mutating func write(_ value: DBusValue) {
        switch value {
        case .byte(let byte): bytes.append(byte)
        case .flag(let flag): write(.uint32(flag ? 1 : 0))
        case .uint16(let number): append(number)
        case .int32(let number): append(UInt32(bitPattern: number))
        case .uint32(let number): append(number)
        case .text(let text), .path(let text):
            append(UInt32(text.utf8.count))
            bytes += Array(text.utf8) + [0]
        case .signature(let text): bytes += [UInt8(text.utf8.count)] + Array(text.utf8) + [0]
        case .list(let element, let values):
            array(alignment: DBusReader.alignment(of: element.utf8.first)) { writer in
                for value in values { writer.write(value) }
            }
        }
    }

    /// The length of an array does not count what aligns its first element.
    mutating func array(alignment: Int, _ content: (inout DBusWriter) -> Void) {
        append(UInt32(0))
        let place = bytes.count - 4
        align(alignment)
        let start = bytes.count
        content(&self)
        withUnsafeBytes(of: UInt32(bytes.count - start).littleEndian) {
            bytes.replaceSubrange(place..<place + 4, with: $0)
        }
    }

    private mutating func append<Number: FixedWidthInteger>(_ number: Number) {
        align(MemoryLayout<Number>.size)
        withUnsafeBytes(of: number.littleEndian) { bytes += Array($0) }
    }
}

/// Reads values of untrusted bytes, within their bounds.
private struct DBusReader {
    struct Malformed: Error {}

    private let bytes: [UInt8]
    private let isBigEndian: Bool
    var place: Int

    init(_ bytes: [UInt8], isBigEndian: Bool, at place: Int) {
        self.bytes = bytes
        self.isBigEndian = isBigEndian
        self.place = place
    }

    static func alignment(of type: UInt8?) -> Int {
        switch type {
        case UInt8(ascii: "y"), UInt8(ascii: "g"): 1
        case UInt8(ascii: "q"): 2
        default: 4
        }
    }

    mutating func align(_ count: Int) throws {
        place = (place + count - 1) / count * count
        if place > bytes.count { throw Malformed() }
    }

    mutating func byte() throws -> UInt8 {
        guard place < bytes.count else { throw Malformed() }
        place += 1
        return bytes[place - 1]
    }

    private mutating func take(_ count: Int) throws -> ArraySlice<UInt8> {
        guard count >= 0, count <= bytes.count - place else { throw Malformed() }
        place += count
        return bytes[place - count..<place]
    }

    mutating func number32() throws -> UInt32 {
        try align(4)
        return UInt32(number(try take(4)))
    }

    private func number(_ taken: ArraySlice<UInt8>) -> UInt64 {
        (isBigEndian ? Array(taken) : taken.reversed()).reduce(0) { $0 << 8 | UInt64($1) }
    }

    private mutating func text(_ count: Int) throws -> String {
        guard let text = String(validating: try take(count), as: UTF8.self), try byte() == 0 else {
            throw Malformed()
        }
        return text
    }

    mutating func signature() throws -> String { try text(Int(try byte())) }

    /// Values of the types of a signature.
    mutating func values(of signature: String) throws -> [DBusValue] {
        var rest = Array(signature.utf8)[...]
        var values: [DBusValue] = []
        while !rest.isEmpty { values.append(try value(&rest)) }
        return values
    }

    mutating func value(of type: String) throws -> DBusValue {
        var rest = Array(type.utf8)[...]
        let value = try value(&rest)
        guard rest.isEmpty else { throw Malformed() }
        return value
    }

    private mutating func value(_ types: inout ArraySlice<UInt8>) throws -> DBusValue {
        switch types.popFirst() {
        case UInt8(ascii: "y"): return .byte(try byte())
        case UInt8(ascii: "b"): return .flag(try number32() != 0)
        case UInt8(ascii: "q"):
            try align(2)
            return .uint16(UInt16(number(try take(2))))
        case UInt8(ascii: "i"): return .int32(Int32(bitPattern: try number32()))
        case UInt8(ascii: "u"): return .uint32(try number32())
        case UInt8(ascii: "s"): return .text(try text(Int(try number32())))
        case UInt8(ascii: "o"): return .path(try text(Int(try number32())))
        case UInt8(ascii: "g"): return .signature(try signature())
        case UInt8(ascii: "a"): return try list(&types)
        default: throw Malformed()
        }
    }

    /// An array; at most one of arrays, so that no message makes this call itself deeply.
    private mutating func list(_ types: inout ArraySlice<UInt8>) throws -> DBusValue {
        let count = Int(try number32())
        let element = Array(types.prefix(types.first == UInt8(ascii: "a") ? 2 : 1))
        guard let first = element.first, element.last != UInt8(ascii: "a") else { throw Malformed() }
        types = types.dropFirst(element.count)
        try align(Self.alignment(of: first))
        guard count <= bytes.count - place else { throw Malformed() }
        let end = place + count
        var values: [DBusValue] = []
        while place < end {
            var type = element[...]
            values.append(try value(&type))
        }
        guard place == end else { throw Malformed() }
        return .list(of: String(decoding: element, as: UTF8.self), values)
    }
}
