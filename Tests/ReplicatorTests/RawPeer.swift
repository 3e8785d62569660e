import CRDT
import Foundation
import Identity
import Machine
import ServiceKit
import Synchronization
import Transport
import WebSocket

@testable import Sync

/// What a test says to a replicator by hand, frame by frame.
extension TestBench {
    var url: URL {
        guard let url = URL(string: "ws://127.0.0.1:\(address.port)/_ditto/sync") else {
            preconditionFailure("a loopback address is a URL")
        }
        return url
    }

    /// Answers a challenge, for a token.
    typealias Proof = @Sendable (PeerChallenge, _ token: String) -> [UInt8]?

    private static let peerKeys = Mutex<[String: PeerKey]>([:])

    /// The key of a peer that a test calls by a name; the same each time.
    static func peerKey(_ name: String) -> PeerKey {
        peerKeys.withLock { keys in
            let key = keys[name] ?? PeerKey()
            keys[name] = key
            return key
        }
    }

    /// The answer of the peer that the token names, as its holder gives it; none where it names no peer.
    static let proven: Proof = { challenge, token in
        struct Claims: Decodable { var pk: String? }
        let payload = token.split(separator: ".").dropFirst().first.flatMap { Base64URL.decode($0) }
        guard let payload, let claims = try? JSONDecoder().decode(Claims.self, from: Data(payload)),
            let key = peerKeys.withLock({ $0.values.first { $0.publicKeyString == claims.pk } })
        else { return nil }
        return challenge.answer(with: key, databaseID: database, token: token)
    }

    /// The same for a challenge as it travels.
    static let provenText: @Sendable (String, String) -> [UInt8]? = { text, token in
        PeerChallenge(text).flatMap { proven($0, token) }
    }

    /// A token for any database, grant and peer (by a test's name for it), signed with this bench's key.
    func token(
        database: DatabaseID = TestBench.database, grant: Grant, peerKey: String? = nil,
        tokenID: String? = nil,
        userID: String = "tester"
    ) -> String {
        let now = SystemClock.seconds()
        return AccessToken.issue(
            Identity(
                userID: userID, databaseID: database,
                peerKey: peerKey.map { Self.peerKey($0).publicKeyString }, grant: grant,
                expiresAtSeconds: now + 3_600, tokenID: tokenID), with: key, nowSeconds: now)
    }

    /// Sends messages after a hello and returns every frame that came until the server closed or refused an
    /// operation. `answered` has the first message answered before the others are sent.
    func converse(
        token: String, _ messages: [[UInt8]], greets: Bool = true, version: UInt64 = 3,
        answered: Bool = false, head: LogPosition? = nil,
        until isOver: @escaping @Sendable ([Frame]) -> Bool = { !$0.refusals.isEmpty },
        proof: @escaping Proof = TestBench.proven
    ) async throws -> [Frame] {
        var configuration = WebSocketConfiguration()
        configuration.maximumMessageBytes = 2 * 1_048_576
        let client = WebSocketClient(
            address: try WebSocketAddress(url), headers: [("Authorization", "Bearer \(token)")],
            subprotocols: ["mimeo.sync.1"], configuration: configuration)
        let hello = Frame.Hello(
            version: version, databaseID: Self.database, peerKey: "", wallMilliseconds: 0, credit: 1 << 22,
            actors: [], head: head)
        return try await client.run { connection, answer in
            var (frames, hello) = ([Frame](), hello)
            let challenge = answer[PeerSync.challengeHeader].flatMap { PeerChallenge($0) }
            hello.proof = challenge.flatMap { proof($0, token) }
            if greets {
                try await connection.send(Frame.hello(hello).encoded())
                if let answer = try await connection.receive() { frames.append(try Frame(decoding: answer)) }
            }
            for (index, message) in messages.enumerated() where frames.closeCode == nil {
                // The server may have ended it at the message before: its reason is still to be read.
                guard (try? await connection.send(message)) != nil else { break }
                while answered, index == 0, !frames.isAcknowledged, frames.refusals.isEmpty,
                    let answer = try? await connection.receive()
                { frames.append(try Frame(decoding: answer)) }
            }
            while !isOver(frames), let message = try? await connection.receive() {
                frames.append(try Frame(decoding: message))
            }
            return frames
        }
    }
}

extension [Frame] {
    /// The code of the last frame when it is a close.
    var closeCode: String? { if case .close(let error)? = last { error.code } else { nil } }

    /// Whether an operation was acknowledged.
    var isAcknowledged: Bool { contains { if case .acknowledged = $0 { true } else { false } } }

    /// The codes of refused operations.
    var refusals: [String] {
        compactMap { if case .refused(let refusal) = $0 { refusal.error.code } else { nil } }
    }
}

/// Operations as a peer would write them, well formed or not.
enum Written {
    static func operation(
        actor: UInt64 = 7, sequence: SequenceNumber = 1, time: UInt64 = 1 << 16,
        base: [VersionVector.Entry] = [],
        collection: CollectionName = "cars"
    ) throws -> [UInt8] {
        let stamp = Stamp(time: time, actor: ActorID(actor))
        var editor = DocumentEditor(
            document: Document(), pending: DocumentEditor.Pending(base: VersionVector(base)), stamp: stamp)
        editor.create()
        guard let delta = editor.pending.delta(stamp: stamp) else {
            preconditionFailure("creating is a change")
        }
        let change = Operation.Change(
            collection: collection, id: try DocumentID(.string("a")), delta: delta.encoded())
        return Operation(actor: stamp.actor, sequence: sequence, timestamp: time, changes: [change]).encoded()
    }

    static func upload(_ operations: [UInt8]...) -> [UInt8] { Frame.upload(operations).encoded() }
}
