// XXH64 (public specification by Yann Collet): the chain hash of the log and the checksum of an operation.
// It detects accidents (a restored file, a flipped bit). It is no defence against a forger: a forger would
// own the log.

private let prime1: UInt64 = 0x9E37_79B1_85EB_CA87
private let prime2: UInt64 = 0xC2B2_AE3D_27D4_EB4F
private let prime3: UInt64 = 0x1656_67B1_9E37_79F9
private let prime4: UInt64 = 0x85EB_CA77_C2B2_AE63
private let prime5: UInt64 = 0x27D4_EB2F_1656_67C5

/// XXH64 of the bytes under a seed.
public func hash64(_ bytes: UnsafeRawBufferPointer, seed: UInt64 = 0) -> UInt64 {
    var place = 0
    var hash: UInt64
    if bytes.count >= 32 {
        var lanes = (seed &+ prime1 &+ prime2, seed &+ prime2, seed, seed &- prime1)
        while place + 32 <= bytes.count {
            lanes.0 = round(lanes.0, word(bytes, place))
            lanes.1 = round(lanes.1, word(bytes, place + 8))
            lanes.2 = round(lanes.2, word(bytes, place + 16))
            lanes.3 = round(lanes.3, word(bytes, place + 24))
            place += 32
        }
        hash = rotate(lanes.0, 1) &+ rotate(lanes.1, 7) &+ rotate(lanes.2, 12) &+ rotate(lanes.3, 18)
        for lane in [lanes.0, lanes.1, lanes.2, lanes.3] {
            hash = (hash ^ round(0, lane)) &* prime1 &+ prime4
        }
    } else {
        hash = seed &+ prime5
    }
    hash = hash &+ UInt64(bytes.count)
    return finish(hash, bytes, from: place)
}

/// XXH64 of a byte array under a seed.
public func hash64(_ bytes: [UInt8], seed: UInt64 = 0) -> UInt64 {
    bytes.withUnsafeBytes { hash64($0, seed: seed) }
}

private func finish(_ start: UInt64, _ bytes: UnsafeRawBufferPointer, from: Int) -> UInt64 {
    var hash = start
    var place = from
    while place + 8 <= bytes.count {
        hash = rotate(hash ^ round(0, word(bytes, place)), 27) &* prime1 &+ prime4
        place += 8
    }
    if place + 4 <= bytes.count {
        let half = UInt64(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt32.self)))
        hash = rotate(hash ^ (half &* prime1), 23) &* prime2 &+ prime3
        place += 4
    }
    while place < bytes.count {
        hash = rotate(hash ^ (UInt64(bytes[place]) &* prime5), 11) &* prime1
        place += 1
    }
    hash = (hash ^ (hash >> 33)) &* prime2
    hash = (hash ^ (hash >> 29)) &* prime3
    return hash ^ (hash >> 32)
}

private func word(_ bytes: UnsafeRawBufferPointer, _ place: Int) -> UInt64 {
    UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
}

private func round(_ lane: UInt64, _ input: UInt64) -> UInt64 {
    rotate(lane &+ input &* prime2, 31) &* prime1
}

private func rotate(_ value: UInt64, _ bits: UInt64) -> UInt64 {
    (value << bits) | (value >> (64 - bits))
}
