import Foundation
import Identity
import Synchronization

/// The identity and the login of this store, in the folder `ditto_auth` (0700) of the persistence directory.
/// `peer-key.pem` is created once; `session.json` and `certificate.json` come and go with logins, and
/// `device-key` with a join. All are secrets (0600).
struct IdentityFiles: Sendable {
    static let folder = "ditto_auth"

    private let keyFile: ProtectedFile
    private let sessionFile: ProtectedFile
    private let certificateFile: ProtectedFile
    private let deviceKeyFile: ProtectedFile

    init(directory: String) {
        let folder = URL(fileURLWithPath: directory, isDirectory: true)
            .appendingPathComponent(Self.folder, isDirectory: true)
        keyFile = ProtectedFile(url: folder.appendingPathComponent("peer-key.pem"))
        sessionFile = ProtectedFile(url: folder.appendingPathComponent("session.json"))
        certificateFile = ProtectedFile(url: folder.appendingPathComponent("certificate.json"))
        deviceKeyFile = ProtectedFile(url: folder.appendingPathComponent("device-key"))
    }

    /// Held while a key is looked for and created: presence and links may ask for it at the same time, and
    /// must not create two.
    private static let creating = Mutex(())

    /// The store's key, created on first use.
    /// - Throws: `SDK-0401`.
    func peerKey() throws(SDKError) -> PeerKey {
        try Self.creating.withLock { _ throws(SDKError) in try readOrCreate() }
    }

    private func readOrCreate() throws(SDKError) -> PeerKey {
        if let data = keyFile.content {
            do {
                return try PeerKey(pem: String(decoding: data, as: UTF8.self))
            } catch {
                throw SDKError(.identityFileUnusable, "\(keyFile.url.path): \(error.message)")
            }
        }
        let key = PeerKey()
        try write(Data(key.pem.utf8), to: keyFile)
        return key
    }

    /// The session of the last login; nil when there is none or it cannot be read (a new login repairs
    /// that).
    func session() -> StoredSession? {
        sessionFile.content.flatMap { try? JSONDecoder().decode(StoredSession.self, from: $0) }
    }

    /// Stores a session, or removes the present one when nil.
    /// - Throws: `SDK-0401`.
    func save(_ session: StoredSession?) throws(SDKError) {
        guard let session else { return sessionFile.remove() }
        // Encoding texts and numbers cannot fail.
        try write((try? JSONEncoder().encode(session)) ?? Data(), to: sessionFile)
    }

    /// The certificate of the last login; nil when there is none.
    func certificate() -> StoredCertificate? {
        certificateFile.content.flatMap { try? JSONDecoder().decode(StoredCertificate.self, from: $0) }
    }

    /// Stores a certificate.
    /// - Throws: `SDK-0401`.
    func save(_ certificate: StoredCertificate) throws(SDKError) {
        // Encoding texts cannot fail.
        try write((try? JSONEncoder().encode(certificate)) ?? Data(), to: certificateFile)
    }

    /// Removes the certificate, if there is one.
    func removeCertificate() { certificateFile.remove() }

    /// The API key of a device that has joined; nil before.
    func deviceKey() -> String? { deviceKeyFile.content.map { String(decoding: $0, as: UTF8.self) } }

    /// Stores the key of a join, or removes the present one when nil.
    /// - Throws: `SDK-0401`.
    func save(deviceKey: String?) throws(SDKError) {
        guard let deviceKey else { return deviceKeyFile.remove() }
        try write(Data(deviceKey.utf8), to: deviceKeyFile)
    }

    private func write(_ data: Data, to file: ProtectedFile) throws(SDKError) {
        do {
            try file.replace(with: data)
        } catch {
            throw SDKError(
                .identityFileUnusable, "\(file.url.path) cannot be written: \(error.localizedDescription)")
        }
    }
}

/// The key of a store that logs in nowhere, created when its identity is first needed.
final class OwnKey: Sendable {
    private let files: IdentityFiles
    private let known = Mutex<String?>(nil)

    init(_ files: IdentityFiles) { self.files = files }

    /// The public key. If it cannot be stored, each opening of the store has another one.
    var text: String {
        known.withLock { known in
            let text = known ?? ((try? files.peerKey()) ?? PeerKey()).publicKeyString
            known = text
            return text
        }
    }
}

/// The result of a login, as stored.
struct StoredSession: Codable, Sendable, Equatable {
    /// The database and server of the session; another one needs its own login.
    var databaseID: String
    var login: URL
    var accessToken: String
    var userID: String
    /// Seconds since 1970.
    var startedAt: Double
    /// Seconds since 1970.
    var expiresAt: Double
}
