import CRDT
import Crypto
import Foundation
import Testing

@testable import Identity

@Suite("Proof of a peer key")
struct PeerChallengeTests {
    private let key = PeerKey()

    @Test("the key's holder answers, for one challenge, database and token; nobody else, and nothing else")
    func answers() throws {
        let challenge = PeerChallenge()
        let answer = challenge.answer(with: key, databaseID: "cars", token: "t")
        #expect(answer.count == 64)
        func holds(
            _ answer: [UInt8], _ challenge: PeerChallenge, of peer: String? = nil,
            database: DatabaseID = "cars",
            token: String = "t"
        ) -> Bool {
            challenge.isAnswered(
                by: answer, of: peer ?? key.publicKeyString, databaseID: database, token: token)
        }
        #expect(holds(answer, challenge))
        #expect(!holds(answer, PeerChallenge()))
        #expect(!holds(answer, challenge, of: PeerKey().publicKeyString))
        #expect(!holds(answer, challenge, database: "boats"))
        #expect(!holds(answer, challenge, token: "u"))
        for text in ["", "pk", "pkAAAA", "nonsense", String(repeating: "p", count: 100_000)] {
            #expect(!holds(answer, challenge, of: text))
        }
        for count in [0, 1, 63, 65, 100_000] {
            #expect(!holds([UInt8](repeating: 1, count: count), challenge))
        }
        for index in answer.indices {
            var changed = answer
            changed[index] ^= 1
            #expect(!holds(changed, challenge), "byte \(index)")
        }
        #expect(!holds([UInt8](repeating: 0, count: 64), challenge))
    }

    @Test("what is signed begins with what it is for, so no request for a certificate and no token is one")
    func purpose() throws {
        let challenge = PeerChallenge()
        let nonce = try #require(Base64URL.decode(challenge.text))
        let signed =
            Data("mimeo peer proof 1\n".utf8) + Data(nonce) + Data(SHA256.hash(data: Data("t".utf8)))
            + Data("cars".utf8)
        // By the description alone, as a peer in another language would.
        let other = P256.Signing.PrivateKey()
        let name = "pk" + Base64URL.encode(other.publicKey.compressedRepresentation)
        let answer = Array(try other.signature(for: signed).rawRepresentation)
        #expect(challenge.isAnswered(by: answer, of: name, databaseID: "cars", token: "t"))
        let bare = Array(try other.signature(for: Data(nonce)).rawRepresentation)
        #expect(!challenge.isAnswered(by: bare, of: name, databaseID: "cars", token: "t"))
    }

    @Test("a challenge is 32 random bytes as text, and nothing else is one")
    func texts() throws {
        let challenge = PeerChallenge()
        #expect(challenge.text.utf8.count == 43)
        #expect(PeerChallenge(challenge.text) == challenge)
        #expect(Set((0..<100).map { _ in PeerChallenge().text }).count == 100)
        for text in [
            "", "A", String(challenge.text.dropLast()), challenge.text + "A", challenge.text + "=",
            "+" + challenge.text.dropFirst(), String(repeating: "A", count: 100_000),
        ] {
            #expect(PeerChallenge(text) == nil, "\(text.prefix(60))")
        }
    }

    @Test("without a key what is written is the user's, which no peer key can be called")
    func author() {
        func identity(_ user: String, _ peer: String?) -> Identity {
            Identity(userID: user, databaseID: "cars", peerKey: peer, grant: .nothing, expiresAtSeconds: 1)
        }
        let peer = key.publicKeyString
        #expect(identity("ada", peer).author == peer)
        #expect(identity("ada", nil).author != identity("eve", nil).author)
        #expect(identity(peer, nil).author != peer)
        // Nobody is called like an API key: whoever names users is not who makes keys.
        let key = Identity(
            userID: "api-key:k", databaseID: "cars", peerKey: nil, grant: .nothing, expiresAtSeconds: 1,
            tokenID: "id")
        #expect(key.author == "api-key:id" && identity("api-key:id", nil).author != key.author)
        #expect(throws: IdentityError.self) {
            try PeerKey.validate(publicKeyString: identity("ada", nil).author)
        }
    }
}
