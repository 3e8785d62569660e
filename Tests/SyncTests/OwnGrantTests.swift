import CRDT
import Exchange
import Synchronization
import Testing

@testable import Sync

@Suite("A peer's own grant")
struct OwnGrantTests {
    private static let actor = ActorID(5)

    /// A peer's session that may not write `cars`, after the handshake, about to read what it wrote.
    private func session(mayWrite: (@Sendable () -> Session.WriteRules?)? = nil) -> Session {
        var session = Session(
            Session.Configuration(
                role: .peer, databaseID: "d", peerKey: "", wallMilliseconds: 5, access: .everything,
                writeRules: mayWrite ?? { { $0.collection != "cars" } }))
        _ = session.receive(.opened)
        _ = session.receive(.ownActors(OwnHistory()))
        _ = session.receive(SessionTests.hello())
        _ = session.receive(.seenNoted)
        let actions = session.receive(.ownOperationAdded(Self.actor))
        #expect(reads(actions) == [0])
        return session
    }

    private func operation(_ sequence: SequenceNumber, _ collections: String...) throws
        -> (sequence: SequenceNumber, bytes: [UInt8])
    {
        let changes = try collections.map { collection in
            let stamp = Stamp(time: sequence.rawValue << 16, actor: Self.actor)
            var editor = DocumentEditor(document: Document(), stamp: stamp)
            editor.create()
            let delta = try #require(editor.pending.delta(stamp: stamp)).encoded()
            return Operation.Change(
                collection: CollectionName(collection), id: try DocumentID(.string("a")), delta: delta)
        }
        let operation = Operation(
            actor: Self.actor, sequence: sequence, timestamp: sequence.rawValue << 16, changes: changes)
        return (sequence, operation.encoded())
    }

    /// From which sequences on own operations are read.
    private func reads(_ actions: [Action]) -> [SequenceNumber] {
        actions.compactMap { if case .readOwnOperations(_, let after, _) = $0 { after } else { nil } }
    }

    private func uploads(_ actions: [Action]) -> [Int] {
        SessionTests.sent(actions).compactMap { if case .upload(let sent) = $0 { sent.count } else { nil } }
    }

    private func repairs(_ actions: [Action]) -> [RepairRequest] {
        actions.compactMap { if case .repair(let repair) = $0 { repair } else { nil } }
    }

    @Test("what may be written leaves; what may not is refused here, when all before it is answered")
    func order() throws {
        var session = session()
        let all = [
            try operation(1, "boats"), try operation(2, "boats"), try operation(3, "boats", "cars"),
            try operation(4, "boats"),
        ]
        let sent = session.receive(.ownOperations(actor: Self.actor, all))
        #expect(uploads(sent) == [2] && repairs(sent).isEmpty && reads(sent).isEmpty)
        // What is written meanwhile waits too: the order is the author's.
        #expect(reads(session.receive(.ownOperationAdded(Self.actor))).isEmpty)
        let half = Frame.acknowledged([Acknowledgement(actor: Self.actor, sequence: 1)])
        #expect(reads(session.receive(.frame(half.encoded()))).isEmpty)
        let rest = Frame.acknowledged([Acknowledgement(actor: Self.actor, sequence: 2)])
        #expect(reads(session.receive(.frame(rest.encoded()))) == [2])
        // From the first that is forbidden on everything is read, to its end: one repair sets all aside.
        #expect(reads(session.receive(.ownOperations(actor: Self.actor, Array(all[2...])))) == [2])
        let more = [try operation(5, "cars"), try operation(6, "boats")]
        #expect(reads(session.receive(.ownOperations(actor: Self.actor, Array(all[2...])))) == [4])
        #expect(reads(session.receive(.ownOperations(actor: Self.actor, more))) == [6])
        let refused = session.receive(.ownOperations(actor: Self.actor, []))
        #expect(uploads(refused).isEmpty && reads(refused).isEmpty)
        let repair = try #require(repairs(refused).first)
        #expect(repair.refused.map(\.sequence) == [3, 5])
        #expect(repair.refused.map(\.error.code) == ["SYNC-0401", "SYNC-0401"])
        #expect(repair.refused.first?.documents.map(\.collection) == ["boats", "cars"])
        #expect(repair.closed == [Self.actor] && repair.admitted == [Self.actor: 2])
    }

    @Test("the first one of a new actor is refused, and nothing of it leaves")
    func first() throws {
        var session = session()
        let all = [try operation(1, "cars")]
        #expect(reads(session.receive(.ownOperations(actor: Self.actor, all))) == [0])
        #expect(reads(session.receive(.ownOperations(actor: Self.actor, all))) == [1])
        let actions = session.receive(.ownOperations(actor: Self.actor, []))
        #expect(uploads(actions).isEmpty && repairs(actions).map { $0.refused.count } == [1])
    }

    @Test("a newer token that allows it lets it leave after all")
    func allowedMeanwhile() throws {
        final class Rules: Sendable {
            let isWide = Atomic(false)
        }
        let rules = Rules()
        var session = session(mayWrite: {
            let isWide = rules.isWide.load(ordering: .relaxed)
            return { isWide || $0.collection != "cars" }
        })
        let all = [try operation(1, "cars")]
        #expect(reads(session.receive(.ownOperations(actor: Self.actor, all))) == [0])
        #expect(reads(session.receive(.ownOperations(actor: Self.actor, all))) == [1])
        rules.isWide.store(true, ordering: .relaxed)
        let over = session.receive(.ownOperations(actor: Self.actor, []))
        #expect(repairs(over).isEmpty && reads(over) == [0])
        #expect(uploads(session.receive(.ownOperations(actor: Self.actor, all))) == [1])
    }

    @Test("without rules all is left to the server")
    func unknown() throws {
        for rules: (@Sendable () -> Session.WriteRules?)? in [{ nil }, { { _ in true } }] {
            var session = session(mayWrite: rules)
            let all = [try operation(1, "cars"), try operation(2, "boats")]
            let actions = session.receive(.ownOperations(actor: Self.actor, all))
            #expect(uploads(actions) == [2] && repairs(actions).isEmpty)
        }
    }
}
