import CRDT
import Identity
import Sync
import Synchronization

/// The presence of one database, as its sessions tell it: the board, its clock and its lock.
///
/// `board` guards everything; it is held for some microseconds, and for the check of one signature where a
/// session tells of a peer that it has not proven to be.
package final class PresenceRegistry: Sendable {
    /// A session that runs.
    struct Running: Sendable {
        var name: String
        var peerKey: String?
        var userID: String
        var metadata: String?
    }

    private let board = Mutex(
        PresenceTable { PresenceSignature.isValid($0.signature, of: $0.content, by: $1) })
    private let started = ContinuousClock.now

    /// News of a session whose peer has proven this key; nil if its token names none.
    func received(_ news: PresenceNews, from session: UInt64, peerKey: String?) {
        for carried in news.records.prefix(Sync.Limits.presenceOfSession + 1) {
            board.withLock {
                $0.received(carried, from: session, peerKey: peerKey, at: ContinuousClock.now - started)
            }
        }
    }

    /// A session has ended.
    func left(_ session: UInt64) { board.withLock { $0.left(session) } }

    /// The peers as JSON objects, with the members that a peer's own graph has, and their sessions here.
    func peers(_ running: [Running]) -> [Value] {
        let keys = running.compactMap(\.peerKey)
        let now = ContinuousClock.now - started
        let (peers, connections) = board.withLock { $0.graph(running: keys, at: now) }
        let sessions = Dictionary(grouping: running) { $0.peerKey ?? "" }
        let told: [String: [Value]] = connections.reduce(into: [:]) { told, connection in
            let value = Self.value(connection)
            told[connection.first, default: []].append(value)
            told[connection.second, default: []].append(value)
        }
        return peers.map { peer in
            Self.value(peer, told[peer.peerKey] ?? [], sessions[peer.peerKey] ?? [])
        }
    }

    private static func value(
        _ peer: PresenceTable.Peer, _ connections: [Value], _ sessions: [Running]
    ) -> Value {
        let facts = peer.record?.facts
        let isConnected = Value.bool(peer.hasSession || facts?.isConnectedToServer ?? false)
        let system = facts.flatMap { $0.system.isEmpty ? nil : Value.string($0.system) } ?? .null
        let newest = sessions.max { $0.name < $1.name }
        return [
            "peerKey": .string(peer.peerKey), "peerKeyString": .string(peer.peerKey),
            "deviceName": .string(facts?.deviceName ?? ""), "os": system, "osV2": system,
            "isConnectedToDittoServer": isConnected, "isConnectedToDittoCloud": isConnected,
            "isCompatible": .bool(true), "dittoSdkVersion": facts.map { .string($0.version) } ?? .null,
            "connections": .array(connections),
            "peerMetadata": object(facts?.metadata), "identityServiceMetadata": object(newest?.metadata),
            "sessions": .array(sessions.map(\.name).sorted().map { .string($0) }),
            "userID": newest.map { .string($0.userID) } ?? .null,
        ]
    }

    private static func value(_ connection: PresenceGraph.Connection) -> Value {
        let type = connection.kind == .network ? "AccessPoint" : "WebSocket"
        let (first, second) = (Value.string(connection.first), Value.string(connection.second))
        return [
            "id": .string("\(connection.first)<->\(connection.second):\(type)"),
            "connectionType": .string(type), "peer1": first, "peer2": second, "peerKeyString1": first,
            "peerKeyString2": second,
        ]
    }

    private static func object(_ text: String?) -> Value {
        let object = text.flatMap { try? JSONText.parse($0) }?.objectValue
        return .object(object ?? ObjectValue())
    }
}
