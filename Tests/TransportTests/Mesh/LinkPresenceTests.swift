import Identity
import Logging
import Machine
import Sync
import Testing

@testable import Transport

@Suite("The presence of a link")
struct LinkPresenceTests {
    private func presence() throws -> PresenceSync {
        let key = PeerKey()
        return PresenceSync(
            configuration: PresenceSync.Configuration(
                databaseID: "boats", key: { key },
                credentials: { MeshCredentials(key: key, certificate: nil, authority: .none) }),
            environment: .system, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    private func news(of key: PeerKey, named name: String) -> PresenceNews {
        var facts = PresenceRecord.Facts()
        facts.deviceName = name
        let content = PresenceRecord(
            peerKey: key.publicKeyString, rank: PresenceRank(starts: 1, start: 1, version: 1), facts: facts,
            protocolVersion: 4, links: []
        ).encoded()
        var news = PresenceNews()
        news.records = [
            PresenceNews.Carried(
                record: SignedRecord(content: content, signature: PresenceSignature.sign(content, with: key)),
                ageMilliseconds: 0)
        ]
        return news
    }

    private let port = PresenceSync.Port(deliver: { _ in }, unsentBytes: { 0 })

    @Test("news that come before the presence is open are not lost; after the end none count")
    func early() throws {
        let (presence, other) = (try presence(), PeerKey())
        let link = LinkPresence(presence)
        let neighbour = PresenceGossip.Neighbour(peerKey: other.publicKeyString, kind: .network)
        link.received(news(of: other, named: "bow"))
        #expect(presence.graph == nil)
        link.open(neighbour, record: nil, port)
        #expect(presence.graph?.peers.map { $0.record?.facts.deviceName } == ["bow"])
        link.close()
        #expect(presence.graph?.peers.isEmpty == true)
        link.received(news(of: PeerKey(), named: "stern"))
        #expect(presence.graph?.peers.isEmpty == true)
    }

    @Test("a link that has ended before its presence opened is closed at once")
    func ended() throws {
        let presence = try presence()
        let link = LinkPresence(presence)
        link.close()
        let neighbour = PresenceGossip.Neighbour(peerKey: PeerKey().publicKeyString, kind: .network)
        link.open(neighbour, record: nil, port)
        #expect(presence.graph?.peers.isEmpty == true)
    }
}
