import CRDT
import Testing

@Suite("XXH64")
struct Hash64Tests {
    /// Length, hash under seed 0, hash under seed 0x9E3779B1; the bytes are (31 i + 7) mod 256. Computed with
    /// the reference implementation (xxHash 0.8 through Python's `xxhash`).
    static let reference: [(Int, UInt64, UInt64)] = [
        (0, 0xEF46_DB37_51D8_E999, 0xAC75_FDA2_929B_17EF), (1, 0xA96C_7F0C_E858_BBB7, 0x84E5_35B3_6672_440D),
        (3, 0x56E6_9576_32A4_87F9, 0xD095_A923_9060_F0A3), (4, 0xC60D_15B1_E3FF_8F04, 0xD4E4_B946_FB0B_FBB4),
        (7, 0xAFBE_FC3D_6C6F_9A8E, 0x3838_6302_628C_52DC), (8, 0x3DA5_C7AA_2696_83E0, 0x3748_218F_9083_D1C1),
        (15, 0xAE2A_37EB_9357_CAA7, 0x283D_EB48_9DF9_2BE1),
        (31, 0x4A74_F3A1_A39A_D4A1, 0xB806_F858_C847_89EA),
        (32, 0x8D57_D6A4_671C_C43D, 0x8EF2_E38D_DE10_F162),
        (33, 0x62C9_FD21_ED85_7664, 0x5A65_3650_552F_822C),
        (63, 0x5C32_0A0D_2707_057F, 0xCDEC_73BB_CCFD_2D50),
        (64, 0x7BBA_BBC4_5729_D17E, 0x861F_D034_D84D_AB20),
        (100, 0xEFA0_AD2D_3E70_C151, 0x4AC1_3414_471C_7284),
        (200, 0x95D9_A0C9_77B4_B6FB, 0x8275_004B_2897_9CFE),
    ]

    @Test("hashes are those of the reference implementation", arguments: reference)
    func vectors(_ length: Int, _ plain: UInt64, _ seeded: UInt64) {
        let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 * 31 + 7) }
        #expect(hash64(bytes) == plain)
        #expect(hash64(bytes, seed: 0x9E37_79B1) == seeded)
    }

    @Test("known texts hash to their published values, wherever the bytes begin")
    func texts() {
        #expect(hash64(Array("a".utf8)) == 0xD24E_C4F1_A98C_6E5B)
        #expect(hash64(Array("abc".utf8)) == 0x44BC_2CF5_AD77_0999)
        let shifted = Array("xabc".utf8)
        let hash = shifted.withUnsafeBytes { hash64(UnsafeRawBufferPointer(rebasing: $0[1...])) }
        #expect(hash == 0x44BC_2CF5_AD77_0999)
    }
}
