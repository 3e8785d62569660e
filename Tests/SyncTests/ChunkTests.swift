import CRDT
import DQL
import Exchange
import Synchronization
import Testing

@testable import Sync

@Suite("A message in chunks")
struct ChunkTests {
    private let upload = Frame.upload([Exemplars.operation + [UInt8](repeating: 7, count: 200_000)]).encoded()

    private func chunk(
        _ range: Range<Int>, of message: [UInt8], hash: UInt64? = nil
    ) -> Event {
        let frame = Frame.chunk(
            isLast: range.upperBound == message.count, Array(message[range]), of: hash ?? hash64(message),
            at: UInt64(range.lowerBound))
        return .frame(frame.encoded())
    }

    private func server(
        kept: PartialMessage? = nil, holding: (@Sendable (Int) -> Bool)? = nil
    ) -> (session: Session, hello: Frame.Hello?) {
        var configuration = Session.Configuration(
            role: .server(origin: 1), databaseID: "d", peerKey: "", wallMilliseconds: 5,
            access: .everything, kept: kept)
        configuration.holdingPart = holding
        var server = Session(configuration)
        _ = server.receive(.opened)
        _ = server.receive(SessionTests.hello(version: 3))
        let sent = SessionTests.sent(
            server.receive(.frontier([], head: Exemplars.position, isBehind: false)))
        guard case .hello(let hello)? = sent.first else { return (server, nil) }
        return (server, hello)
    }

    private func isAppended(_ actions: [Action]) -> Bool {
        actions.contains { if case .append = $0 { true } else { false } }
    }

    @Test("goes on in the next session behind what the one before had, and begins anew where it is another")
    func goesOn() throws {
        var first = server().session
        #expect(first.partial == nil)
        _ = first.receive(chunk(0..<90_000, of: upload))
        _ = first.receive(.disconnected)
        let kept = try #require(first.partial)
        #expect(kept.count == 90_000)

        var (second, hello) = server(kept: kept)
        #expect(hello?.kept == Frame.Kept(hash: hash64(upload), count: 90_000))
        #expect(isAppended(second.receive(chunk(90_000..<upload.count, of: upload))))
        #expect(second.partial == nil)

        var anew = server(kept: kept).session
        #expect(SessionTests.code(anew.receive(chunk(0..<50_000, of: upload))) == nil)
        #expect(anew.partial?.count == 50_000)

        var other = server(kept: kept).session
        let message = upload + [0]
        #expect(SessionTests.code(other.receive(chunk(0..<50_000, of: message))) == nil)
        #expect(other.partial?.hash == hash64(message))
    }

    @Test("a long part belongs to the session until its message is whole; without memory the peer comes back")
    func holds() {
        let message = Frame.upload([Exemplars.operation + [UInt8](repeating: 7, count: 900_000)]).encoded()
        let asked = Mutex<[Int]>([])
        var rich = server { bytes in
            asked.withLock { $0.append(bytes) }
            return true
        }.session
        for begin in stride(from: 0, to: message.count, by: 250_000) {
            _ = rich.receive(chunk(begin..<min(begin + 250_000, message.count), of: message))
        }
        #expect(asked.withLock(\.self) == [0, 262_144, 524_288, 0])
        var poor = server { $0 <= 262_144 }.session
        #expect(SessionTests.code(poor.receive(chunk(0..<500_000, of: message))) == nil)
        #expect(SessionTests.code(poor.receive(chunk(500_000..<600_000, of: message))) == "SYNC-0501")
    }

    @Test("a chunk for another place, a message within another, and one that is not what was named end it")
    func wrong() {
        var gap = server().session
        _ = gap.receive(chunk(0..<90_000, of: upload))
        #expect(SessionTests.code(gap.receive(chunk(90_001..<upload.count, of: upload))) == "SYNC-0101")
        var late = server().session
        #expect(SessionTests.code(late.receive(chunk(10..<90_000, of: upload))) == "SYNC-0101")
        var within = server().session
        _ = within.receive(chunk(0..<90_000, of: upload))
        #expect(SessionTests.code(within.receive(chunk(0..<90_000, of: upload + [1]))) == "SYNC-0101")
        var again = server().session
        _ = again.receive(chunk(0..<90_000, of: upload))
        #expect(SessionTests.code(again.receive(chunk(0..<90_000, of: upload))) == "SYNC-0101")
        var liar = server().session
        let actions = liar.receive(chunk(0..<upload.count, of: upload, hash: 9))
        #expect(SessionTests.code(actions) == "SYNC-0101")
        #expect(liar.partial == nil)
    }

    @Test("chunks that bring nothing, or next to nothing, end the session before they cost anything")
    func tiny() {
        for count in [0, 1, Limits.leastChunkBytes - 1] {
            var session = server().session
            #expect(SessionTests.code(session.receive(chunk(0..<count, of: upload))) == "SYNC-0101")
        }
        var last = server().session
        _ = last.receive(chunk(0..<upload.count - 1, of: upload))
        #expect(isAppended(last.receive(chunk(upload.count - 1..<upload.count, of: upload))))
    }

    @Test("who has kept something of one message gets another whole, and that one from its beginning")
    func anotherFirst() throws {
        var peer = Session(
            Session.Configuration(
                role: .peer, databaseID: "d", peerKey: "", wallMilliseconds: 5, access: .everything))
        _ = peer.receive(.opened)
        _ = peer.receive(.ownActors(OwnHistory()))
        let operations = (0..<2).map { Exemplars.operation + [UInt8](repeating: UInt8($0), count: 200_000) }
        var hello = Frame.Hello(
            version: 3, databaseID: "d", peerKey: "", wallMilliseconds: 9, credit: 1 << 20, actors: [],
            head: Exemplars.position)
        hello.kept = Frame.Kept(hash: hash64(Frame.upload([operations[1]]).encoded()), count: 50_000)
        _ = peer.receive(.frame(Frame.hello(hello).encoded()))
        _ = peer.receive(.seenNoted)
        _ = peer.receive(.ownOperationAdded(Exemplars.actor))
        let sent = SessionTests.sent(
            peer.receive(
                .ownOperations(
                    actor: Exemplars.actor,
                    operations.enumerated().map {
                        (sequence: SequenceNumber(UInt64($0.offset + 1)), bytes: $0.element)
                    })))
        var kept = PartialMessage(hash: try #require(hello.kept?.hash))
        kept.append([UInt8](repeating: 0, count: 50_000))
        var server = server(kept: kept).session
        let actions = sent.flatMap { server.receive(.frame($0.encoded())) }
        #expect(SessionTests.code(actions) == nil)
        #expect(isAppended(actions))
        #expect(server.admitter?.waitingUploads == 1)
    }

    @Test("a document that was fetched by itself goes on in the next session, wherever the log is by then")
    func fetched() throws {
        let large = EncodedState([UInt8](repeating: 3, count: 300_000))
        let keys = (0..<3).map { Exemplars.key(Int64($0)) }
        func answer(_ hello: Frame.Kept?, at offset: Offset) throws -> [Frame] {
            var server = Session(
                Session.Configuration(
                    role: .server(origin: 1), databaseID: "d", peerKey: "", wallMilliseconds: 5,
                    access: .everything))
            _ = server.receive(.opened)
            var greeting = Frame.Hello(
                version: 3, databaseID: "d", peerKey: "", wallMilliseconds: 9, credit: 1 << 20, actors: [],
                head: nil)
            greeting.kept = hello
            _ = server.receive(.frame(Frame.hello(greeting).encoded()))
            let position = LogPosition(logID: Exemplars.logID, offset: offset, hash: offset.rawValue)
            _ = server.receive(.frontier([], head: position, isBehind: false))
            _ = server.receive(.frame(Frame.want(keys).encoded()))
            return SessionTests.sent(
                server.receive(
                    .states(
                        [(keys[0], EncodedState([1])), (keys[1], large), (keys[2], EncodedState([2]))],
                        at: position)))
        }
        let first = try answer(nil, at: 9)
        guard case .states(let before, let position, _, _)? = first.first,
            case .chunk(_, let piece, let name, 0)? = first.dropFirst().first,
            case .states(let behind, _, _, _)? = first.last
        else {
            Issue.record("\(first.map(\.name))")
            return
        }
        #expect(before.map(\.key) == [keys[0]])
        #expect(behind.map(\.key) == [keys[2]])
        #expect(position?.offset == 9)
        let second = try answer(Frame.Kept(hash: name, count: UInt64(piece.count)), at: 20)
        guard case .chunk(_, _, name, let place)? = second.dropFirst().first else {
            Issue.record("the message has another name in the next session")
            return
        }
        #expect(place == UInt64(piece.count))
    }

    @Test("what a session sends begins small and grows as credit comes back")
    func burst() {
        var peer = SessionTests.openPeer(version: 3)
        func asked(_ actions: [Action]) -> Int? {
            actions.lazy.compactMap {
                if case .readOwnOperations(_, _, let bytes) = $0 { bytes } else { nil }
            }.first
        }
        #expect(asked(peer.receive(.ownOperationAdded(Exemplars.actor))) == Limits.firstBurstBytes)
        for _ in 0..<2 { _ = peer.receive(.frame(Frame.credit(1).encoded())) }
        let next = peer.receive(
            .ownOperations(
                actor: Exemplars.actor, [(sequence: SequenceNumber(1), bytes: Exemplars.operation)]))
        #expect(asked(next) == 4 * Limits.firstBurstBytes)
        for _ in 0..<9 { _ = peer.receive(.frame(Frame.credit(1).encoded())) }
        #expect(peer.flow.readBytes == Limits.batchBytes)
    }

    @Test("a link that carries 200 KB at a time brings 2 MB each way, and no part of a document twice")
    func breakingLink() {
        var link = BreakingLink(budget: 200_000, keeps: true)
        var connections = 0
        while !link.isDone, connections < 60 {
            link.connect()
            connections += 1
        }
        #expect(link.isDone)
        // What is lost is what was under way when the link broke: nothing is carried three times.
        #expect(connections < 24, "\(connections)")
        #expect(link.carriedTwice == 0)
        #expect(link.codes.isEmpty)
        // With nothing kept the large ones never arrive.
        var forgetful = BreakingLink(budget: 200_000, keeps: false)
        for _ in 0..<60 { forgetful.connect() }
        #expect(!forgetful.isDone)
    }
}
