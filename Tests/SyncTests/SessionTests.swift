import CRDT
import DQL
import Exchange
import Testing

@testable import Sync

@Suite("A session")
struct SessionTests {
    static func session(_ role: Session.Role, credit: Int = Limits.creditBytes) -> Session {
        Session(
            Session.Configuration(
                role: role, databaseID: "d", peerKey: "", wallMilliseconds: 5, creditBytes: credit,
                access: ReadAccess(collection: { !utf8Equal($0.text, "hidden") })))
    }

    static func hello(_ database: DatabaseID = "d", version: UInt64 = 3, credit: UInt64 = 1 << 20) -> Event {
        .frame(
            Frame.hello(
                Frame.Hello(
                    version: version, databaseID: database, peerKey: "", wallMilliseconds: 9, credit: credit,
                    actors: [], head: Exemplars.position)
            ).encoded())
    }

    /// A peer's session after the handshake.
    static func openPeer(version: UInt64 = 3) -> Session {
        var session = session(.peer)
        _ = session.receive(.opened)
        _ = session.receive(.ownActors(OwnHistory()))
        _ = session.receive(hello(version: version))
        _ = session.receive(.seenNoted)
        return session
    }

    /// A server's session after the handshake.
    static func openServer(
        credit: Int = Limits.creditBytes, theirCredit: UInt64 = 1 << 20, version: UInt64 = 3,
        isBehind: Bool = false
    ) -> Session {
        var session = session(.server(origin: 1), credit: credit)
        _ = session.receive(.opened)
        _ = session.receive(hello(version: version, credit: theirCredit))
        _ = session.receive(.frontier([], head: Exemplars.position, isBehind: isBehind))
        return session
    }

    @Test(
        "an actor whose history the server knows otherwise is repaired and told, not sent or acknowledged"
    )
    func forkedHistory() {
        let own = ActorHead(actor: ActorID(5), sequence: 9, hash: 1)
        let known = ActorHead(actor: ActorID(5), sequence: 4, hash: 2)
        var session = Self.session(.peer)
        _ = session.receive(.opened)
        _ = session.receive(.ownActors(OwnHistory(heads: [own])))
        let asked = session.receive(
            .frame(
                Frame.hello(
                    Frame.Hello(
                        version: 3, databaseID: "d", peerKey: "", wallMilliseconds: 9, credit: 1 << 20,
                        actors: [known], head: Exemplars.position)
                ).encoded()))
        #expect(!session.isOpen)
        #expect(asked.contains { if case .compareHistory([known], _) = $0 { true } else { false } })
        let actions = session.receive(
            .historyCompared([
                HistoryComparison(actor: ActorID(5), admitted: 0, state: .forked, isExact: true)
            ])
        )
        #expect(session.isOpen)
        #expect(actions.contains { if case .repair = $0 { true } else { false } })
        #expect(actions.contains { if case .report(.historyForked(ActorID(5))) = $0 { true } else { false } })
        #expect(!actions.contains { if case .acknowledge = $0 { true } else { false } })
        #expect(!actions.contains { if case .readOwnOperations = $0 { true } else { false } })
    }

    /// Lets the messages that a session sends grow to their full size, as credit comes back.
    static func grow(_ session: inout Session) {
        while session.flow.readBytes < Limits.batchBytes {
            _ = session.receive(.frame(Frame.credit(1).encoded()))
        }
    }

    static func code(_ actions: [Action]) -> String? {
        actions.lazy.compactMap { if case .close(let error) = $0 { error.code } else { nil } }.first
    }

    /// What is sent after an event for which documents are asked for, of which the store holds none.
    static func asked(_ session: inout Session, _ event: Event, held: [DocumentVersion] = []) -> [Frame] {
        let frames = sent(session.receive(event))
        return session.mayReceive(.vectors(held)) ? frames + sent(session.receive(.vectors(held))) : frames
    }

    static func sent(_ actions: [Action]) -> [Frame] {
        actions.compactMap { if case .send(let bytes) = $0 { try? Frame(decoding: bytes) } else { nil } }
    }

    private func subscribe(_ id: UInt64, _ statement: String) -> Event {
        .frame(
            Frame.subscribe(
                Frame.Subscribe(
                    id: id, statement: statement, arguments: .object(ObjectValue()), cursor: nil)
            ).encoded())
    }

    @Test("both ends open after one hello each way")
    func handshake() {
        #expect(Self.openPeer().isOpen)
        #expect(Self.openServer().isOpen)
    }

    @Test("an old version, another database and a second hello close with their codes")
    func wrongHello() {
        var old = Self.session(.server(origin: 1))
        _ = old.receive(.opened)
        #expect(Self.code(old.receive(Self.hello(version: 2))) == "SYNC-0201")
        var foreign = Self.session(.server(origin: 1))
        _ = foreign.receive(.opened)
        #expect(Self.code(foreign.receive(Self.hello("other"))) == "SYNC-0202")
        var twice = Self.session(.server(origin: 1))
        _ = twice.receive(.opened)
        _ = twice.receive(Self.hello())
        #expect(Self.code(twice.receive(Self.hello())) == "SYNC-0104")
        var early = Self.session(.peer)
        _ = early.receive(.opened)
        #expect(Self.code(early.receive(Self.hello())) == "SYNC-0104")
    }

    @Test("a closed session tells the other side why, once, and does nothing more")
    func closing() {
        var session = Self.openServer()
        let actions = session.receive(.finish(SyncError(.goingAway, "later")))
        #expect(Self.sent(actions) == [.close(SyncError(.goingAway, "later"))])
        #expect(Self.code(actions) == "SYNC-0503")
        #expect(session.receive(Self.hello()).isEmpty)
        #expect(session.isClosed)
    }

    @Test("a failed action ends the session as unavailable")
    func failure() {
        var session = Self.openPeer()
        #expect(Self.code(session.receive(.failed("disk"))) == "SYNC-0501")
    }

    @Test("a frame over 1 MiB and a message over its limit in chunks are too large")
    func largeFrames() {
        var session = Self.openPeer()
        #expect(
            Self.code(session.receive(.frame([UInt8](repeating: 0, count: Limits.frameBytes + 1))))
                == "SYNC-0103")
        var chunked = Self.openPeer()
        let codes = (0..<21 as Range<UInt64>).compactMap { number in
            let part = Frame.chunk(
                isLast: false, [UInt8](repeating: 0, count: 1_000_000), of: 7, at: number * 1_000_000)
            return Self.code(chunked.receive(.frame(part.encoded())))
        }
        #expect(codes == ["SYNC-0103"])
    }

    @Test("a message larger than a frame leaves in chunks that its receiver puts together")
    func chunks() {
        var peer = Self.openPeer()
        Self.grow(&peer)
        _ = peer.receive(.ownOperationAdded(Exemplars.actor))
        let large = Exemplars.operation + [UInt8](repeating: 7, count: 3_000_000)
        let own = Event.ownOperations(
            actor: Exemplars.actor, [(sequence: SequenceNumber(1), bytes: large)])
        let frames = peer.receive(own).compactMap { action -> [UInt8]? in
            if case .send(let bytes) = action { bytes } else { nil }
        }
        #expect(frames.count == 4)
        #expect(frames.allSatisfy { $0.count <= Limits.frameBytes })
        var server = Self.openServer()
        let appended = frames.flatMap { server.receive(.frame($0)) }.compactMap { action -> [[UInt8]]? in
            if case .append(let operations, _, _) = action { operations } else { nil }
        }
        #expect(appended == [[large]])
    }

    @Test("data without credit closes the session")
    func creditViolation() {
        var server = Self.openServer(credit: 10)
        let upload = Event.frame(Frame.upload([Exemplars.operation]).encoded())
        #expect(Self.code(server.receive(upload)) == nil)
        #expect(Self.code(server.receive(upload)) == "SYNC-0105")
    }

    @Test("a page waits for credit, and credit lets it go")
    func creditHoldsBack() {
        var server = Self.openServer(theirCredit: 1)
        Self.grow(&server)
        _ = server.receive(subscribe(1, "SELECT * FROM cars"))
        let documents = (0..<4).map {
            DocumentUpdate(
                key: Exemplars.key($0), content: .state(EncodedState([UInt8](repeating: 7, count: 200_000))))
        }
        let page = CatchUpPage(documents: documents, candidates: [], offset: 300, head: Exemplars.position)
        #expect(Self.sent(server.receive(.page(subscription: 1, page))).count == 1)
        #expect(Self.sent(server.receive(.frame(Frame.credit(300_000).encoded()))).count == 1)
        #expect(Self.sent(server.receive(.frame(Frame.credit(2_000_000).encoded()))).count == 2)
    }

    @Test("a subscription that does not parse or is not granted is refused and the session goes on")
    func refusedSubscriptions() {
        var server = Self.openServer()
        let malformed = Self.sent(server.receive(subscribe(1, "SELECT FROM")))
        #expect(malformed.map(\.name) == ["subscriptionRefused"])
        guard case .subscriptionRefused(1, let reason, false)? = malformed.first else { return }
        #expect(reason.code == "SYNC-0301")
        let hidden = Self.sent(server.receive(subscribe(2, "SELECT * FROM hidden")))
        guard case .subscriptionRefused(2, let second, false)? = hidden.first else { return }
        #expect(second.code == "SYNC-0302")
        #expect(server.isOpen)
    }

    @Test("a subscription whose page takes too long is refused, and the next one is read")
    func costlyPage() {
        var server = Self.openServer()
        let first = server.receive(subscribe(1, "SELECT * FROM c"))
        #expect(first.contains { if case .readPage(1, _, _, _, _) = $0 { true } else { false } })
        _ = server.receive(subscribe(2, "SELECT * FROM d"))
        let after = server.receive(.tooCostly(subscription: 1))
        guard case .subscriptionRefused(1, let reason, false)? = Self.sent(after).first else {
            Issue.record("the subscription is refused")
            return
        }
        #expect(reason.code == "SYNC-0303")
        #expect(SyncErrorCode(rawValue: reason.code)?.remedies == [.subscription: .tellApplication])
        #expect(after.contains { if case .readPage(2, _, _, _, _) = $0 { true } else { false } })
        #expect(server.isOpen)
        #expect(!server.mayReceive(.tooCostly(subscription: 1)), "it is answered")
    }

    @Test("a live subscription that is interrupted is refused, and the others get the change")
    func costlyChange() {
        var configuration = Session.Configuration(
            role: .server(origin: 1), databaseID: "d", peerKey: "", wallMilliseconds: 5, access: .everything)
        configuration.interruption = { id in { id == 1 ? .timeout : nil } }
        var server = Session(configuration)
        _ = server.receive(.opened)
        _ = server.receive(Self.hello())
        _ = server.receive(.frontier([], head: Exemplars.position, isBehind: false))
        let condition = "ANY v IN ARRAY w FOR w IN split(repeat('a,', 1000), ',') END SATISFIES v = 'b' END"
        let collection = Exemplars.key(1).collection
        for (id, statement) in [
            (UInt64(1), "SELECT * FROM \(collection) WHERE \(condition)"), (2, "SELECT * FROM \(collection)"),
        ] {
            _ = server.receive(subscribe(id, statement))
            _ = server.receive(
                .page(
                    subscription: id,
                    CatchUpPage(
                        documents: [], candidates: [], offset: Exemplars.position.offset,
                        head: Exemplars.position)))
        }
        var editor = DocumentEditor(
            document: Document(), pending: DocumentEditor.Pending(base: VersionVector()),
            stamp: Stamp(time: 1, actor: ActorID(9)))
        editor.create()
        let position = LogPosition(
            logID: Exemplars.position.logID, offset: Exemplars.position.offset.next, hash: 1)
        let change = FoldedOperation.Change(
            key: Exemplars.key(1), delta: nil, before: nil, after: editor.document.encoded())
        let operation = FoldedOperation(
            position: position, stamp: Stamp(time: 1, actor: ActorID(9)), origin: nil, changes: [change])
        let told = Self.sent(server.receive(.operations([operation], through: position)))
        #expect(Set(told.map(\.name)) == ["subscriptionRefused", "operations"], "\(told)")
        #expect(server.isOpen)
    }

    @Test("frames of the other role are unexpected")
    func wrongRole() {
        var server = Self.openServer()
        #expect(
            Self.code(server.receive(.frame(Frame.progress(Exemplars.position).encoded()))) == "SYNC-0104")
        var peer = Self.openPeer()
        #expect(Self.code(peer.receive(.frame(Frame.want([]).encoded()))) == "SYNC-0104")
    }

    @Test("states that nobody asked for are unexpected")
    func unaskedStates() {
        var peer = Self.openPeer()
        let states = Frame.states([(key: Exemplars.key(1), state: nil)])
        #expect(Self.code(peer.receive(.frame(states.encoded()))) == "SYNC-0104")
    }

    @Test("more wanted documents than may wait close the session")
    func tooManyWanted() {
        var server = Self.openServer()
        let want = Event.frame(Frame.want((0..<1_024).map { Exemplars.key($0) }).encoded())
        let codes = (0..<6).compactMap { _ in Self.code(server.receive(want)) }
        #expect(codes == ["SYNC-0105"])
    }

    @Test(
        "what was on its way to a document gives way to the server's later state of it, or to none",
        arguments: [nil, [1]] as [EncodedState?])
    func wantedOfLater(state: EncodedState?) {
        var peer = Self.openPeer()
        let operations = Frame.operations(
            Frame.Operations(position: Exemplars.position, updates: [Exemplars.delta]))
        func stored(_ event: Event) -> [[DocumentUpdate]] {
            peer.receive(event).compactMap { if case .store(let batch) = $0 { batch.updates } else { nil } }
        }
        #expect(stored(.frame(operations.encoded())) == [[Exemplars.delta]])
        #expect(stored(.wanting([Exemplars.delta.key])).isEmpty)
        #expect(stored(.vectors([])).isEmpty)
        let states = Frame.states([(key: Exemplars.delta.key, state: state)])
        let later = state.map { DocumentUpdate(key: Exemplars.delta.key, content: .state($0)) }
        #expect(stored(.frame(states.encoded())) == [[later].compactMap { $0 }])
        #expect(Self.code(peer.receive(.stored)) == nil)
    }

    @Test("what is held is named with a want, and what of it is gone goes before its state, in one step")
    func gone() {
        var peer = Self.openPeer()
        let (key, other) = (Exemplars.gone.key, Exemplars.key(1))
        let held = [DocumentVersion(key: key, vector: Exemplars.vector)]
        #expect(Self.asked(&peer, .wanted([key, other]), held: held) == [.want([key, other], held: held)])
        // A large state comes in a message of its own, behind what is gone of it.
        #expect(
            peer.receive(.frame(Frame.states([(key: other, state: nil)], gone: held).encoded())).count == 1)
        let stored = peer.receive(.frame(Frame.states([(key: key, state: [1])]).encoded()))
        let updates = stored.compactMap { if case .store(let batch) = $0 { batch.updates } else { nil } }
        #expect(updates == [[Exemplars.gone, DocumentUpdate(key: key, content: .state([1]))]])
        #expect(Self.code(peer.receive(.frame(Frame.states([], gone: held).encoded()))) == "SYNC-0104")
    }

    @Test("what is gone is told before the state, of what may be read")
    func tellsGone() {
        let held = [3, 4].map { DocumentVersion(key: Exemplars.key($0), vector: Exemplars.vector) }
        for size in [1, Limits.firstBurstBytes + 1] {
            var server = Self.openServer()
            let want = Frame.want(held.map(\.key), held: held)
            let reads = server.receive(.frame(want.encoded())).compactMap {
                if case .readStates(let keys, let named) = $0 { (keys, named) } else { nil }
            }
            #expect(reads.count == 1 && reads[0] == (held.map(\.key), held))
            let state: EncodedState? = EncodedState([UInt8](repeating: 1, count: size))
            let states = held.map { (key: $0.key, state: state) }
            var told: Set<DocumentKey> = []
            for frame in Self.sent(server.receive(.states(states, at: Exemplars.position, gone: held))) {
                guard case .states(let states, _, _, let gone) = frame else { continue }
                told.formUnion(gone.map(\.key))
                #expect(told.isSuperset(of: states.map(\.key)))
            }
            #expect(told == Set(held.map(\.key)))
        }
        var server = Self.openServer()
        let broken = [DocumentVersion(key: Exemplars.key(3), vector: [0xFF])]
        let want = Frame.want(broken.map(\.key), held: broken)
        #expect(Self.code(server.receive(.frame(want.encoded()))) == "SYNC-0101")
    }

    @Test("a base that its own fetched state does not cover closes the session instead of asking for ever")
    func endlessWanting() {
        var peer = Self.openPeer()
        let operations = Frame.operations(
            Frame.Operations(position: Exemplars.position, updates: [Exemplars.delta]))
        _ = peer.receive(.frame(operations.encoded()))
        #expect(Self.asked(&peer, .wanting([Exemplars.key(2)])) == [.want([Exemplars.key(2)])])
        let states = Frame.states([(key: Exemplars.key(2), state: nil)])
        _ = peer.receive(.frame(states.encoded()))
        #expect(Self.code(peer.receive(.wanting([Exemplars.key(2)]))) == "SYNC-0405")
    }

    @Test(
        "a writer is told what its write became where a subscription is live, though another one catches up")
    func answers() throws {
        let key = DocumentKey(collection: "c", id: Exemplars.key(1).id)
        func answer(live: String?, with stamp: Stamp) throws -> [Frame] {
            var server = Self.openServer()
            let statements = [live, "SELECT * FROM c"].compactMap { $0 }
            for (number, statement) in statements.enumerated() {
                let subscribe = Frame.Subscribe(
                    id: UInt64(number + 1), statement: statement, arguments: .object(ObjectValue()))
                _ = server.receive(.frame(Frame.subscribe(subscribe).encoded()))
            }
            if live != nil {
                let end = CatchUpPage(documents: [], candidates: [], offset: 300, head: Exemplars.position)
                _ = server.receive(.page(subscription: 1, end))
            }
            var editor = DocumentEditor(document: Document(), stamp: stamp)
            editor.create()
            try editor.set(["n"], .int(1))
            let delta = try #require(editor.pending.delta(stamp: stamp))
            var other = DocumentEditor(document: Document(), stamp: Stamp(time: 7, actor: ActorID(9)))
            other.create()
            var merged = other.document
            merged.merge(editor.document)
            let change = FoldedOperation.Change(
                key: key, delta: delta.encoded(), before: other.document.encoded(), after: merged.encoded())
            let position = LogPosition(logID: Exemplars.logID, offset: 301, hash: 1)
            let operation = FoldedOperation(position: position, stamp: stamp, origin: 1, changes: [change])
            return Self.sent(server.receive(.operations([operation], through: position))).filter { frame in
                if case .operations = frame { true } else { false }
            }
        }
        let stamp = Stamp(time: 8, actor: ActorID(5))
        #expect(try answer(live: nil, with: stamp).isEmpty)
        #expect(try answer(live: "SELECT * FROM d", with: stamp).isEmpty)
        #expect(try answer(live: "SELECT * FROM c WHERE n > 5", with: stamp).count == 1)
    }

    @Test("an own commit during a read is read afterwards")
    func commitDuringRead() {
        var peer = Self.openPeer()
        #expect(peer.receive(.ownOperationAdded(Exemplars.actor)).count == 1)
        #expect(peer.receive(.ownOperationAdded(Exemplars.actor)).isEmpty)
        #expect(peer.receive(.ownOperations(actor: Exemplars.actor, [])).count == 1)
    }

    @Test("an acknowledgement of what was not sent ends the session: what is acknowledged is forgotten")
    func acknowledgedTooFar() {
        for (actor, sequence, isTaken) in [
            (Exemplars.actor, 1, true), (Exemplars.actor, 2, false), (Exemplars.actor, .max, false),
            (ActorID(77), 1, false),
        ] as [(ActorID, UInt64, Bool)] {
            var peer = Self.openPeer()
            _ = peer.receive(.ownOperationAdded(Exemplars.actor))
            _ = peer.receive(.ownOperations(actor: Exemplars.actor, [(sequence: 1, bytes: [1])]))
            let frame = Frame.acknowledged([
                Acknowledgement(actor: actor, sequence: SequenceNumber(sequence))
            ])
            let actions = peer.receive(.frame(frame.encoded()))
            let isForgotten = actions.contains { if case .acknowledge = $0 { true } else { false } }
            let codes = actions.compactMap { if case .close(let error) = $0 { error.code } else { nil } }
            #expect(isForgotten == isTaken)
            #expect(codes == (isTaken ? [] : [SyncErrorCode.unexpectedMessage.rawValue]))
        }
    }

    @Test("credit in a greeting is bounded as all credit is")
    func creditOfGreeting() {
        #expect(Self.openServer(theirCredit: 1_000).flow.sendCredit == 1_000)
        #expect(Self.openServer(theirCredit: .max).flow.sendCredit == 2 * Limits.messageBytes)
    }

    @Test("a wanted document is asked for only when the server has every earlier own write")
    func wantedAfterWrites() {
        var peer = Self.openPeer()
        _ = peer.receive(.ownOperationAdded(Exemplars.actor))
        #expect(Self.sent(peer.receive(.wanted([Exemplars.key(1)]))).isEmpty)
        let upload = peer.receive(.ownOperations(actor: Exemplars.actor, [(sequence: 1, bytes: [1])]))
        #expect(Self.sent(upload).map(\.name) == ["upload"])
        #expect(Self.sent(peer.receive(.ownOperations(actor: Exemplars.actor, []))).isEmpty)
        let acknowledged = Frame.acknowledged([Acknowledgement(actor: Exemplars.actor, sequence: 1)])
        #expect(Self.asked(&peer, .frame(acknowledged.encoded())) == [.want([Exemplars.key(1)])])
    }
}
