import Testing

@testable import Identity

@Suite("Signatures of presence")
struct PresenceSignatureTests {
    private let key = PeerKey()
    private let content: [UInt8] = [0xA1, 0, 1]

    @Test("a record counts as its author's with its signature, and with no other key, content or bytes")
    func signing() {
        let signature = PresenceSignature.sign(content, with: key)
        #expect(signature.count == 64)
        #expect(PresenceSignature.isValid(signature, of: content, by: key.publicKeyString))
        #expect(!PresenceSignature.isValid(signature, of: content + [0], by: key.publicKeyString))
        #expect(!PresenceSignature.isValid(signature, of: content, by: PeerKey().publicKeyString))
        #expect(!PresenceSignature.isValid(signature, of: content, by: "pk"))
        #expect(!PresenceSignature.isValid(signature, of: content, by: ""))
        for place in [0, 31, 32, 63] {
            var bent = signature
            bent[place] ^= 1
            #expect(!PresenceSignature.isValid(bent, of: content, by: key.publicKeyString))
        }
        for length in [0, 63, 65, 100_000] {
            let bytes = [UInt8](repeating: 1, count: length)
            #expect(!PresenceSignature.isValid(bytes, of: content, by: key.publicKeyString))
        }
    }

    @Test("a short name is the beginning of the key's SHA-256, the same in every version")
    func names() {
        // sha256 of "abc".
        #expect(PresenceSignature.name(of: "abc") == 0xBA78_16BF_8F01_CFEA)
        #expect(PresenceSignature.hash(ofCertificate: Array("abc".utf8)).prefix(2) == [0xBA, 0x78])
    }
}
