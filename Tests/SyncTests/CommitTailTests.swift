import CRDT
import Exchange
import Testing

@Suite("The tail of commits")
struct CommitTailTests {
    private static func commit(_ offset: UInt64, bytes: Int = 1, queries: [UInt64] = []) throws
        -> CommitTail.Commit
    {
        let log = try #require(LogID(bytes: [UInt8](repeating: 1, count: LogID.byteCount)))
        let change = FoldedOperation.Change(
            key: DocumentKey(collection: "c", id: try DocumentID(.int(1))), delta: nil, before: nil,
            after: EncodedState([UInt8](repeating: 7, count: bytes)))
        return CommitTail.Commit(
            FoldedOperation(
                position: LogPosition(logID: log, offset: Offset(offset), hash: offset),
                stamp: Stamp(time: 1, actor: ActorID(1)), changes: [change]),
            queries: queries)
    }

    private func offsets(_ batch: CommitTail.Batch?) -> [UInt64]? {
        batch?.operations.map(\.position.offset.rawValue)
    }

    @Test("the oldest commits go first, and their readers learn it")
    func bounds() throws {
        var tail = CommitTail(after: 4, .init(commits: 3, bytes: 1 << 20))
        for offset: UInt64 in 5...9 { tail.append([try Self.commit(offset)]) }
        #expect(tail.batch(after: 5, bytes: 1 << 20) == nil)
        #expect(offsets(tail.batch(after: 6, bytes: 1 << 20)) == [7, 8, 9])
        #expect(offsets(tail.batch(after: 9, bytes: 1 << 20)) == [])
        #expect((tail.start, tail.end) == (6, 9))
    }

    @Test("the commits added last stay, however large they are")
    func fresh() throws {
        var tail = CommitTail(after: 0, .init(bytes: 1_000))
        tail.append([try Self.commit(1)])
        tail.append([try Self.commit(2, bytes: 2_000), try Self.commit(3, bytes: 2_000)])
        #expect(tail.batch(after: 0, bytes: 1) == nil)
        #expect(offsets(tail.batch(after: 1, bytes: 1 << 20)) == [2, 3])
        tail.append([try Self.commit(4)])
        #expect(offsets(tail.batch(after: 3, bytes: 1 << 20)) == [4])
        #expect(tail.batch(after: 2, bytes: 1 << 20) == nil)
    }

    @Test("a batch has a commit at least, and ends before its bytes or number are exceeded")
    func batches() throws {
        var tail = CommitTail(after: 0, .init(bytes: 1 << 20))
        tail.append(try (1...6).map { try Self.commit($0, bytes: 1_000) })
        #expect(offsets(tail.batch(after: 0, bytes: 1)) == [1])
        #expect(offsets(tail.batch(after: 0, bytes: 3_000)) == [1, 2])
        #expect(offsets(tail.batch(after: 2, bytes: 1 << 20, commits: 3)) == [3, 4, 5])
        #expect(tail.batch(after: 2, bytes: 1 << 20, commits: 3)?.through?.offset == 5)
    }

    @Test("a reader of some queries learns how far it got beside those of others")
    func wanted() throws {
        var tail = CommitTail(after: 0, .init(bytes: 1 << 20))
        tail.append(try (1...6).map { try Self.commit($0, queries: [$0 % 2]) })
        let batch = tail.batch(after: 0, bytes: 1 << 20, commits: 2) { $0.queries == [0] }
        #expect(offsets(batch) == [2, 4])
        #expect(batch?.through?.offset == 5)
        let nothing = tail.batch(after: 0, bytes: 1 << 20) { _ in false }
        #expect(offsets(nothing) == [])
        #expect(nothing?.through?.offset == 6)
    }

    @Test("a gap drops what was before it")
    func gap() throws {
        var tail = CommitTail(after: 0, .init(bytes: 1 << 20))
        tail.append([try Self.commit(1), try Self.commit(2)])
        tail.append([try Self.commit(5)])
        #expect(tail.batch(after: 2, bytes: 1 << 20) == nil)
        #expect(offsets(tail.batch(after: 4, bytes: 1 << 20)) == [5])
        tail.forget()
        #expect(tail.batch(after: 4, bytes: 1 << 20) == nil)
        #expect(offsets(tail.batch(after: 5, bytes: 1 << 20)) == [])
    }

    @Test("many small appends keep the same commits as a plain array")
    func many() throws {
        var tail = CommitTail(after: 0, .init(commits: 7, bytes: 1 << 20))
        for offset: UInt64 in 1...500 {
            tail.append([try Self.commit(offset)])
            let first = offset > 7 ? offset - 7 : 0
            #expect(offsets(tail.batch(after: Offset(first), bytes: 1 << 20)) == Array(first + 1...offset))
            if first > 0 { #expect(tail.batch(after: Offset(first - 1), bytes: 1 << 20) == nil) }
        }
    }
}
