import CRDT
import DQL
import Exchange
import TestSupport
import Testing

@testable import Replicator
@testable import Sync

@Suite("Fan-out: a write costs what it matches", .timeLimit(.minutes(5)))
struct FanOutTests {
    private static let actor = ActorID(7)

    private static func state(_ fields: [(String, Value)], isLive: Bool = true) throws -> EncodedState {
        var editor = DocumentEditor(document: Document(), stamp: Stamp(time: 9, actor: actor))
        if isLive { editor.create() }
        for (name, value) in fields where isLive { try editor.set([name], value) }
        return editor.document.encoded()
    }

    private static func query(_ text: String) throws -> SubscriptionQuery {
        try SubscriptionQuery(statement: text, isRestricted: false)
    }

    private static func key(_ id: Int64) throws -> DocumentKey {
        DocumentKey(collection: "c", id: try DocumentID(.int(id)))
    }

    private static func position(_ offset: Offset) throws -> LogPosition {
        let log = try #require(LogID(bytes: [UInt8](repeating: 1, count: LogID.byteCount)))
        return LogPosition(logID: log, offset: offset, hash: offset.rawValue)
    }

    // MARK: The index

    @Test("look-ups say what each query says by itself, for documents before and after a change")
    func agreesWithEveryQuery() throws {
        var dice = SplitMix64(seed: Depth.seed &+ 11)
        let index = QueryIndex()
        index.enter(1)
        // Composed and decomposed: two names, as documents have them.
        let (composed, decomposed) = ("\u{E9}", "e\u{301}")
        let texts = [
            "SELECT * FROM COLLECTION c (n COUNTER) WHERE n = 1",
            "SELECT * FROM COLLECTION c (s MAP) WHERE s.x = 1",
            "SELECT * FROM c WHERE `\(composed)` = 1", "SELECT * FROM c WHERE `\(decomposed)` = 1",
            "SELECT * FROM c", "SELECT * FROM c WHERE n = 1", "SELECT * FROM c WHERE n = 1.0",
            "SELECT * FROM c WHERE n = 2 AND s = 'a'", "SELECT * FROM c WHERE s = 'a'",
            "SELECT * FROM c WHERE s = 'b' AND n > 1", "SELECT * FROM c WHERE n > 1",
            "SELECT * FROM c WHERE n = 1 OR n = 2", "SELECT * FROM c WHERE _id = 3",
            "SELECT * FROM c WHERE n = null", "SELECT * FROM c WHERE n IS NULL", "SELECT * FROM d",
            "SELECT * FROM c WHERE 2 = n", "SELECT * FROM c WHERE NOT n = 1",
            "SELECT * FROM COLLECTION c (n REGISTER) WHERE n = 2",
            "SELECT * FROM COLLECTION c (m COUNTER) WHERE s = 'a'",
        ]
        let followed = try texts.map { (try Self.query($0), index.follow(try Self.query($0), by: 1)) }
        let values: [Value] = [
            .int(1), .double(1), .int(2), .int(3), .null, .string("a"), .string("b"), .double(1.5),
        ]
        for _ in 0..<400 {
            func random() throws -> EncodedState? {
                guard dice.next() % 5 > 0 else { return nil }
                let fields = ["n", "s", composed, decomposed].filter { _ in dice.next() % 4 > 0 }
                    .map { ($0, values[Int(dice.next() % UInt64(values.count))]) }
                return try EncodedState(Self.state(fields, isLive: dice.next() % 6 > 0).bytes)
            }
            let key = try Self.key(Int64(dice.next() % 5))
            let (before, after) = (try random(), try random())
            let found = index.find([(key, before, after, false)])
            for (query, handle) in followed {
                func expected(_ state: EncodedState?) throws -> Bool {
                    guard let state, query.collection == "c" else { return false }
                    return try state.withUnsafeBytes { bytes in
                        let document = try DocumentReader(bytes)
                        return try document.isLive
                            && query.matches(DocumentRecord(id: key.id, document: document))
                    }
                }
                let (was, isNow) = (try expected(before), try expected(after))
                #expect(found.matches[0].before.contains(handle.number) == was)
                #expect(found.matches[0].after.contains(handle.number) == isNow)
                #expect(found.numbers.contains(handle.number) == (was || isNow))
            }
            #expect(found.matches[0].undecided.isEmpty)
            #expect(found.sessions == (found.numbers.isEmpty ? [] : [1]))
        }
    }

    @Test("what may cost much is left to the sessions that ask for it, and holds up nobody else")
    func bounded() throws {
        let index = QueryIndex()
        index.enter(1)
        let loop = index.follow(try Self.query("SELECT * FROM c WHERE ANY x IN s SATISFIES x = 1 END"), by: 1)
        let plain = index.follow(try Self.query("SELECT * FROM c WHERE n > 0"), by: 1)
        let state = try Self.state([("n", .int(1)), ("s", .array([.int(1)]))])
        let found = index.find([(try Self.key(1), nil, state, false)])
        #expect(found.matches[0].undecided == [loop.number])
        #expect(found.matches[0].after == [plain.number])
        #expect(found.sessions == [1])
        var kept: [any FollowedQuery] = []
        for number in 0..<400 {
            kept.append(index.follow(try Self.query("SELECT * FROM c WHERE n > \(number)"), by: 1))
        }
        let key = try Self.key(1)
        let whole = index.find((0..<400).map { _ in (key: key, before: nil, after: state, isGone: false) })
        let asked = whole.matches.reduce(0) { $0 + $1.after.count }
        let left = whole.matches.reduce(0) { $0 + $1.undecided.count }
        #expect(asked > 0 && left > 400 * 400 - Limits.evaluationsPerOperation)
        #expect(whole.numbers.count >= kept.count)
    }

    @Test("a pattern that goes back in its text, or looks at each character often, is counted and left too")
    func patterns() throws {
        let index = QueryIndex()
        index.enter(1)
        let part = String(repeating: "a", count: 10_000)
        let (costly, similar, cheap) = (
            try Self.query("SELECT * FROM c WHERE t LIKE '%_\(part)'"),
            try Self.query("SELECT * FROM c WHERE t SIMILAR TO '(a|b)*'"),
            try Self.query("SELECT * FROM c WHERE t LIKE '%a_c%'")
        )
        let handles = [costly, similar, cheap].map { index.follow($0, by: 1) }
        func found(_ bytes: Int) throws -> (QueryMatches, matching: [Bool]) {
            let state = try Self.state([("t", .string(String(repeating: "a", count: bytes)))])
            let matching = try state.withUnsafeBytes { raw in
                let record = DocumentRecord(id: try Self.key(1).id, document: try DocumentReader(raw))
                return try [costly, similar, cheap].map { try $0.matches(record) }
            }
            return (index.find([(try Self.key(1), nil, state, false)]).matches[0], matching)
        }
        let (short, long) = (try found(10_001), try found(200_000))
        #expect(short.0.undecided == handles[0...1].map(\.number).sorted())
        #expect(short.matching == [true, true, false])
        // As many steps as no subscription may take.
        #expect(long.matching == [false, true, false])
    }

    @Test(
        "a pattern that is computed is counted each time it is built, however short the text",
        arguments: [20, 1_000])
    func computedPatterns(texts: Int) throws {
        let query = try Self.query(
            "SELECT * FROM c WHERE ANY y IN b SATISFIES ANY x IN a SATISFIES y LIKE x END END")
        let long = Value.string(String(repeating: "a", count: 20_000))
        let short = Array(repeating: Value.string("b"), count: texts)
        let state = try Self.state([("a", .array([long])), ("b", .array(short + [long]))])
        let matches = try state.withUnsafeBytes { raw in
            try query.matches(DocumentRecord(id: try Self.key(1).id, document: try DocumentReader(raw)))
        }
        #expect(matches == (texts == 20))
    }

    @Test("equal queries are one, whoever asks; the last one to let go takes it away")
    func oneForEqualQueries() throws {
        let index = QueryIndex()
        for session in 1...3 as ClosedRange<UInt64> { index.enter(session) }
        var handles = try (1...3 as ClosedRange<UInt64>).map {
            index.follow(
                try Self.query($0 == 2 ? "select * from c where n=1" : "SELECT * FROM c WHERE n = 1"), by: $0)
        }
        handles.append(index.follow(try Self.query("SELECT * FROM c WHERE n = 1"), by: 1))
        #expect(Set(handles.map(\.number)).count == 1)
        #expect(index.count == 1)
        let state = try Self.state([("n", .int(1))])
        #expect(index.find([(try Self.key(1), nil, state, false)]).sessions == [1, 2, 3])
        handles.removeFirst()
        #expect(index.find([(try Self.key(1), nil, state, false)]).sessions == [1, 2, 3])
        handles.removeLast()
        #expect(index.find([(try Self.key(1), nil, state, false)]).sessions == [2, 3])
        handles.removeAll()
        #expect(index.count == 0)
        #expect(index.find([(try Self.key(1), nil, state, false)]).numbers.isEmpty)
        #expect(index.followed(by: 2) == [])
        index.leave(2)
        #expect(index.followed(by: 2) == nil)
    }

    @Test("what is gone concerns whoever follows anything of its collection")
    func gone() throws {
        let index = QueryIndex()
        index.enter(1)
        index.enter(2)
        let one = index.follow(try Self.query("SELECT * FROM c WHERE n = 1"), by: 1)
        let other = index.follow(try Self.query("SELECT * FROM d"), by: 2)
        let found = index.find([(try Self.key(1), nil, nil, true)])
        #expect(found.numbers == [one.number])
        #expect(found.sessions == [1])
        #expect(one.number != other.number)
    }

    @Test("a state that cannot be read is left to the sessions themselves")
    func unreadable() throws {
        let index = QueryIndex()
        index.enter(1)
        let handle = index.follow(try Self.query("SELECT * FROM c WHERE n = 1"), by: 1)
        let found = index.find([(try Self.key(1), nil, [9, 9, 9], false)])
        #expect(found.matches[0].undecided == [handle.number])
        #expect(found.sessions == [1])
    }

    // MARK: The stream

    private static func operation(_ offset: Offset, _ numbers: [UInt64], from origin: UInt64? = nil) throws
        -> CommitTail.Commit
    {
        let change = FoldedOperation.Change(
            key: try key(1), delta: nil, before: nil, after: [1],
            matches: QueryMatches(after: numbers))
        return CommitTail.Commit(
            FoldedOperation(
                position: try position(offset), stamp: Stamp(time: offset.rawValue, actor: actor),
                origin: origin, changes: [change]),
            queries: numbers)
    }

    private static func offsets(_ answer: LiveStream.Answer?) -> [Offset]? {
        guard case .operations(let operations, _)? = answer else { return nil }
        return operations.map(\.position.offset)
    }

    @Test("a session is given what concerns it, and its own")
    func filtered() throws {
        var stream = LiveStream(head: try Self.position(0))
        for offset in 1...10 as ClosedRange<UInt64> {
            let concerned = try Self.operation(
                Offset(offset), offset % 2 == 0 ? [5] : [], from: offset == 7 ? 42 : nil)
            stream.append([concerned], waking: [])
        }
        #expect(Self.offsets(stream.answer(after: 0, for: 1, following: [5])) == [2, 4, 6, 8, 10])
        #expect(Self.offsets(stream.answer(after: 0, for: 42, following: [6])) == [7])
        #expect(Self.offsets(stream.answer(after: 0)) == Array(1...10))
        #expect(stream.answer(after: 0, for: 1, following: [6]) == nil)
        #expect(stream.answer(after: 9, for: 1, following: []) == nil)
    }

    @Test("who waits is woken by what concerns it, and told of the rest now and then")
    func woken() async throws {
        let box = try StreamBox()
        async let first = box.wait(1, following: [5])
        async let second = box.wait(2, following: [6])
        await box.parked(2)
        try await box.append(Self.operation(1, []), waking: [])
        try await box.append(Self.operation(2, [5]), waking: [1])
        #expect(Self.offsets(await first) == [2])
        #expect(await box.waiting == 1)
        await box.tellProgress()
        let answer = await second
        #expect(Self.offsets(answer) == [])
        guard case .operations(_, let through)? = answer else { return }
        #expect(through.offset == 2)
    }

    @Test("one that waits is told alone how far the log has got, if it has got further")
    func toldAlone() async throws {
        let box = try StreamBox()
        async let first = box.wait(1, following: [5])
        async let second = box.wait(2, following: [6])
        await box.parked(2)
        await box.tellProgress(to: 1)
        try await box.append(Self.operation(1, []), waking: [])
        await box.tellProgress(to: 3)
        await box.tellProgress(to: 1)
        try await box.append(Self.operation(2, []), waking: [])
        await box.tellProgress(to: 2)
        let reached = await [first, second].map { answer -> Offset? in
            guard case .operations(let batch, let through)? = answer, batch.isEmpty else { return nil }
            return through.offset
        }
        #expect(reached == [1, 2])
    }

    @Test("so many operations that are nothing for it are told in one, before they fall out of the stream")
    func progress() async throws {
        let box = try StreamBox()
        async let answer = box.wait(1, following: [5])
        await box.parked(1)
        for offset in 1...Limits.progressOperations {
            try await box.append(Self.operation(Offset(UInt64(offset)), []), waking: [])
        }
        #expect(Self.offsets(await answer) == [])
        #expect(Limits.progressOperations * 2 <= UInt64(Limits.liveOperations))
    }

    // MARK: Sessions

    @Test("receivers of the same share one encoding, and one that evaluates by itself gets the same bytes")
    func encodedOnce() throws {
        let index = QueryIndex()
        let frames = SharedFrames()
        var sent: [[UInt8]] = []
        for session in 1...4 as ClosedRange<UInt64> {
            index.enter(session)
            var configuration = Session.Configuration(
                role: .server(origin: session), databaseID: "db", peerKey: "", wallMilliseconds: 1_000,
                access: .everything)
            if session < 4 {
                configuration.sharing = Sharing(
                    follow: { index.follow($0, by: session) }, encode: { frames.frame($0, $1) })
            }
            var server = Session(configuration)
            _ = server.receive(.opened)
            let hello = Frame.Hello(
                version: 3, databaseID: "db", peerKey: "", wallMilliseconds: 1_000, credit: 1 << 20,
                actors: [], head: nil)
            _ = server.receive(.frame(Frame.hello(hello).encoded()))
            _ = server.receive(.frontier([], head: try Self.position(10), isBehind: false))
            let statement = "SELECT * FROM c WHERE n = 1"
            let subscribe = Frame.Subscribe(id: 1, statement: statement, arguments: .object(ObjectValue()))
            _ = server.receive(.frame(Frame.subscribe(subscribe).encoded()))
            let end = CatchUpPage(documents: [], candidates: [], offset: 10, head: try Self.position(10))
            _ = server.receive(.page(subscription: 1, end))
            let change = (
                key: try Self.key(1), before: EncodedState?.none,
                after: Optional(try Self.state([("n", .int(1))])), isGone: false
            )
            let other = (
                key: try Self.key(2), before: EncodedState?.none,
                after: Optional(try Self.state([("n", .int(2))])), isGone: false
            )
            let found = index.find([other, change])
            let changes = zip([other, change], found.matches).map { change, matches in
                FoldedOperation.Change(
                    key: change.key, delta: nil, before: nil, after: change.after ?? [], matches: matches)
            }
            let operation = FoldedOperation(
                position: try Self.position(11), stamp: Stamp(time: 9, actor: Self.actor), origin: nil,
                changes: changes)
            for case .send(let bytes) in server.receive(
                .operations([operation], through: try Self.position(11)))
            {
                sent.append(bytes)
            }
        }
        #expect(sent.count == 4)
        #expect(Set(sent).count == 1)
        #expect(frames.made == 1)
    }

    @Test("frames are kept for a moment, and within bounds")
    func boundedFrames() {
        let frames = SharedFrames()
        for number in 0..<(3 * UInt64(Limits.sharedFrames)) {
            #expect(
                frames.frame([number]) { [UInt8(truncatingIfNeeded: number)] } == [
                    UInt8(truncatingIfNeeded: number)
                ])
        }
        let made = frames.made
        _ = frames.frame([3 * UInt64(Limits.sharedFrames) - 1]) { [] }
        #expect(frames.made == made)
        _ = frames.frame([0]) { [1] }
        #expect(frames.made == made + 1)
        let large = [UInt8](repeating: 1, count: Limits.sharedFrameBytes + 1)
        #expect(frames.frame([1 << 40]) { large } == large)
        _ = frames.frame([1 << 40]) { large }
        #expect(frames.made == made + 3)
    }
}

/// A stream as the hub holds it.
private actor StreamBox {
    private var stream: LiveStream
    private(set) var waiting = 0
    private var following: [UInt64: Set<UInt64>] = [:]

    init() throws {
        let log = try #require(LogID(bytes: [UInt8](repeating: 1, count: LogID.byteCount)))
        stream = LiveStream(head: LogPosition(logID: log, offset: 0, hash: 0))
    }

    func wait(_ session: UInt64, following numbers: Set<UInt64>) async -> LiveStream.Answer? {
        following[session] = numbers
        return await withCheckedContinuation { continuation in
            stream.park(session, after: 0, shares: true) { continuation.resume(returning: $0) }
            waiting += 1
        }
    }

    func parked(_ count: Int) async { while waiting < count { await Task.yield() } }

    func append(_ operation: CommitTail.Commit, waking sessions: Set<UInt64>) {
        waiting -= sessions.count
        for wake in stream.append([operation], waking: sessions, following: { following[$0] }) { wake() }
    }

    func tellProgress() { for wake in stream.tellProgress() { wake() } }

    func tellProgress(to session: UInt64) { stream.tellProgress(to: session)?() }
}
