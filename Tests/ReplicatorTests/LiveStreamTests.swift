import CRDT
import Exchange
import Sync
import Testing

@testable import Replicator

@Suite("The live stream of a database")
struct LiveStreamTests {
    private func position(_ offset: Int) throws -> LogPosition {
        let log = try #require(LogID(bytes: [UInt8](repeating: 1, count: LogID.byteCount)))
        return LogPosition(logID: log, offset: Offset(UInt64(offset)), hash: 1)
    }

    private func operation(_ offset: Int, bytes: Int) throws -> FoldedOperation {
        let key = DocumentKey(collection: "c", id: try DocumentID(.int(1)))
        let change = FoldedOperation.Change(
            key: key, delta: nil, before: nil, after: EncodedState([UInt8](repeating: 7, count: bytes)))
        return FoldedOperation(
            position: try position(offset), stamp: Stamp(time: 1, actor: ActorID(1)), origin: nil,
            changes: [change])
    }

    private func isLagging(_ answer: LiveStream.Answer?) -> Bool {
        if case .lagging? = answer { true } else { false }
    }

    @Test("it keeps so many operations and no more: who is further behind catches up")
    func operations() throws {
        var stream = LiveStream(head: try position(0))
        for offset in 1...Limits.liveOperations + 10 { stream.append([try operation(offset, bytes: 1)]) }
        #expect(isLagging(stream.answer(after: 9)))
        #expect(!isLagging(stream.answer(after: 10)))
        #expect(stream.answer(after: Offset(UInt64(Limits.liveOperations + 10))) == nil)
    }

    @Test("it keeps so many bytes and no more, and a run of it is bounded too")
    func bytes() throws {
        var stream = LiveStream(head: try position(0))
        // Eight to the limit, but for what each takes besides its bytes.
        let bytes = Limits.liveBytes / 8 - 1_024
        for offset in 1...20 { stream.append([try operation(offset, bytes: bytes)]) }
        #expect(isLagging(stream.answer(after: 11)))
        guard case .operations(let run, let through)? = stream.answer(after: 12) else {
            Issue.record("what is kept is not answered")
            return
        }
        #expect(run.count == 1)
        #expect(through.offset == 13)
    }
}
