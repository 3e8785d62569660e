import Crypto
import CryptoExtras
import Foundation
import Glibc

/// The sealing keys of a server under a passphrase: `secrets.key.sealed` in a backup.
///
/// PBKDF2 with SHA-256 makes a key of the passphrase, and AES-GCM seals both files with it: the key, and the
/// previous one while it is being changed.
public enum SealedKey {
    static let name = "secrets.key.sealed"

    private struct Content: Codable {
        var format: Int
        var rounds: Int
        var salt: Data
        var box: Data
    }

    private struct Keys: Codable {
        var current: Data
        var previous: Data?
    }

    /// Reads a passphrase from a file: its first line, or all of it.
    /// - Throws: `BAK-0501`.
    public static func passphrase(file: String) throws(BackupError) -> String {
        guard let content = try? Folder.read(file, limit: Limits.passphraseBytes),
            let text = String(validating: content, as: UTF8.self)
        else { throw BackupError(.passphraseWrong, "\(file) cannot be read, or is no text") }
        let line = text.split(separator: "\n", omittingEmptySubsequences: false).first.map(String.init) ?? ""
        guard line.count >= Limits.passphraseCharacters else {
            throw BackupError(
                .passphraseWrong,
                "the passphrase in \(file) has fewer than \(Limits.passphraseCharacters) characters")
        }
        return line
    }

    /// Seals the keys beside `path` into a backup's folder.
    /// - Throws: `BAK-0502`, `BAK-0101`.
    static func seal(
        _ path: String, passphrase: String, rounds: Int, into folder: String
    ) throws(BackupError) -> FileRecord {
        let previous = "\(path).previous"
        let keys = Keys(
            current: Data(try read(path)),
            previous: Folder.exists(previous) ? Data(try read(previous)) : nil)
        let salt = Data((0..<16).map { _ in UInt8.random(in: .min ... .max) })
        guard let plain = try? JSONEncoder().encode(keys),
            let key = try? derived(passphrase, salt, rounds),
            let box = try? AES.GCM.seal(plain, using: key).combined,
            let content = try? JSONEncoder().encode(
                Content(format: 1, rounds: rounds, salt: salt, box: box))
        else { preconditionFailure("what is sealed has no invalid size") }
        let file = try OutputFile("\(folder)/\(name)")
        try file.write([UInt8](content))
        let digest = try file.finish()
        return FileRecord(name: name, bytes: file.bytes, sha256: digest)
    }

    /// Opens the keys of a backup, and writes them where a server reads them, unless the same are there.
    /// - Throws: `BAK-0501` for another passphrase, `BAK-0502` if another one is there.
    static func open(
        _ record: FileRecord, in folder: String, passphrase: String, to path: String
    ) throws(BackupError) {
        let sealed = "\(folder)/\(record.name)"
        let content = try Folder.read(sealed, limit: Limits.sealedKeyBytes)
        guard hexadecimal(Array(SHA256.hash(data: content))) == record.sha256 else {
            throw .damaged(sealed, "is altered")
        }
        guard let sealedKeys = try? JSONDecoder().decode(Content.self, from: Data(content)),
            sealedKeys.format == 1, (1...Limits.mostKeyRounds).contains(sealedKeys.rounds)
        else { throw .damaged(sealed, "is altered, or of a newer version") }
        guard let key = try? derived(passphrase, sealedKeys.salt, sealedKeys.rounds),
            let box = try? AES.GCM.SealedBox(combined: sealedKeys.box),
            let plain = try? AES.GCM.open(box, using: key),
            let keys = try? JSONDecoder().decode(Keys.self, from: plain)
        else { throw BackupError(.passphraseWrong, "the passphrase does not open \(sealed)") }
        let files: [(path: String, key: Data?)] = [(path, keys.current), ("\(path).previous", keys.previous)]
        for file in files where Folder.exists(file.path) {
            guard let key = file.key, (try? Folder.read(file.path, limit: Limits.keyBytes)) == [UInt8](key)
            else {
                throw BackupError(
                    .keyUnusable, "\(file.path) is another key; name another file, or move it away first")
            }
        }
        try Folder.make(URL(fileURLWithPath: path).deletingLastPathComponent().path)
        // The previous one first: a file of the current one says that both are there.
        for file in files.reversed() where !Folder.exists(file.path) {
            if let key = file.key { try Folder.write([UInt8](key), to: file.path) }
        }
    }

    private static func read(_ path: String) throws(BackupError) -> [UInt8] {
        guard let bytes = try? Folder.read(path, limit: Limits.keyBytes), !bytes.isEmpty else {
            throw BackupError(
                .keyUnusable, "the sealing key \(path) cannot be read; name it with --secrets-key")
        }
        return bytes
    }

    private static func derived(_ passphrase: String, _ salt: Data, _ rounds: Int) throws -> SymmetricKey {
        try KDF.Insecure.PBKDF2.deriveKey(
            from: Data(passphrase.utf8), salt: salt, using: .sha256, outputByteCount: 32,
            unsafeUncheckedRounds: rounds)
    }
}
