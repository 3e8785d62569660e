/// Does the work of `ByteWriter` in memory that is used again, for encodings that are written very often.
/// The last owner must call `deallocate`.
struct ByteScratch {
    private var start = UnsafeMutablePointer<UInt8>.allocate(capacity: 1_024)
    private var capacity = 1_024
    private(set) var count = 0

    /// A copy of the bytes written.
    var copy: [UInt8] { [UInt8](UnsafeBufferPointer(start: start, count: count)) }

    func deallocate() { start.deallocate() }

    mutating func clear() { count = 0 }

    @inline(__always)
    private mutating func reserve(_ more: Int) { if count + more > capacity { grow(more) } }

    @inline(never)
    private mutating func grow(_ more: Int) {
        capacity = max(2 * capacity, count + more)
        let wider = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
        wider.update(from: start, count: count)
        start.deallocate()
        start = wider
    }

    @inline(__always)
    mutating func byte(_ value: UInt8) {
        reserve(1)
        start[count] = value
        count += 1
    }

    mutating func fixed64(_ value: UInt64) {
        reserve(8)
        UnsafeMutableRawPointer(start + count).storeBytes(of: value.bigEndian, as: UInt64.self)
        count += 8
    }

    @inline(__always)
    mutating func varint(_ value: UInt64) {
        reserve(10)
        var rest = value
        while rest >= 0x80 {
            start[count] = UInt8(truncatingIfNeeded: rest) | 0x80
            count += 1
            rest >>= 7
        }
        start[count] = UInt8(rest)
        count += 1
    }

    @inline(__always)
    mutating func raw(_ run: UnsafeBufferPointer<UInt8>) {
        guard let source = run.baseAddress else { return }
        reserve(run.count)
        (start + count).update(from: source, count: run.count)
        count += run.count
    }

    mutating func raw(_ run: [UInt8]) { run.withUnsafeBufferPointer { raw($0) } }

    /// A part of a run.
    @inline(__always)
    mutating func raw(_ run: [UInt8], from first: Int, to end: Int) {
        run.withUnsafeBufferPointer { raw(UnsafeBufferPointer(rebasing: $0[first..<end])) }
    }

    private mutating func utf8(_ text: String) {
        let inPlace: Void? = text.utf8.withContiguousStorageIfAvailable { raw($0) }
        if inPlace == nil { raw(Array(text.utf8)) }
    }

    /// As `ByteWriter.value`.
    mutating func value(_ value: Value) {
        switch value {
        case .null: byte(0x00)
        case .bool(let flag): byte(flag ? 0x02 : 0x01)
        case .int(let number):
            if (0..<128).contains(number) {
                byte(0x80 | UInt8(number))
            } else {
                byte(0x03)
                varint(UInt64(bitPattern: (number << 1) ^ (number >> 63)))
            }
        case .double(let number):
            byte(0x04)
            fixed64(number.isNaN ? Double.nan.bitPattern : number.bitPattern)
        case .string(let text):
            let length = text.utf8.count
            if length < 64 {
                byte(0x40 | UInt8(length))
            } else {
                byte(0x05)
                varint(UInt64(length))
            }
            utf8(text)
        case .binary(let run):
            byte(0x06)
            varint(UInt64(run.count))
            raw(run)
        case .array(let elements):
            byte(0x07)
            let start = beginSized()
            varint(UInt64(elements.count))
            for element in elements { self.value(element) }
            endSized(start)
        case .object(let object):
            byte(0x08)
            let start = beginSized()
            varint(UInt64(object.count))
            for entry in object.sorted {
                varint(UInt64(entry.key.utf8.count))
                utf8(entry.key)
                self.value(entry.value)
            }
            endSized(start)
        }
    }

    /// Leaves room for the length of the bytes that are written until `endSized`; returns their first place.
    mutating func beginSized() -> Int {
        byte(0)
        return count
    }

    /// Writes the length of the bytes written since `beginSized` before them.
    mutating func endSized(_ first: Int) {
        let length = count - first
        guard length >= 0x80 else {
            start[first - 1] = UInt8(length)
            return
        }
        let bytes = ByteWriter.varintLength(UInt64(length))
        let end = count
        insert(bytes - 1, at: first)
        count = first - 1
        varint(UInt64(length))
        count = end + bytes - 1
    }

    /// Makes room for `more` bytes at a place.
    private mutating func insert(_ more: Int, at place: Int) {
        reserve(more)
        (start + place + more).update(from: start + place, count: count - place)
        count += more
    }

    /// A MAP's table of offsets while the fields after it are being written; see `OffsetTable`.
    struct Offsets {
        fileprivate let first: Int
        fileprivate let number: Int
        fileprivate var placed = 0
        fileprivate var far: [Int] = []
    }

    /// Leaves room for `number` offsets of two bytes, which is nearly always enough.
    mutating func beginOffsets(_ number: Int) -> Offsets {
        byte(2)
        reserve(2 * number)
        count += 2 * number
        return Offsets(first: count, number: number)
    }

    /// Notes that the next field begins at the present end.
    @inline(__always)
    mutating func place(_ table: inout Offsets) {
        let offset = count - table.first
        if offset <= 0xFFFF {
            let place = table.first - 2 * (table.number - table.placed)
            start[place] = UInt8(truncatingIfNeeded: offset >> 8)
            start[place + 1] = UInt8(truncatingIfNeeded: offset)
        } else {
            table.far.append(offset)
        }
        table.placed += 1
    }

    /// Ends the table after the last field; widens it when the fields take more than 65,535 bytes.
    mutating func endOffsets(_ table: Offsets) {
        guard count - table.first > 0xFFFF else { return }
        let near = table.number - table.far.count
        var wide = ByteWriter()
        for index in 0..<near {
            let place = table.first - 2 * (table.number - index)
            wide.fixed(Int(start[place]) << 8 | Int(start[place + 1]), width: 4)
        }
        for offset in table.far { wide.fixed(offset, width: 4) }
        insert(2 * table.number, at: table.first)
        let begin = table.first - 2 * table.number
        start[begin - 1] = 4
        for (index, byte) in wide.bytes.enumerated() { start[begin + index] = byte }
    }
}
