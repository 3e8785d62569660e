// Strings by their UTF-8 bytes.
//
// Swift's own `==` and `<` treat canonically equivalent texts as equal ("é" in one or two code points).
// Replicas must not: two keys that differ in bytes are two keys, on every machine and in every language
// that reads our bytes.

/// Whether two strings hold the same bytes.
public func utf8Equal(_ left: String, _ right: String) -> Bool {
    compareUTF8(left, right) == 0
}

/// Whether the left string's bytes come before the right's.
public func utf8Precedes(_ left: String, _ right: String) -> Bool {
    compareUTF8(left, right) < 0
}

/// Negative, zero or positive as the left string's bytes sort before, equal or after the right's; a prefix
/// sorts first.
public func compareUTF8(_ left: String, _ right: String) -> Int {
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
public func compareBytes(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Int {
    let common = min(left.count, right.count)
    var index = 0
    // Eight at a time: a word read as big-endian compares like its bytes.
    while index + 8 <= common {
        let one = left.loadUnaligned(fromByteOffset: index, as: UInt64.self)
        let other = right.loadUnaligned(fromByteOffset: index, as: UInt64.self)
        if one != other { return UInt64(bigEndian: one) < UInt64(bigEndian: other) ? -1 : 1 }
        index += 8
    }
    while index < common {
        if left[index] != right[index] { return Int(left[index]) - Int(right[index]) }
        index += 1
    }
    return left.count - right.count
}

/// Lexicographic order of two byte arrays; a prefix sorts first.
public func compareBytes(_ left: [UInt8], _ right: [UInt8]) -> Int {
    left.withUnsafeBytes { first in right.withUnsafeBytes { second in compareBytes(first, second) } }
}
