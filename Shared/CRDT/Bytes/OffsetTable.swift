/// A MAP's table of offsets while the fields after it are being written.
struct OffsetTable {
    /// The place of the byte with the width.
    fileprivate let start: Int
    /// The place of the first field, while an offset takes two bytes.
    fileprivate let first: Int
    fileprivate let count: Int
    fileprivate var placed = 0
    /// Offsets that do not fit two bytes; they come last.
    fileprivate var far: [Int] = []
}

extension ByteWriter {
    /// Leaves room for `count` offsets of two bytes, which is nearly always enough.
    mutating func beginOffsets(_ count: Int) -> OffsetTable {
        let start = bytes.count
        byte(2)
        zeros(2 * count)
        return OffsetTable(start: start, first: bytes.count, count: count)
    }

    /// Notes that the next field begins at the present end.
    mutating func place(_ table: inout OffsetTable) {
        let offset = bytes.count - table.first
        if offset <= 0xFFFF {
            put(UInt16(offset), at: table.start + 1 + 2 * table.placed)
        } else {
            table.far.append(offset)
        }
        table.placed += 1
    }

    /// Ends the table after the last field; widens it when the fields take more than 65,535 bytes.
    mutating func endOffsets(_ table: OffsetTable) {
        guard bytes.count - table.first > 0xFFFF else { return }
        var wide = ByteWriter()
        wide.byte(4)
        for index in 0..<table.count - table.far.count {
            let place = table.start + 1 + 2 * index
            wide.fixed(Int(bytes[place]) << 8 | Int(bytes[place + 1]), width: 4)
        }
        for offset in table.far { wide.fixed(offset, width: 4) }
        replace(table.start..<table.first, with: wide.bytes)
    }
}
