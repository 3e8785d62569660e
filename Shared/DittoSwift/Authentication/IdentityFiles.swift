import Foundation
import Identity

/// Who this store is and whom it is logged in as, in the folder `ditto_auth` (0700) of the persistence
/// directory: `peer-key.pem` is made once, `session.json` comes and goes with logins. Both are secrets
/// (0600).
struct IdentityFiles: Sendable {
    private let folder: URL

    init(directory: String) {
        folder = URL(fileURLWithPath: directory, isDirectory: true)
            .appendingPathComponent("ditto_auth", isDirectory: true)
    }

    /// The store's key, made when it is first asked for.
    /// - Throws: `SDK-0401`.
    func peerKey() throws(SDKError) -> PeerKey {
        let file = folder.appendingPathComponent("peer-key.pem")
        if let data = FileManager.default.contents(atPath: file.path) {
            do {
                return try PeerKey(pem: String(decoding: data, as: UTF8.self))
            } catch {
                throw SDKError(.identityFileUnusable, "\(file.path): \(error.message)")
            }
        }
        let key = PeerKey()
        try write(Data(key.pem.utf8), to: file)
        return key
    }

    /// The session of the last login; nil when there is none, or none that can be read: a new login cures
    /// that.
    func session() -> StoredSession? {
        let data = FileManager.default.contents(atPath: sessionFile.path)
        return data.flatMap { try? JSONDecoder().decode(StoredSession.self, from: $0) }
    }

    /// Keeps a session, or removes the one there is.
    /// - Throws: `SDK-0401`.
    func save(_ session: StoredSession?) throws(SDKError) {
        guard let session else {
            try? FileManager.default.removeItem(at: sessionFile)
            return
        }
        // Texts and numbers always encode.
        try write((try? JSONEncoder().encode(session)) ?? Data(), to: sessionFile)
    }

    private var sessionFile: URL { folder.appendingPathComponent("session.json") }

    /// Replaces a file in one step.
    private func write(_ data: Data, to file: URL) throws(SDKError) {
        let manager = FileManager.default
        let temporary = folder.appendingPathComponent(file.lastPathComponent + ".new")
        do {
            try manager.createDirectory(
                at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            try? manager.removeItem(at: temporary)
            let isMade = manager.createFile(
                atPath: temporary.path, contents: nil, attributes: [.posixPermissions: 0o600])
            guard isMade else { throw CocoaError(.fileWriteUnknown) }
            let handle = try FileHandle(forWritingTo: temporary)
            try handle.write(contentsOf: data)
            try handle.synchronize()
            try handle.close()
            guard rename(temporary.path, file.path) == 0 else { throw CocoaError(.fileWriteUnknown) }
        } catch {
            throw SDKError(
                .identityFileUnusable, "\(file.path) cannot be written: \(error.localizedDescription)")
        }
    }
}

/// What a login gave, as it is kept.
struct StoredSession: Codable, Sendable, Equatable {
    /// The database and server it is for; another one needs its own login.
    var databaseID: String
    var login: URL
    var accessToken: String
    var userID: String
    /// Seconds since 1970.
    var startedAt: Double
    /// Seconds since 1970.
    var expiresAt: Double
}
