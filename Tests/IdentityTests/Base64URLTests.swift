import Identity
import Testing

@Suite("Base64 for URLs")
struct Base64URLTests {
    @Test("bytes of every length come back, and RFC 4648's examples read as there")
    func roundTrip() {
        for (text, encoded) in [
            ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
        ] {
            #expect(Base64URL.encode(text.utf8) == encoded)
            #expect(Base64URL.decode(encoded) == Array(text.utf8))
        }
        #expect(Base64URL.encode([0xFB, 0xFF, 0xBE]) == "-_--")
        for count in 0..<70 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 151 &+ count) }
            #expect(Base64URL.decode(Base64URL.encode(bytes)) == bytes)
        }
    }

    @Test("of all texts of up to three characters, those are read that some bytes are written as")
    func canonical() {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/= \u{E9}")
        for first in alphabet {
            #expect(Base64URL.decode(String(first)) == nil)
            for second in alphabet {
                let text = String([first, second])
                let bytes = Base64URL.decode(text)
                #expect(bytes.map { Base64URL.encode($0) == text && $0.count == 1 } ?? true)
                let longer = "\(text)A"
                #expect(Base64URL.decode(longer).map { Base64URL.encode($0) == longer } ?? true)
            }
        }
        let all = (0..<256).map { Base64URL.encode([UInt8($0)]) }
        #expect(Set(all).count == 256 && all.allSatisfy { Base64URL.decode($0) != nil })
        for wrong in ["Zg==", "Zh", "Zm9", "Z", "Zm9vY", "Zm+v", "Zm/v", "Zm v", "Zg\n", "\u{E9}A"] {
            #expect(Base64URL.decode(wrong) == nil, "\(wrong)")
        }
    }
}
