/// Unpacks a gzip file (RFC 1952) piece by piece: DEFLATE blocks (RFC 1951), one or several members.
///
/// Memory stays bounded: the window of 32 KiB, one decoding table, and a piece of output.
struct Gunzip {
    /// The first two bytes of every gzip file.
    static let mark: [UInt8] = [0x1F, 0x8B]

    private enum State {
        case member, block
        case stored(remaining: Int)
        case packed(literals: DeflateTable, distances: DeflateTable)
        case trailer, end
    }

    private static let windowBytes = 32_768

    private var input: BitInput
    private var state = State.member
    private var isLastBlock = false
    /// The window, followed by output that `next` has not returned.
    private var output: [UInt8] = []
    /// Start of the output within `output`.
    private var start = 0
    private var sum = CRC32()
    private var memberBytes: UInt32 = 0
    private var hasMember = false

    /// - Parameter read: returns the next packed bytes; empty at the end.
    init(name: String, read: @escaping () throws -> [UInt8]) { input = BitInput(name: name, read: read) }

    /// The next unpacked bytes; empty at the end.
    /// - Throws: `CLI-0403` for damaged data.
    mutating func next() throws -> [UInt8] {
        while output.count - start < Limits.fileChunkBytes {
            if case .end = state { break }
            try step()
        }
        let piece = Array(output[start...])
        output.removeFirst(max(0, output.count - Self.windowBytes))
        start = output.count
        return piece
    }

    private mutating func step() throws {
        switch state {
        case .member: try beginMember()
        case .block: try beginBlock()
        case .stored(let remaining):
            let count = min(remaining, Limits.fileChunkBytes)
            for _ in 0..<count { emit(try input.byte()) }
            if remaining > count { state = .stored(remaining: remaining - count) } else { endBlock() }
        case .packed(let literals, let distances): try unpack(literals, distances)
        case .trailer: try endMember()
        case .end: break
        }
    }

    private mutating func emit(_ byte: UInt8) {
        output.append(byte)
        sum.add(byte)
        memberBytes &+= 1
    }

    private mutating func endBlock() { state = isLastBlock ? .trailer : .block }

    private mutating func beginMember() throws {
        // Some tools pad the file with zeros after its last member.
        var first = try input.byteOrEnd()
        while hasMember, first == 0 { first = try input.byteOrEnd() }
        guard let first else {
            guard hasMember else { throw input.damaged("it is empty") }
            state = .end
            return
        }
        guard first == Self.mark[0], try input.byte() == Self.mark[1], try input.byte() == 8 else {
            throw input.damaged("a member does not begin as one")
        }
        let flags = try input.byte()
        for _ in 0..<6 { _ = try input.byte() }
        if flags & 4 != 0 {
            let length = try input.bits(16)
            for _ in 0..<length { _ = try input.byte() }
        }
        for flag in [UInt8(8), 16] where flags & flag != 0 {
            while try input.byte() != 0 {}
        }
        if flags & 2 != 0 { _ = try input.bits(16) }
        (hasMember, sum, memberBytes, state) = (true, CRC32(), 0, .block)
    }

    private mutating func endMember() throws {
        input.dropToByte()
        let (low, high) = (try input.bits(16), try input.bits(16))
        guard UInt32(low) | UInt32(high) << 16 == sum.value else {
            throw input.damaged("its checksum is wrong")
        }
        let (sizeLow, sizeHigh) = (try input.bits(16), try input.bits(16))
        guard UInt32(sizeLow) | UInt32(sizeHigh) << 16 == memberBytes else {
            throw input.damaged("its length is wrong")
        }
        state = .member
    }

    private mutating func beginBlock() throws {
        isLastBlock = try input.bits(1) == 1
        switch try input.bits(2) {
        case 0:
            input.dropToByte()
            let (length, check) = (try input.bits(16), try input.bits(16))
            guard length == ~check & 0xFFFF else { throw input.damaged("a block has a wrong length") }
            state = .stored(remaining: length)
        case 1:
            let lengths = (0..<288).map { $0 < 144 ? 8 : $0 < 256 ? 9 : $0 < 280 ? 7 : 8 }
            state = .packed(
                literals: try table(lengths), distances: try table(Array(repeating: 5, count: 30)))
        case 2: state = try dynamicTables()
        default: throw input.damaged("a block of an unknown type")
        }
    }

    private func table(_ lengths: [Int]) throws -> DeflateTable {
        guard let table = DeflateTable(lengths) else { throw input.damaged("a code that is none") }
        return table
    }

    private mutating func dynamicTables() throws -> State {
        let literals = try input.bits(5) + 257
        let distances = try input.bits(5) + 1
        let order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]
        var codes = Array(repeating: 0, count: 19)
        for index in 0..<(try input.bits(4) + 4) { codes[order[index]] = try input.bits(3) }
        let code = try table(codes)
        var lengths: [Int] = []
        while lengths.count < literals + distances {
            let symbol = try input.symbol(code)
            switch symbol {
            case 0..<16: lengths.append(symbol)
            case 16:
                guard let last = lengths.last else { throw input.damaged("a code that is none") }
                lengths += Array(repeating: last, count: try input.bits(2) + 3)
            case 17: lengths += Array(repeating: 0, count: try input.bits(3) + 3)
            default: lengths += Array(repeating: 0, count: try input.bits(7) + 11)
            }
        }
        guard lengths.count == literals + distances else { throw input.damaged("a code that is none") }
        return .packed(
            literals: try table(Array(lengths[..<literals])),
            distances: try table(Array(lengths[literals...])))
    }

    private static let lengthBase = [
        3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163,
        195,
        227, 258,
    ]
    private static let lengthBits = [
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
    ]
    private static let distanceBase = [
        1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073,
        4097, 6145, 8193, 12289, 16385, 24577,
    ]

    private mutating func unpack(_ literals: DeflateTable, _ distances: DeflateTable) throws {
        while output.count - start < Limits.fileChunkBytes {
            let symbol = try input.symbol(literals)
            guard symbol != 256 else {
                endBlock()
                return
            }
            guard symbol > 256 else {
                emit(UInt8(symbol))
                continue
            }
            guard symbol - 257 < Self.lengthBase.count else { throw input.damaged("an unknown length") }
            let length = Self.lengthBase[symbol - 257] + (try input.bits(Self.lengthBits[symbol - 257]))
            let code = try input.symbol(distances)
            guard code < Self.distanceBase.count else { throw input.damaged("an unknown distance") }
            let distance = Self.distanceBase[code] + (try input.bits(max(0, code / 2 - 1)))
            guard distance <= output.count, distance <= Int(memberBytes) || memberBytes >= Self.windowBytes
            else { throw input.damaged("a distance before its beginning") }
            for _ in 0..<length { emit(output[output.count - distance]) }
        }
    }
}

/// The codes of a DEFLATE alphabet: one look-up by as many bits as the longest code has.
struct DeflateTable {
    let bits: Int
    /// `symbol << 4 | length`; 0 where no code begins with these bits.
    let entries: [UInt16]

    /// Nil if the lengths, at most 15 each, are those of no prefix code.
    init?(_ lengths: [Int]) {
        let longest = lengths.max() ?? 0
        guard longest > 0 else {
            // A block without matches may have no distance code.
            (bits, entries) = (1, [0, 0])
            return
        }
        var count = Array(repeating: 0, count: longest + 1)
        for length in lengths where length > 0 { count[length] += 1 }
        var next = Array(repeating: 0, count: longest + 1)
        var code = 0
        for length in 1...longest {
            code = (code + count[length - 1]) << 1
            next[length] = code
            guard code + count[length] <= 1 << length else { return nil }
        }
        var table = Array(repeating: UInt16(0), count: 1 << longest)
        for (symbol, length) in lengths.enumerated() where length > 0 {
            var reversed = 0
            for bit in 0..<length where next[length] >> bit & 1 == 1 { reversed |= 1 << (length - 1 - bit) }
            next[length] += 1
            for index in stride(from: reversed, to: table.count, by: 1 << length) {
                table[index] = UInt16(symbol << 4 | length)
            }
        }
        (bits, entries) = (longest, table)
    }
}

/// The bits of the packed bytes, lowest first.
private struct BitInput {
    let name: String
    let read: () throws -> [UInt8]
    private var chunk: [UInt8] = []
    private var place = 0
    private var isAtEnd = false
    private var held: UInt64 = 0
    private var count = 0

    init(name: String, read: @escaping () throws -> [UInt8]) {
        self.name = name
        self.read = read
    }

    func damaged(_ what: String) -> MimeoError {
        MimeoError(.fileMalformed, "\(name): the gzip data is damaged or cut off: \(what)")
    }

    mutating func byte() throws -> UInt8 { UInt8(try bits(8)) }

    mutating func byteOrEnd() throws -> UInt8? {
        dropToByte()
        try fill(8)
        return count >= 8 ? try byte() : nil
    }

    mutating func dropToByte() {
        held >>= UInt64(count % 8)
        count -= count % 8
    }

    mutating func bits(_ wanted: Int) throws -> Int {
        try fill(wanted)
        guard count >= wanted else { throw damaged("it ends too early") }
        defer {
            held >>= UInt64(wanted)
            count -= wanted
        }
        return Int(held & (1 << UInt64(wanted) - 1))
    }

    mutating func symbol(_ table: DeflateTable) throws -> Int {
        try fill(table.bits)
        let entry = table.entries[Int(held & (1 << UInt64(table.bits) - 1))]
        let length = Int(entry & 15)
        guard length > 0, length <= count else { throw damaged("an unknown code") }
        held >>= UInt64(length)
        count -= length
        return Int(entry >> 4)
    }

    /// Holds so many bits, or those that there are.
    private mutating func fill(_ wanted: Int) throws {
        while count < wanted, !isAtEnd {
            if place == chunk.count {
                (chunk, place) = (try read(), 0)
                guard !chunk.isEmpty else {
                    isAtEnd = true
                    return
                }
            }
            held |= UInt64(chunk[place]) << UInt64(count)
            place += 1
            count += 8
        }
    }
}

/// The checksum of gzip.
private struct CRC32 {
    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { sum, _ in sum & 1 == 1 ? sum >> 1 ^ 0xEDB8_8320 : sum >> 1 }
    }

    private var state = UInt32.max
    var value: UInt32 { ~state }

    mutating func add(_ byte: UInt8) { state = Self.table[Int((state ^ UInt32(byte)) & 0xFF)] ^ state >> 8 }
}
