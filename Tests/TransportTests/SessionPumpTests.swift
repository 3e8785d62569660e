import CRDT
import Exchange
import Glibc
import Logging
import Sync
import Synchronization
import Testing

@testable import Transport

@Suite("A pump", .timeLimit(.minutes(2)))
struct SessionPumpTests {
    /// A server's store that greets, and answers every want with large states.
    private struct LargeStore: SessionStore {
        var willRead: @Sendable () -> Void = {}

        func perform(_ action: Action) async throws -> Event? {
            switch action {
            case .readFrontier: return .frontier([], head: try position(), isBehind: false)
            case .readStates(let keys, _):
                willRead()
                let state = EncodedState([UInt8](repeating: 7, count: 4 << 20))
                return .states(keys.map { (key: $0, state: state) }, at: nil)
            default: return nil
            }
        }

        func position() throws -> LogPosition {
            guard let log = LogID(bytes: [UInt8](repeating: 1, count: LogID.byteCount)) else {
                throw CancellationError()
            }
            return LogPosition(logID: log, offset: 0, hash: 0)
        }
    }

    /// A store whose every action fails.
    private struct BrokenStore: SessionStore {
        struct Broken: Error {}
        func perform(_ action: Action) async throws -> Event? { throw Broken() }
    }

    private func server() -> Session {
        Session(
            Session.Configuration(
                role: .server(origin: 1), databaseID: "d", peerKey: "", wallMilliseconds: 5,
                access: .everything))
    }

    private var logger: Logger {
        var logger = Logger(label: "pump")
        logger.logLevel = .critical
        return logger
    }

    private var hello: [UInt8] { hello(credit: 2_000) }

    private func hello(credit: UInt64) -> [UInt8] {
        var writer = CBORWriter()
        writer.map(count: 7)
        for (key, number) in [(0, 1), (1, 3)] as [(UInt64, UInt64)] {
            writer.unsigned(key)
            writer.unsigned(number)
        }
        for (key, text) in [(2, "d"), (3, "")] as [(UInt64, String)] {
            writer.unsigned(key)
            writer.text(text)
        }
        for (key, number) in [(4, 9), (5, credit)] as [(UInt64, UInt64)] {
            writer.unsigned(key)
            writer.unsigned(number)
        }
        writer.unsigned(6)
        writer.array(count: 0)
        return writer.bytes
    }

    private func want(_ ids: Range<Int64>) throws -> [UInt8] {
        Frame.want(try ids.map { DocumentKey(collection: "c", id: try DocumentID(.int($0))) }).encoded()
    }

    @Test("nothing large is read for a side that asks and does not read, until it does")
    func unsent() async throws {
        let connection = MemoryConnection(isStuck: true)
        connection.arrive(hello)
        let (reads, read) = AsyncStream.makeStream(of: Bool.self)
        let store = LargeStore { read.yield(connection.takes) }
        let running = Task {
            await SessionPump(store: store, logger: logger).run(server(), over: connection.channel)
        }
        var seen = reads.makeAsyncIterator()
        // Nothing may be wanted before the server's greeting.
        var offers = connection.offers.makeAsyncIterator()
        await offers.next()
        for batch in 0..<4 as Range<Int64> { connection.arrive(try want(batch * 8..<batch * 8 + 8)) }
        // What answers the first waits to leave.
        #expect(await seen.next() == false)
        try await Task.sleep(for: .milliseconds(100))
        connection.release()
        #expect(await seen.next() == true)
        connection.end()
        #expect(await running.value.code == SyncErrorCode.unavailable.rawValue)
    }

    /// A server's store with pages without end to catch up with; counts them.
    private final class EndlessStore: SessionStore {
        private let state = Mutex(0)
        private let greeting = LargeStore()

        var pages: Int { state.withLock { $0 } }

        func perform(_ action: Action) async throws -> Event? {
            guard case .readPage(let id, _, _, _, _) = action else {
                return try await greeting.perform(action)
            }
            let head = try greeting.position()
            let number = state.withLock { pages in
                pages += 1
                return pages
            }
            let key = DocumentKey(collection: "c", id: try DocumentID(.int(Int64(number))))
            let update = DocumentUpdate(
                key: key, content: .state(EncodedState([UInt8](repeating: 7, count: 1 << 20))))
            return .page(
                subscription: id,
                CatchUpPage(
                    documents: [update], candidates: [], offset: Offset(UInt64(number)), head: nil, asOf: head
                ))
        }
    }

    @Test("a catch-up is read no further for a side that gives credit and does not read, until it does")
    func unreadPages() async throws {
        let connection = MemoryConnection(isStuck: true)
        connection.arrive(hello(credit: 1 << 40))
        let store = EndlessStore()
        let running = Task {
            await SessionPump(store: store, logger: logger).run(server(), over: connection.channel)
        }
        var offers = connection.offers.makeAsyncIterator()
        await offers.next()
        let subscribe = Frame.Subscribe(
            id: 1, statement: "SELECT * FROM c", arguments: .object(ObjectValue()))
        connection.arrive(Frame.subscribe(subscribe).encoded())
        let most = Limits.unsentPauseBytes >> 20 + 2
        try await until({ store.pages >= most - 2 })
        try await Task.sleep(for: .milliseconds(100))
        #expect(store.pages <= most)
        connection.release()
        try await until({ store.pages > most })
        connection.end()
        #expect(await running.value.code == SyncErrorCode.unavailable.rawValue)
    }

    /// A server's store whose live stream goes on and on, a document of a mebibyte at a time; counts them.
    private final class EndlessStream: SessionStore {
        private let state = Mutex<UInt64>(0)
        private let greeting = LargeStore()
        private let stamp = Stamp(time: 1, actor: ActorID(1))
        private let document: [UInt8]

        init() throws {
            var editor = DocumentEditor(document: Document(), stamp: stamp)
            try editor.set(["text"], .string(String(repeating: "t", count: 1 << 20)))
            document = editor.document.encoded().bytes
        }

        var operations: UInt64 { state.withLock { $0 } }

        func perform(_ action: Action) async throws -> Event? {
            let log = try greeting.position().logID
            switch action {
            case .readPage(let id, _, _, _, _):
                let head = LogPosition(logID: log, offset: Offset(operations), hash: 0)
                let page = CatchUpPage(documents: [], candidates: [], offset: head.offset, head: head)
                return .page(subscription: id, page)
            case .awaitOperations(let offset):
                // Slower than a page is read, which then is not behind the stream.
                try await Task.sleep(for: .milliseconds(2))
                state.withLock { $0 = offset.next.rawValue }
                let place = LogPosition(logID: log, offset: offset.next, hash: 0)
                let key = DocumentKey(collection: "c", id: try DocumentID(.int(Int64(place.offset.rawValue))))
                let change = FoldedOperation.Change(
                    key: key, delta: nil, before: nil, after: EncodedState(document))
                let operation = FoldedOperation(position: place, stamp: stamp, origin: nil, changes: [change])
                return .operations([operation], through: place)
            default: return try await greeting.perform(action)
            }
        }
    }

    @Test("the live stream is followed no further for a side that does not read, until it does")
    func unreadStream() async throws {
        let connection = MemoryConnection(isStuck: true)
        connection.arrive(hello(credit: 1 << 40))
        let store = try EndlessStream()
        let pump = SessionPump(store: store, logger: logger)
        let running = Task { await pump.run(server(), over: connection.channel) }
        var offers = connection.offers.makeAsyncIterator()
        await offers.next()
        let subscribe = Frame.Subscribe(
            id: 1, statement: "SELECT * FROM c", arguments: .object(ObjectValue()))
        connection.arrive(Frame.subscribe(subscribe).encoded())
        // What passes before the subscription is live is not sent to it.
        try await until({ pump.unsentBytes > Limits.unsentPauseBytes })
        try await Task.sleep(for: .milliseconds(100))
        let paused = store.operations
        #expect(pump.unsentBytes < Limits.unsentPauseBytes + 3 << 20)
        try await Task.sleep(for: .milliseconds(200))
        #expect(store.operations == paused)
        connection.release()
        try await until({ store.operations > paused })
        connection.end()
        #expect(await running.value.code == SyncErrorCode.unavailable.rawValue)
    }

    @Test("a store that fails ends its session as unavailable, after the other side was told")
    func brokenStore() async throws {
        let connection = MemoryConnection()
        connection.arrive(hello)
        let reason = await SessionPump(store: BrokenStore(), logger: logger).run(
            server(), over: connection.channel)
        #expect(reason.code == SyncErrorCode.unavailable.rawValue)
        let last = try #require(connection.sent.last)
        guard case .close(let told) = try Frame(decoding: last) else {
            Issue.record("the last frame is no close")
            return
        }
        #expect(told == reason)
    }

    @Test("bytes that are no frame, and a message that may not come now, end it with their codes")
    func badFrames() async throws {
        for (frame, code) in [([0xA1], "SYNC-0101"), (try want(0..<1), "SYNC-0104")] as [([UInt8], String)] {
            let connection = MemoryConnection()
            connection.arrive(frame)
            let pump = SessionPump(store: LargeStore(), logger: logger)
            let reason = await pump.run(server(), over: connection.channel)
            #expect(reason.code == code)
            #expect(connection.closeCode == 1002)
        }
    }

    @Test("a connection that is gone ends it without anybody being told")
    func lost() async {
        let connection = MemoryConnection()
        connection.arrive(hello)
        connection.end()
        let reason = await SessionPump(store: LargeStore(), logger: logger).run(
            server(), over: connection.channel)
        #expect(reason.code == SyncErrorCode.unavailable.rawValue)
    }

    /// A store that is followed without a task; says when it is asked for what comes behind an offset.
    private final class FollowedStore: SessionStore {
        let asked: AsyncStream<@Sendable (Event) -> Void>
        private let asking: AsyncStream<@Sendable (Event) -> Void>.Continuation
        private let greeting = LargeStore()

        init() { (asked, asking) = AsyncStream.makeStream(of: (@Sendable (Event) -> Void).self) }

        func perform(_ action: Action) async throws -> Event? {
            switch action {
            case .readStates(let keys, _): return .states(keys.map { ($0, [7]) }, at: nil)
            case .readPage(let id, _, _, _, _):
                let head = try greeting.position()
                return .page(
                    subscription: id,
                    CatchUpPage(documents: [], candidates: [], offset: head.offset, head: head))
            default: return try await greeting.perform(action)
            }
        }

        func follow(after offset: Offset, deliver: @escaping @Sendable (Event) -> Void) -> Bool {
            asking.yield(deliver)
            return true
        }
    }

    @Test("an event of the live stream is handled where it is told, and behind those that came before it")
    func followed() async throws {
        let connection = MemoryConnection()
        connection.arrive(hello)
        let store = FollowedStore()
        let running = Task {
            await SessionPump(store: store, logger: logger).run(server(), over: connection.channel)
        }
        var asked = store.asked.makeAsyncIterator()
        // Told over and over, from other threads than the one that runs the session: it asks anew each time.
        for _ in 0..<1_000 {
            let tell = try #require(await asked.next())
            tell(.lagging(try position(7)))
        }
        connection.end()
        #expect(await running.value.code == SyncErrorCode.unavailable.rawValue)
        // One that is told when it is over hears nothing.
        let last = try #require(await asked.next())
        last(.lagging(try position(8)))
    }

    /// A line as an event loop is one: what is posted from elsewhere waits for its turn there, what is posted
    /// there is written at once.
    private final class LoopLine: FrameChannel {
        private struct State {
            var turns: [@Sendable () -> Void] = []
            var near = 0
            var loop: pthread_t?
            /// Who tells it something at the moment, and how often that one had to write.
            var teller: pthread_t?
            var writtenByTeller = 0
            var written: [[UInt8]] = []
            var arrived: (@Sendable (FrameArrival) -> Void)?
        }

        private let state = Mutex(State())

        var waiting: Int { state.withLock { $0.turns.count } }
        /// How often something was to be done near it.
        var near: Int { state.withLock { $0.near } }
        var written: [[UInt8]] { state.withLock { $0.written } }

        /// How many frames this made of it whoever told it something.
        func writtenByTeller(_ tell: () -> Void) -> Int {
            state.withLock { ($0.teller, $0.writtenByTeller) = (pthread_self(), 0) }
            tell()
            return state.withLock { state in
                state.teller = nil
                return state.writtenByTeller
            }
        }

        func arrive(_ arrival: FrameArrival) { state.withLock { $0.arrived }?(arrival) }

        /// Does what waits by now, in order.
        func turn() {
            let turns = state.withLock { state in
                state.loop = pthread_self()
                defer { state.turns = [] }
                return state.turns
            }
            for turn in turns { turn() }
            state.withLock { $0.loop = nil }
        }

        func begin(_ arrived: @escaping @Sendable (FrameArrival) -> Void) {
            state.withLock { $0.arrived = arrived }
        }

        func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void) {
            let write: @Sendable () -> Void = {
                self.state.withLock { $0.written.append(frame) }
                whenSent(true)
            }
            let isHere = state.withLock { state in
                if state.teller == pthread_self() { state.writtenByTeller += 1 }
                if state.loop != pthread_self() { state.turns.append(write) }
                return state.loop == pthread_self()
            }
            if isHere { write() }
        }

        func nearby(_ work: @escaping @Sendable () -> Void) {
            state.withLock { state in
                state.turns.append(work)
                state.near += 1
            }
        }

        func end(code: UInt16, reason: String) async {}
    }

    @Test("what a session has to find out for itself does not hold up whoever tells it")
    func costly() async throws {
        let line = LoopLine()
        let store = FollowedStore()
        let (ended, end) = AsyncStream.makeStream(of: Void.self)
        let pump = SessionPump(store: store, logger: logger)
        pump.begin(LiveSession(server()), over: line) { _ in end.finish() }
        line.arrive(.frame(hello, taken: {}))
        try await until({ !line.written.isEmpty }, line.turn)
        let subscribe = Frame.Subscribe(
            id: 1, statement: "SELECT * FROM c WHERE ANY x IN s SATISFIES x = 1 END",
            arguments: .object(ObjectValue()))
        line.arrive(.frame(Frame.subscribe(subscribe).encoded(), taken: {}))
        try await until({ line.written.count > 1 }, line.turn)
        var asked = store.asked.makeAsyncIterator()
        var editor = DocumentEditor(document: Document(), stamp: Stamp(time: 5, actor: ActorID(9)))
        editor.create()
        try editor.set(["s"], .array([.int(1)]))
        let change = FoldedOperation.Change(
            key: DocumentKey(collection: "c", id: try DocumentID(.int(1))), delta: nil, before: nil,
            after: editor.document.encoded(), matches: nil)
        for round in 1...20 as ClosedRange<UInt64> {
            let tell = try #require(await asked.next())
            try await until({ pump.unsentBytes == 0 }, line.turn)
            let before = line.written.count
            let operation = FoldedOperation(
                position: try position(Offset(round)), stamp: Stamp(time: round + 5, actor: ActorID(9)),
                origin: nil,
                changes: [change])
            let byTeller = line.writtenByTeller {
                tell(.operations([operation], through: operation.position))
            }
            #expect(byTeller == 0)
            try await until({ line.written.count > before }, line.turn)
        }
        line.arrive(.ended)
        for await _ in ended {}
    }

    @Test("what is told near the line does not overtake what was to leave before")
    func order() async throws {
        let line = LoopLine()
        let store = FollowedStore()
        let (ended, end) = AsyncStream.makeStream(of: Void.self)
        let pump = SessionPump(store: store, logger: logger)
        pump.begin(LiveSession(server()), over: line) { _ in end.finish() }
        line.arrive(.frame(hello, taken: {}))
        try await until({ !line.written.isEmpty }, line.turn)
        let subscribe = Frame.Subscribe(
            id: 1, statement: "SELECT * FROM c", arguments: .object(ObjectValue()))
        line.arrive(.frame(Frame.subscribe(subscribe).encoded(), taken: {}))
        try await until({ line.written.count > 1 }, line.turn)
        var asked = store.asked.makeAsyncIterator()
        var round: UInt64 = 0
        while line.near < 20 {
            round += 1
            let tell = try #require(await asked.next())
            try await until({ pump.unsentBytes == 0 }, line.turn)
            let (before, near) = (line.written.count, line.near)
            tell(.operations([], through: try position(Offset(round))))
            // While somebody still runs the session it is handled there.
            guard line.near > near else { continue }
            // It is told, and has not had its turn when an answer to something else is to leave.
            line.arrive(.frame(try want(Int64(round)..<Int64(round) + 1), taken: {}))
            try await until({ line.waiting > 1 })
            try await until(
                {
                    line.written.count > before + 1 && line.written.contains { isProgress($0, Offset(round)) }
                }, line.turn)
            #expect(line.written.last.map { isProgress($0, Offset(round)) } == true)
        }
        line.arrive(.ended)
        for await _ in ended {}
    }

    private func until(_ condition: () -> Bool, _ work: () -> Void = {}) async throws {
        while !condition() {
            work()
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    private func isProgress(_ bytes: [UInt8], _ offset: Offset) -> Bool {
        guard case .progress(let position, _)? = try? Frame(decoding: bytes) else { return false }
        return position.offset == offset
    }

    private func position(_ offset: Offset) throws -> LogPosition {
        let log = try #require(LogID(bytes: [UInt8](repeating: 1, count: LogID.byteCount)))
        return LogPosition(logID: log, offset: offset, hash: 0)
    }

    @Test("a session that is cancelled says that it goes away")
    func cancelled() async throws {
        let connection = MemoryConnection()
        connection.arrive(hello)
        let pump = SessionPump(store: LargeStore(), logger: logger)
        let running = Task { await pump.run(server(), over: connection.channel) }
        running.cancel()
        #expect(await running.value.code == SyncErrorCode.goingAway.rawValue)
        #expect(connection.closeCode == 1001)
    }

    @Test("every reason to close has a code of RFC 6455")
    func closeCodes() {
        for code in SyncErrorCode.allCases {
            #expect([1001, 1002, 1008, 1009, 1011].contains(SyncError(code, "").closeCode))
        }
    }
}
