import Crypto
import CryptoExtras
import Foundation
import Identity

/// A password's hash with its parameters and its salt: `scrypt$15$8$3$SALT$HASH`, the first number being the
/// binary logarithm of N, then r and p. Parameters of later versions thus need no other record.
enum PasswordHash {
    /// Parameters of scrypt (RFC 7914).
    struct Parameters: Sendable, Equatable {
        var logRounds: Int
        var blockSize: Int
        var parallelism: Int
    }

    /// Takes a password's bytes in one form: the same letters typed on two systems are the same password.
    /// - Returns: nil for one that nobody can have set.
    static func bytes(of password: String) -> [UInt8]? {
        guard password.utf8.count <= Limits.passwordBytes else { return nil }
        return Array(password.precomposedStringWithCanonicalMapping.utf8)
    }

    /// Returns whether a person may choose it.
    static func isChoosable(_ password: String) -> Bool {
        password.utf8.count <= Limits.passwordBytes
            && password.unicodeScalars.count >= Limits.passwordCharacters
    }

    /// A new hash with a random salt. Takes as long as `Limits.passwordParameters` say.
    /// - Throws: `AUTH-0413` if there is no memory for it.
    static func make(
        _ password: [UInt8], _ parameters: Parameters = Limits.passwordParameters
    ) throws(AuthGatewayError) -> String {
        var generator = SystemRandomNumberGenerator()
        let salt = (0..<saltBytes).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        return text(parameters, salt, try derive(password, salt, parameters))
    }

    private static func text(_ parameters: Parameters, _ salt: [UInt8], _ hash: [UInt8]) -> String {
        let numbers = "\(parameters.logRounds)$\(parameters.blockSize)$\(parameters.parallelism)"
        return "\(name)$\(numbers)$\(Base64URL.encode(salt))$\(Base64URL.encode(hash))"
    }

    /// A hash of no password, with the parameters of new ones: names of no account are compared with it.
    static let nobodys = text(
        Limits.passwordParameters, [UInt8](repeating: 0, count: saltBytes),
        [UInt8](repeating: 0, count: hashBytes))

    /// Compares a password with a hash, in constant time. False for a hash of another form.
    /// - Throws: `AUTH-0413` if there is no memory for it.
    static func verify(_ password: [UInt8], _ hash: String) throws(AuthGatewayError) -> Bool {
        guard let kept = Parts(hash) else { return false }
        return ConstantTime.equal(try derive(password, kept.salt, kept.parameters), kept.hash)
    }

    /// Returns whether a hash has other parameters than new ones.
    static func isOutdated(_ hash: String) -> Bool {
        Parts(hash)?.parameters != Limits.passwordParameters
    }

    private static let name = "scrypt"
    private static let saltBytes = 16
    private static let hashBytes = 32

    private struct Parts {
        let parameters: Parameters
        let salt: [UInt8]
        let hash: [UInt8]

        init?(_ text: String) {
            let parts = text.split(separator: "$", omittingEmptySubsequences: false)
            guard parts.count == 6, parts[0] == name, let rounds = Int(parts[1]), 10...20 ~= rounds,
                let size = Int(parts[2]), 1...32 ~= size, let lanes = Int(parts[3]), 1...16 ~= lanes,
                let salt = Base64URL.decode(parts[4]), let hash = Base64URL.decode(parts[5]),
                hash.count == hashBytes
            else { return nil }
            parameters = Parameters(logRounds: rounds, blockSize: size, parallelism: lanes)
            (self.salt, self.hash) = (salt, hash)
        }
    }

    private static func derive(
        _ password: [UInt8], _ salt: [UInt8], _ parameters: Parameters
    ) throws(AuthGatewayError) -> [UInt8] {
        let rounds = 1 << parameters.logRounds
        // Twice what the parameters need: the library counts its own buffers too.
        let memory = 2 * 128 * rounds * parameters.blockSize + (1 << 20)
        let key = try? KDF.Scrypt.deriveKey(
            from: password, salt: salt, outputByteCount: hashBytes, rounds: rounds,
            blockSize: parameters.blockSize, parallelism: parameters.parallelism, maxMemory: memory)
        guard let key else {
            throw AuthGatewayError(
                .providerBusy, "the server has no memory for a password's hash; try again shortly")
        }
        return key.withUnsafeBytes { Array($0) }
    }
}
