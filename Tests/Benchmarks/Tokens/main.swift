// Tokens: what it costs to accept one for the first time and again, and to prove and verify a peer key,
// beside one bare verification of an ECDSA signature by the library in the same run.
//
//     make bench                     all benchmarks
//     scripts/bench-tokens           this one

import Crypto
import Foundation
import Identity

let now: Int64 = 1_800_000_000

/// The median of some times, in microseconds.
func median(_ times: [Duration]) -> Double {
    times.sorted()[times.count / 2] / .microseconds(1)
}

/// The time of each of many calls, and of a reference beside it, by turns; medians.
func compare(_ name: String, goal: String, count: Int, reference: (Int) -> Void, ours: (Int) -> Void) {
    var times: (reference: [Duration], ours: [Duration]) = ([], [])
    let clock = ContinuousClock()
    for number in 0..<count {
        times.reference.append(clock.measure { reference(number) })
        times.ours.append(clock.measure { ours(number) })
    }
    let (bare, own) = (median(times.reference), median(times.ours))
    print(
        String(
            format: "%@: %.1f us, one bare ECDSA verification %.1f us = %.2f x (goal %@)", name, own, bare,
            own / bare, goal))
}

let key = try DatabaseSigningKey(databaseID: "bench", number: 1)
let keys = KeySet([key.publicKey])
let peer = PeerKey()
let rules = AccessRules(queriesByCollection: ["cars": ["_id.owner = 'ada'"], "boats": ["true"]])
let grants: [(name: String, grant: Grant)] = [
    ("everything", .everything), ("two queries", Grant(read: rules, write: rules, queryLanguage: 1)),
]
let count = 2_000
let bareKey = P256.Signing.PrivateKey()
let bareText = Data(repeating: 7, count: 400)
let bareSignature = try bareKey.signature(for: bareText)
func verifyBare(_: Int) {
    precondition(bareKey.publicKey.isValidSignature(bareSignature, for: bareText))
}

for (name, grant) in grants {
    let tokens = (0..<count).map { number in
        AccessToken.issue(
            Identity(
                userID: "user \(number)", databaseID: "bench", peerKey: peer.publicKeyString, grant: grant,
                expiresAtSeconds: now + 3_600, tokenID: AccessToken.newID()), with: key, nowSeconds: now)
    }
    var verifier = TokenVerifier(keys: keys)
    compare("a token of \(name), first time", goal: "< 150 us", count: count, reference: verifyBare) {
        number in
        precondition((try? verifier.verify(tokens[number], nowSeconds: now)) != nil)
    }
    compare("the same, again", goal: "cached", count: count, reference: verifyBare) { number in
        precondition((try? verifier.verify(tokens[number], nowSeconds: now)) != nil)
    }
    precondition(verifier.rememberedCount == count, "the memory holds \(verifier.rememberedCount) tokens")
}

let token = AccessToken.issue(
    Identity(
        userID: "user", databaseID: "bench", peerKey: peer.publicKeyString, grant: .everything,
        expiresAtSeconds: now + 3_600), with: key, nowSeconds: now)
let challenges = (0..<count).map { _ in PeerChallenge() }
let answers = challenges.map { $0.answer(with: peer, databaseID: "bench", token: token) }
compare("a peer's proof, made", goal: "none", count: count, reference: verifyBare) { number in
    _ = challenges[number].answer(with: peer, databaseID: "bench", token: token)
}
compare("a peer's proof, verified", goal: "none", count: count, reference: verifyBare) { number in
    precondition(
        challenges[number].isAnswered(
            by: answers[number], of: peer.publicKeyString, databaseID: "bench", token: token))
}
