// Strings by their UTF-8 bytes.
//
// Swift's own `==` and `<` treat canonically equivalent texts as equal ("é" in one or two code points).
// Replicas must not: two keys with different bytes are two keys, on every machine and in every language that
// reads our bytes.

/// Returns whether two strings have the same bytes.
public func utf8Equal(_ left: String, _ right: String) -> Bool {
    if isSameRepresentation(left, right) { return true }
    return left.utf8.count == right.utf8.count && compareUTF8(left, right) == 0
}

/// Returns whether the left string's bytes sort before the right's.
public func utf8Precedes(_ left: String, _ right: String) -> Bool {
    compareUTF8(left, right) < 0
}

/// True if two strings are the same short text or share their storage, so that their bytes are the same.
/// False does not mean that they differ.
@inline(__always)
private func isSameRepresentation(_ left: String, _ right: String) -> Bool {
    typealias Bits = (UInt64, UInt64)
    guard MemoryLayout<String>.size == MemoryLayout<Bits>.size else { return false }
    return unsafeBitCast(left, to: Bits.self) == unsafeBitCast(right, to: Bits.self)
}

/// Hashes a string's bytes, as `utf8Equal` compares them.
@inline(__always)
func hashUTF8(_ text: String, into hasher: inout Hasher) {
    let inPlace: Void? = text.utf8.withContiguousStorageIfAvailable {
        hasher.combine(bytes: UnsafeRawBufferPointer($0))
    }
    guard inPlace == nil else { return }
    var copy = text
    copy.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
}

/// Negative, zero or positive as the left string's bytes sort before, equal or after the right's; a prefix
/// sorts first.
public func compareUTF8(_ left: String, _ right: String) -> Int {
    if isSameRepresentation(left, right) { return 0 }
    let fast = left.utf8.withContiguousStorageIfAvailable { first in
        right.utf8.withContiguousStorageIfAvailable { second in
            compareBytes(UnsafeRawBufferPointer(first), UnsafeRawBufferPointer(second))
        }
    }
    if let fast, let result = fast { return result }
    var first = left.utf8.makeIterator()
    var second = right.utf8.makeIterator()
    while true {
        switch (first.next(), second.next()) {
        case (nil, nil): return 0
        case (nil, _): return -1
        case (_, nil): return 1
        case (let a?, let b?) where a != b: return Int(a) - Int(b)
        default: continue
        }
    }
}

/// Lexicographic order of two byte runs; a prefix sorts first.
@inline(__always)
public func compareBytes(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Int {
    let common = min(left.count, right.count)
    var place = 0
    // Eight bytes at a time, read as big-endian so that the first byte counts most.
    while place + 8 <= common {
        let one = UInt64(bigEndian: left.loadUnaligned(fromByteOffset: place, as: UInt64.self))
        let two = UInt64(bigEndian: right.loadUnaligned(fromByteOffset: place, as: UInt64.self))
        if one != two { return one < two ? -1 : 1 }
        place += 8
    }
    while place < common {
        if left[place] != right[place] { return Int(left[place]) - Int(right[place]) }
        place += 1
    }
    return left.count - right.count
}

/// Lexicographic order of two byte arrays; a prefix sorts first.
public func compareBytes(_ left: [UInt8], _ right: [UInt8]) -> Int {
    left.withUnsafeBytes { first in right.withUnsafeBytes { second in compareBytes(first, second) } }
}
