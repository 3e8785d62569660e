import CRDT
import Foundation
import Identity
import ServiceKit
import Transport

@testable import Sync

/// What a test says to a replicator by hand, frame by frame.
extension TestBench {
    var url: URL {
        guard let url = URL(string: "ws://127.0.0.1:\(address.port)/_ditto/sync") else {
            preconditionFailure("a loopback address is a URL")
        }
        return url
    }

    /// A token for any database, grant and peer, signed with this bench's key.
    func token(
        database: String = TestBench.database, grant: Grant, peerKey: String? = nil, tokenID: String? = nil
    ) -> String {
        let now = Authenticator.systemSeconds()
        return AccessToken.issue(
            Identity(
                userID: "tester", databaseID: database, peerKey: peerKey, grant: grant,
                expiresAtSeconds: now + 3_600, tokenID: tokenID), with: key, nowSeconds: now)
    }

    /// Sends messages after a hello and returns every frame that came until the server closed or refused an
    /// operation.
    func converse(
        token: String, _ messages: [[UInt8]], greets: Bool = true, version: UInt64 = 2,
        until isOver: @escaping @Sendable ([Frame]) -> Bool = { !$0.refusals.isEmpty }
    ) async throws -> [Frame] {
        var configuration = WebSocketConfiguration()
        configuration.maximumMessageBytes = 2 * 1_048_576
        let client = WebSocketClient(
            address: try WebSocketAddress(url), headers: [("Authorization", "Bearer \(token)")],
            subprotocols: ["mimeo.sync.1"], configuration: configuration)
        let hello = Frame.hello(
            Frame.Hello(
                version: version, databaseID: Self.database, peerKey: "", wallMilliseconds: 0,
                credit: 1 << 22,
                actors: [], head: nil)
        ).encoded()
        return try await client.run { connection in
            var frames: [Frame] = []
            if greets {
                try await connection.send(hello)
                if let answer = try await connection.receive() { frames.append(try Frame(decoding: answer)) }
            }
            for message in messages { try await connection.send(message) }
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
        actor: UInt64 = 7, sequence: UInt64 = 1, time: UInt64 = 1 << 16, base: [VersionVector.Entry] = [],
        collection: String = "cars"
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
