import CRDT
import Foundation
import Identity
import Logging
import Machine
import Replica
import Synchronization
import Transport

@testable import Attachments

/// A linked peer whose blobs have a turned bit: what a broken disk, or a bad program, serves.
final class LyingPeer: BlobShare {
    /// The lie.
    enum Lie: Sendable {
        /// The hashes of the chunks are right.
        case bytes
        /// They are those of the wrong bytes, so that only the whole tells.
        case bytesAndHashes
    }

    private let content: [UInt8]
    private let hashes: ChunkList
    private let count = Mutex(0)
    let key: String
    private let opened = Mutex(0)

    /// The port at which it takes links.
    var port: Int { opened.withLock { $0 } }
    /// The pieces that it has served.
    var answered: Int { count.withLock { $0 } }

    private init(_ content: [UInt8], _ lie: Lie, _ key: PeerKey) {
        var wrong = content
        wrong[content.count / 2] ^= 4
        var hasher = ChunkHasher()
        hasher.update(lie == .bytes ? content : wrong)
        (self.content, hashes, self.key) = (wrong, hasher.list(), key.publicKeyString)
    }

    func answer(_ ask: BlobAsk, to peerKey: String, rights: CompiledRules) async -> BlobAnswer {
        switch ask.subject {
        case .chunks:
            return .chunks(length: UInt64(hashes.length), digests: hashes.digests.flatMap { $0 })
        case .bytes(let offset, let count):
            self.count.withLock { $0 += 1 }
            return .bytes(Array(content.dropFirst(Int(offset)).prefix(count)))
        }
    }

    /// Takes links of peers with the shared key while `body` runs. Has no document.
    static func run(
        _ directory: URL, _ database: String, _ shared: PeerKey, _ content: [UInt8], _ lie: Lie,
        _ body: (LyingPeer) async throws -> Void
    ) async throws {
        let key = PeerKey()
        let liar = LyingPeer(content, lie, key)
        let credentials = SharedCredentials(shared, databaseID: DatabaseID(database))
        let logger = Logger(label: "liar")
        let replica = try PeerReplica(
            directory: directory.path, environment: .system, logger: logger)
        var configuration = MeshSync.Configuration(
            databaseID: DatabaseID(database), hasServer: false, key: { key },
            credentials: {
                try credentials.credentials(of: key, nowSeconds: Int64(Date().timeIntervalSince1970))
            }, isClockTrusted: { true }, ask: { _ in true })
        configuration.blobs = liar
        let mesh = MeshSync(
            replica: replica, configuration: configuration, environment: .system, logger: logger, changed: {})
        var settings = Mesh.Settings()
        guard let listener = MeshListener(tcp: "127.0.0.1", port: 0) else {
            preconditionFailure("a loopback address is one")
        }
        settings.listeners = [listener]
        mesh.configure(settings, unserved: [])
        mesh.start()
        while mesh.seen.ports[listener] == nil { try await Task.sleep(for: .milliseconds(5)) }
        liar.opened.withLock { $0 = mesh.seen.ports[listener] ?? 0 }
        do {
            try await body(liar)
        } catch {
            await mesh.stop()
            throw error
        }
        await mesh.stop()
        try replica.close()
    }
}
