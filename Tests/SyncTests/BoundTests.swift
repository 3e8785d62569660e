import CRDT
import DQL
import Exchange
import Synchronization
import Testing

@testable import Sync

@Suite("What a session holds for the other side is bounded in bytes")
struct BoundTests {
    private func subscribe(_ id: UInt64, _ statement: String = "SELECT * FROM cars") -> Event {
        .frame(
            Frame.subscribe(
                Frame.Subscribe(id: id, statement: statement, arguments: .object(ObjectValue()))
            ).encoded())
    }

    private func document(_ id: Int64, _ bytes: Int) -> DocumentUpdate {
        DocumentUpdate(
            key: Exemplars.key(id), content: .state(EncodedState([UInt8](repeating: 7, count: bytes))))
    }

    @Test("a peer that grants no credit costs one page and one run of the stream, and nothing more is read")
    func noCredit() {
        var server = SessionTests.openServer(theirCredit: 1)
        SessionTests.grow(&server)
        _ = server.receive(subscribe(1))
        let page = CatchUpPage(
            documents: (0..<3).map { document($0, 250_000) }, candidates: [], offset: 200, head: nil)
        _ = server.receive(.page(subscription: 1, page))
        let change = FoldedOperation.Change(
            key: Exemplars.key(1), delta: nil, before: nil,
            after: EncodedState([UInt8](repeating: 7, count: 100)))
        let operation = FoldedOperation(
            position: Exemplars.position, stamp: Stamp(time: 1, actor: Exemplars.actor), origin: nil,
            changes: [change])
        let asked = server.receive(.operations([operation], through: Exemplars.position))
        #expect(!asked.contains { if case .readPage = $0 { true } else { false } })
        #expect(!asked.contains { if case .awaitOperations = $0 { true } else { false } })
        #expect(server.flow.waitingBytes > 400_000 && server.flow.waitingBytes < 600_000)
        let freed = server.receive(.frame(Frame.credit(4 << 20).encoded()))
        #expect(server.flow.waitingBytes == 0)
        #expect(freed.contains { if case .readPage = $0 { true } else { false } })
    }

    @Test("more waiting bytes than a session may hold end it")
    func waitingBytes() {
        var server = SessionTests.openServer(theirCredit: 1)
        _ = server.receive(subscribe(1))
        let page = CatchUpPage(
            documents: (0..<8).map { document($0, 15 << 20) }, candidates: [], offset: 200, head: nil)
        #expect(SessionTests.code(server.receive(.page(subscription: 1, page))) == "SYNC-0501")
    }

    @Test("a peer that floods a server with uploads is held by its credit, though nothing is answered")
    func flood() {
        var server = SessionTests.openServer(credit: 10_000)
        let upload = Event.frame(
            Frame.upload((0..<20).map { _ in Exemplars.operation + [UInt8](repeating: 0, count: 80) })
                .encoded())
        var codes: [String] = []
        var taken = 0
        for _ in 0..<50 where codes.isEmpty {
            codes += [SessionTests.code(server.receive(upload))].compactMap(\.self)
            taken += 1
        }
        #expect(codes == ["SYNC-0105"])
        #expect(taken < 10)
    }

    @Test("a peer that floods a server with what it holds is held by its credit too")
    func heldFlood() {
        var server = SessionTests.openServer(credit: 2_000)
        var request = Frame.Subscribe(
            id: 1, statement: "SELECT * FROM cars", arguments: .object(ObjectValue()))
        request.holds = true
        let asked = SessionTests.sent(server.receive(.frame(Frame.subscribe(request).encoded())))
        #expect(asked == [.list(id: 1)])
        var codes: [String] = []
        for number in 0..<20 where codes.isEmpty {
            let candidates = (0..<20).map {
                DocumentVersion(key: Exemplars.key(Int64(number * 20 + $0)), vector: Exemplars.vector)
            }
            let frame = Frame.held(id: 1, candidates, isLast: false)
            codes += [SessionTests.code(server.receive(.frame(frame.encoded())))].compactMap(\.self)
        }
        #expect(codes == ["SYNC-0105"])
    }

    @Test("a server that never acknowledges costs a peer no memory: what was sent stays in the store only")
    func neverAcknowledged() {
        var peer = SessionTests.openPeer()
        _ = peer.receive(.ownOperationAdded(Exemplars.actor))
        let bytes = [UInt8](repeating: 1, count: 100_000)
        var sent = 0
        for number in 1...200 as ClosedRange<UInt64> {
            let actions = peer.receive(
                .ownOperations(actor: Exemplars.actor, [(sequence: SequenceNumber(number), bytes: bytes)]))
            sent +=
                SessionTests.sent(actions).filter { frame in
                    if case .chunk(let isLast, _, _, _) = frame { isLast } else { true }
                }.count
            guard actions.contains(where: { if case .readOwnOperations = $0 { true } else { false } }) else {
                break
            }
        }
        // The server's first credit, one message more at most, and it reads no further.
        #expect(sent <= 12)
        #expect(peer.flow.waitingBytes <= 100_100)
    }

    @Test("subscriptions that take more bytes than a message may have end the session")
    func subscriptionBytes() {
        var server = SessionTests.openServer()
        func subscribe(_ id: UInt64, _ bytes: Int) -> String? {
            let text = Value.string(String(repeating: "x", count: bytes))
            let arguments = ObjectValue([(key: "a", value: text)])
            let frame = Frame.subscribe(
                Frame.Subscribe(
                    id: id, statement: "SELECT * FROM cars WHERE a = :a", arguments: .object(arguments)))
            return SessionTests.code(server.receive(.frame(frame.encoded())))
        }
        // Nineteen fit, and so do others in the place of one that has ended.
        for id in 1...19 as ClosedRange<UInt64> { #expect(subscribe(id, 1_040_000) == nil) }
        _ = server.receive(.frame(Frame.unsubscribe(id: 7).encoded()))
        #expect(subscribe(20, 1_040_000) == nil)
        #expect(subscribe(21, 1_040_000) == nil)
        #expect(subscribe(22, 1_040_000) == "SYNC-0105")
        #expect(server.isClosed)
    }

    @Test("long subscriptions hold memory until they end, and are refused where there is none")
    func subscriptionMemory() {
        let held = Mutex(0)
        var configuration = Session.Configuration(
            role: .server(origin: 1), databaseID: "d", peerKey: "", wallMilliseconds: 5,
            access: ReadAccess(collection: { _ in true }))
        configuration.holding = { bytes in
            held.withLock { held in
                if bytes <= 1_000_000 { held = bytes }
                return bytes <= 1_000_000
            }
        }
        var server = Session(configuration)
        _ = server.receive(.opened)
        _ = server.receive(SessionTests.hello(version: 3, credit: 1 << 20))
        _ = server.receive(.frontier([], head: Exemplars.position, isBehind: false))
        func refusal(_ id: UInt64, _ statement: String, _ text: Int = 0) -> String? {
            let arguments = ObjectValue([(key: "a", value: .string(String(repeating: "x", count: text)))])
            let frame = Frame.subscribe(
                Frame.Subscribe(id: id, statement: statement, arguments: .object(arguments)))
            let actions = server.receive(.frame(frame.encoded()))
            return SessionTests.sent(actions).compactMap { frame -> String? in
                guard case .subscriptionRefused(id, let error, _) = frame else { return nil }
                return error.code
            }.first
        }
        let long = "SELECT * FROM cars WHERE " + (0..<1_000).map { "a = \($0)" }.joined(separator: " OR ")
        #expect(refusal(1, "SELECT * FROM cars WHERE a = :a", 1_000) == nil)
        #expect(held.withLock { $0 } == 0)
        #expect(refusal(2, "SELECT * FROM cars WHERE a = :a", 400_000) == nil)
        #expect(held.withLock { 400_000..<500_000 ~= $0 })
        #expect(refusal(3, long) == SyncErrorCode.subscriptionTooCostly.rawValue)
        let wrong = refusal(4, "SELECT * FROM cars WHERE a = ", 400_000)
        #expect(wrong == SyncErrorCode.invalidSubscription.rawValue)
        #expect(held.withLock { 400_000..<500_000 ~= $0 })
        _ = server.receive(.frame(Frame.unsubscribe(id: 2).encoded()))
        #expect(held.withLock { $0 } == 0)
        // Its parsing needs memory too.
        let unparsed = Preparation.interrupted(by: { .cancelled }) { refusal(5, long) }
        #expect(unparsed == SyncErrorCode.subscriptionTooCostly.rawValue)
        #expect(held.withLock { $0 } == 0)
        #expect(refusal(6, long) == nil)
        #expect(held.withLock { $0 > 600_000 })
        #expect(!server.isClosed)
    }

    @Test("positions that come faster than they are stored wait as one")
    func positions() {
        var peer = SessionTests.openPeer()
        for offset in 301...2_000 as ClosedRange<UInt64> {
            let position = LogPosition(logID: Exemplars.logID, offset: Offset(offset), hash: 1)
            _ = peer.receive(.frame(Frame.progress(position).encoded()))
        }
        #expect(peer.reader?.waitingItems == 2)
        let stored = peer.receive(.stored).compactMap {
            if case .store(let batch) = $0 { batch } else { nil }
        }
        #expect(stored.map(\.streamed) == [2_000])
    }

    @Test("a few positions that were passed over wait, and no more")
    func skippedPositions() {
        var peer = SessionTests.openPeer()
        func position(_ offset: Offset, skipped: Bool) -> [Action] {
            let position = LogPosition(logID: Exemplars.logID, offset: offset, hash: 1)
            return peer.receive(.frame(Frame.progress(position, skipped: skipped).encoded()))
        }
        var codes: [String] = []
        for offset in 301...700 as ClosedRange<UInt64> {
            codes += position(Offset(offset), skipped: offset.isMultiple(of: 2)).compactMap {
                if case .close(let error) = $0 { error.code } else { nil }
            }
            if codes.isEmpty { #expect((peer.reader?.waitingItems ?? 0) <= 2 * Limits.skippedPositions + 2) }
        }
        #expect(codes == [SyncErrorCode.creditExceeded.rawValue])
    }

    @Test("a server that asks what is held, and asks again before it was told, is sent away")
    func lists() throws {
        var peer = SessionTests.openPeer()
        let live = SubscriptionRequest(
            key: [1], statement: "SELECT * FROM c", arguments: .object(ObjectValue()), cursor: nil)
        _ = peer.receive(.subscribe(live))
        let id: UInt64 = 1
        // One that nobody holds any more is no matter.
        #expect(peer.receive(.frame(Frame.list(id: 99).encoded())).isEmpty)
        // Something is being stored, so they wait.
        let position = LogPosition(logID: Exemplars.logID, offset: 301, hash: 1)
        _ = peer.receive(.frame(Frame.progress(position).encoded()))
        #expect(peer.receive(.frame(Frame.list(id: id).encoded())).isEmpty)
        let actions = peer.receive(.frame(Frame.list(id: id).encoded()))
        let codes = actions.compactMap { if case .close(let error) = $0 { error.code } else { nil } }
        #expect(codes == [SyncErrorCode.unexpectedMessage.rawValue])
    }

    @Test("what comes while something is stored is stored together, up to its last position")
    func together() {
        var peer = SessionTests.openPeer()
        var stores: [Reception] = []
        func take(_ actions: [Action]) {
            stores += actions.compactMap { if case .store(let batch) = $0 { batch } else { nil } }
        }
        for number in 1...5 as ClosedRange<UInt64> {
            let position = LogPosition(logID: Exemplars.logID, offset: Offset(300 + number), hash: number)
            let update = DocumentUpdate(key: Exemplars.key(Int64(number)), content: .state([1]))
            let frame = Frame.operations(Frame.Operations(position: position, updates: [update]))
            take(peer.receive(.frame(frame.encoded())))
        }
        #expect(stores.map { $0.updates.count } == [1])
        let freed = peer.receive(.stored)
        take(freed)
        #expect(stores.map { $0.updates.count } == [1, 4])
        #expect(stores.last?.updates.map(\.key) == (2...5).map { Exemplars.key($0) })
        #expect(stores.last?.streamed == 305)
        let returned = SessionTests.sent(peer.receive(.stored)).compactMap { frame -> UInt64? in
            if case .credit(let bytes) = frame { bytes } else { nil }
        }
        #expect(peer.flow.receiveCredit == Limits.creditBytes)
        #expect(returned.count == 1)
    }

    @Test("of what waits a part of the credit is stored at a time, so that more comes meanwhile")
    func parts() {
        var peer = SessionTests.openPeer()
        var sizes: [Int] = []
        func take(_ actions: [Action]) {
            for case .store(let batch) in actions { sizes.append(batch.updates.count) }
        }
        for number in 1...9 as ClosedRange<UInt64> {
            let position = LogPosition(logID: Exemplars.logID, offset: Offset(300 + number), hash: number)
            let frame = Frame.operations(
                Frame.Operations(position: position, updates: [document(Int64(number), 400_000)]))
            take(peer.receive(.frame(frame.encoded())))
        }
        while sizes.reduce(0, +) < 9 { take(peer.receive(.stored)) }
        #expect(sizes == [1, 3, 3, 2])
    }

    @Test("what is gone, named or hidden, and a page's end, are never put together with what was before")
    func apart() {
        let position = Exemplars.position
        let gone = DocumentVersion(key: Exemplars.key(1), vector: Exemplars.vector)
        var pages = Array(repeating: Frame.CatchUp(id: 1, documents: [Exemplars.state]), count: 4)
        pages[0].gone = [gone]
        pages[1].candidates = [gone]
        pages[2].hidden = [Exemplars.key(1)]
        pages[3].end = position
        for page in pages {
            var peer = SessionTests.openPeer()
            _ = peer.receive(
                .subscribe(
                    SubscriptionRequest(
                        key: [1], statement: "SELECT * FROM cars", arguments: .object(ObjectValue()),
                        cursor: nil)))
            let plain = Frame.CatchUp(id: 1, documents: [Exemplars.state])
            for _ in 0..<3 { _ = peer.receive(.frame(Frame.catchUp(plain).encoded())) }
            _ = peer.receive(.frame(Frame.catchUp(page).encoded()))
            // The first is being staged; the next two wait, and the last.
            let next = peer.receive(.stored)
            let staged = next.compactMap { if case .stage(let page) = $0 { page } else { nil } }
            #expect(staged.map { $0.updates.count } == [2])
            #expect(peer.reader?.waitingItems == 2)
        }
    }

    @Test("uploads that wait are appended together, in order, and their credit comes back")
    func uploadsTogether() {
        var server = SessionTests.openServer()
        let upload = Frame.upload([Exemplars.operation]).encoded()
        var appends: [[[UInt8]]] = []
        func take(_ actions: [Action]) {
            appends += actions.compactMap {
                if case .append(let operations, _, _) = $0 { operations } else { nil }
            }
        }
        for _ in 0..<5 { take(server.receive(.frame(upload))) }
        take(server.receive(.appended([])))
        #expect(appends.map(\.count) == [1, 4])
        _ = server.receive(.appended([]))
        #expect(server.flow.receiveCredit == Limits.creditBytes)
    }

    @Test("who appends is told whether more has come, but not where it may be of a refused actor")
    func moreUploads() {
        var server = SessionTests.openServer()
        let operation = Exemplars.operation + [UInt8](repeating: 0, count: 400_000)
        let upload = Frame.upload([operation, operation]).encoded()
        func isMore(_ actions: [Action]) -> Bool? {
            actions.lazy.compactMap { if case .append(_, let isMore, _) = $0 { isMore } else { nil } }.first
        }
        #expect(isMore(server.receive(.frame(upload))) == false)
        for _ in 0..<5 { #expect(isMore(server.receive(.frame(upload))) == nil) }
        #expect(isMore(server.receive(.appended([]))) == true)
        #expect(isMore(server.receive(.appended([]))) == false)
        for _ in 0..<4 { _ = server.receive(.frame(upload)) }
        let refusal = Refusal(
            actor: ActorID(77), sequence: 1, error: SyncError(.writeNotGranted, "no"))
        #expect(isMore(server.receive(.refused([], [refusal], offset: 0))) == false)
    }

    @Test("an answer to a want stops at its bound, and the rest is asked for again")
    func answers() {
        var server = SessionTests.openServer()
        let keys = (0..<40).map { Exemplars.key($0) }
        _ = server.receive(.frame(Frame.want(keys).encoded()))
        let state = EncodedState([UInt8](repeating: 7, count: 1 << 20))
        let first = server.receive(
            .states(keys.prefix(16).map { (key: $0, state: state) }, at: Exemplars.position))
        #expect(!first.contains { if case .readStates = $0 { true } else { false } })
        #expect(server.publisher?.waitingWants == 0)

        var peer = SessionTests.openPeer()
        #expect(SessionTests.asked(&peer, .wanted(keys)) == [.want(keys)])
        let part = Frame.states([(key: keys[0], state: nil)], at: nil, isPart: true)
        let again = SessionTests.asked(&peer, .frame(part.encoded()))
        #expect(again == [.want(Array(keys.dropFirst()).sorted { $0.id < $1.id })])
    }

    @Test("the states for a repair that an answer had no room for are asked for behind it")
    func repairAnswers() {
        var peer = SessionTests.session(.peer)
        _ = peer.receive(.opened)
        let own = ActorHead(actor: ActorID(5), sequence: 9, hash: 1)
        _ = peer.receive(.ownActors(OwnHistory(heads: [own])))
        _ = peer.receive(SessionTests.hello())
        let standing = HistoryComparison(actor: own.actor, admitted: 4, state: .closed, isExact: true)
        _ = peer.receive(.historyCompared([standing]))
        let keys = (0..<3).map { Exemplars.key($0) }
        #expect(SessionTests.sent(peer.receive(.repairNeeds(keys))) == [.want(keys)])
        // As a server sends it: what there is room for, and behind it that there is more.
        let first = Frame.states([(key: keys[0], state: [1])], at: Exemplars.position)
        #expect(SessionTests.sent(peer.receive(.frame(first.encoded()))).isEmpty)
        let part = Frame.states([], at: nil, isPart: true)
        let again = SessionTests.sent(peer.receive(.frame(part.encoded())))
        #expect(again == [.want(Array(keys.dropFirst()))])
        _ = peer.receive(.repairStaged)
        let rest = Frame.states(keys.dropFirst().map { (key: $0, state: [1]) }, at: nil)
        _ = peer.receive(.frame(rest.encoded()))
        let done = peer.receive(.repairStaged)
        #expect(done.contains { if case .repair = $0 { true } else { false } })
    }

    @Test("a subscription that is cancelled while it is listed gives back the credit of what waits")
    func cancelledListing() {
        var server = SessionTests.openServer()
        var request = Frame.Subscribe(
            id: 1, statement: "SELECT * FROM cars", arguments: .object(ObjectValue()))
        request.holds = true
        _ = server.receive(.frame(Frame.subscribe(request).encoded()))
        let page = Frame.held(
            id: 1, [DocumentVersion(key: Exemplars.key(1), vector: Exemplars.vector)], isLast: false)
        let next = Frame.held(
            id: 1, [DocumentVersion(key: Exemplars.key(2), vector: Exemplars.vector)], isLast: true)
        let sizes = [page.encoded().count, next.encoded().count]
        for frame in [page, next] { _ = server.receive(.frame(frame.encoded())) }
        #expect(server.flow.receiveCredit == Limits.creditBytes - sizes.reduce(0, +))
        let given = SessionTests.sent(server.receive(.frame(Frame.unsubscribe(id: 1).encoded())))
        #expect(given == sizes.map { .credit(UInt64($0)) })
        _ = server.receive(.compared(subscription: 1, HoldingsAnswer()))
        #expect(server.flow.receiveCredit == Limits.creditBytes)
    }

    /// A vector of so many bytes, about.
    private static func vector(bytes: Int) -> [UInt8] {
        let actors = (1...UInt64(bytes / 10)).map {
            VersionVector.Entry(actor: ActorID($0 << 40), time: 1 << 8)
        }
        return VersionVector(actors).encoded()
    }

    @Test("a want names about so many bytes of vectors, and the rest is asked for behind it")
    func largeWants() {
        let held = (1...40).map {
            DocumentVersion(key: Exemplars.key($0), vector: Self.vector(bytes: $0 == 7 ? 100_000 : 8_000))
        }
        var peer = SessionTests.openPeer()
        SessionTests.grow(&peer)
        var asked: [DocumentKey] = []
        var sent = SessionTests.asked(&peer, .wanted(held.map(\.key)), held: held)
        while case .want(let keys, let named)? = sent.first {
            asked += keys
            #expect(named == held.filter { $0.key != Exemplars.key(7) && keys.contains($0.key) })
            #expect(named.reduce(0) { $0 + $1.vector.count } <= 2 * Limits.wantBytes)
            let answer = Frame.states(keys.map { (key: $0, state: nil) })
            sent = SessionTests.asked(&peer, .frame(answer.encoded()), held: held)
        }
        #expect(asked == held.map(\.key))

        var server = SessionTests.openServer()
        let large = DocumentVersion(key: Exemplars.key(7), vector: Self.vector(bytes: 600_000))
        let want = Event.frame(Frame.want([large.key], held: [large]).encoded())
        for _ in 0..<Limits.wantedWaitingBytes / large.vector.count {
            #expect(SessionTests.code(server.receive(want)) == nil)
        }
        #expect(SessionTests.code(server.receive(want)) == "SYNC-0105")
    }

    @Test("what has come without credit is stored before more of it is asked for")
    func storedFirst() {
        var peer = SessionTests.openPeer()
        let (first, second) = (Exemplars.key(1), Exemplars.key(2))
        #expect(SessionTests.asked(&peer, .wanted([first])) == [.want([first])])
        #expect(SessionTests.asked(&peer, .wanted([second])).isEmpty)
        let answer = Frame.states([(key: first, state: [1])])
        #expect(SessionTests.asked(&peer, .frame(answer.encoded())).isEmpty)
        #expect(SessionTests.asked(&peer, .stored) == [.want([second])])
    }

    @Test("an answer beyond any bound closes the session")
    func endlessAnswer() {
        var peer = SessionTests.openPeer()
        let keys = (0..<100).map { Exemplars.key($0) }
        _ = SessionTests.asked(&peer, .wanted(keys))
        let state = EncodedState([UInt8](repeating: 7, count: 1_000_000))
        let codes = keys.compactMap { key in
            SessionTests.code(
                peer.receive(.frame(Frame.states([(key: key, state: state)]).encoded())))
        }
        #expect(codes == ["SYNC-0105"])
    }

    @Test("a peer that is up to date learns so in two round trips, whatever the database holds")
    func roundTrips() {
        var peer = SessionTests.session(.peer)
        var server = SessionTests.session(.server(origin: 1))
        _ = peer.receive(.opened)
        _ = server.receive(.opened)
        _ = peer.receive(
            .subscribe(
                SubscriptionRequest(
                    key: [1], statement: "SELECT * FROM cars", arguments: .object(ObjectValue()),
                    cursor: Exemplars.position, rights: ReadAccess.everything.mark(of: "cars"), holds: true)))
        var frames = (up: 0, down: 0)
        func frame(_ actions: [Action]) -> Event? {
            actions.compactMap { if case .send(let bytes) = $0 { Event.frame(bytes) } else { nil } }.first
        }
        guard let hello = frame(peer.receive(.ownActors(OwnHistory(seen: Exemplars.position)))) else {
            Issue.record("no greeting")
            return
        }
        frames.up += 1
        _ = server.receive(hello)
        guard let answer = frame(server.receive(.frontier([], head: Exemplars.position, isBehind: false)))
        else {
            Issue.record("no greeting back")
            return
        }
        frames.down += 1
        _ = peer.receive(answer)
        guard let subscribe = frame(peer.receive(.seenNoted)) else {
            Issue.record("no subscription")
            return
        }
        frames.up += 1
        _ = server.receive(subscribe)
        let page = CatchUpPage(documents: [], candidates: [], offset: 300, head: Exemplars.position)
        guard let end = frame(server.receive(.page(subscription: 1, page))) else {
            Issue.record("no end of the catch-up")
            return
        }
        frames.down += 1
        _ = peer.receive(end)
        let told = peer.receive(.stored)
        #expect(told.contains { if case .report(.subscriptionIsLive(key: [1])) = $0 { true } else { false } })
        #expect(frames.up == 2 && frames.down == 2)
    }
}
