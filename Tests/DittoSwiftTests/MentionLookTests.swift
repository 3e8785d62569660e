import Attachments
import Synchronization
import Testing

@testable import DittoSwift

@Suite("The look for documents that mention attachments")
struct MentionLookTests {
    private static func id(_ byte: UInt8) -> BlobID { BlobID(digest: [UInt8](repeating: byte, count: 32)) }

    /// Documents that mention the ids of these bytes, and the looks at them.
    private final class Documents: Sendable {
        struct State {
            var mentioned: Set<UInt8>
            var looks = 0
            var isReadable = true
        }
        let state: Mutex<State>
        init(_ mentioned: Set<UInt8>) { state = Mutex(State(mentioned: mentioned)) }

        var look: MentionLook {
            MentionLook { prefixes in
                // Long enough for others to ask meanwhile.
                try? await Task.sleep(for: .milliseconds(20))
                return self.state.withLock { state in
                    state.looks += 1
                    guard state.isReadable else { return nil }
                    return prefixes.subtracting(state.mentioned.map { MentionLookTests.id($0).prefix })
                }
            }
        }
    }

    @Test("one look answers for all that wait, and for as long as no commit comes")
    func shared() async {
        let documents = Documents([1, 2])
        let look = documents.look
        let all = Set((1...40 as ClosedRange<UInt8>).map { Self.id($0) })
        let found = await withTaskGroup(of: Bool?.self) { group in
            for id in all { group.addTask { await look.isMentioned(id, others: all) } }
            return await group.reduce(into: [Bool?]()) { $0.append($1) }
        }
        #expect(found.count { $0 == true } == 2 && found.count { $0 == false } == 38)
        #expect(documents.state.withLock { $0.looks } == 1)
        #expect(await look.isMentioned(Self.id(3), others: []) == false)
        #expect(documents.state.withLock { $0.looks } == 1)
    }

    @Test("after a commit a mention is believed for a while, and its absence never")
    func changed() async {
        let documents = Documents([1])
        let look = documents.look
        let both: Set = [Self.id(1), Self.id(2)]
        #expect(await look.isMentioned(Self.id(1), others: both) == true)
        documents.state.withLock { $0.mentioned = [2] }
        look.documentsChanged()
        #expect(await look.isMentioned(Self.id(1), others: both) == true)
        #expect(documents.state.withLock { $0.looks } == 1)
        #expect(await look.isMentioned(Self.id(2), others: both) == true)
        #expect(await look.isMentioned(Self.id(1), others: both) == false)
        #expect(documents.state.withLock { $0.looks } == 2)
    }

    @Test("documents that cannot be read say nothing")
    func unreadable() async {
        let documents = Documents([1])
        documents.state.withLock { $0.isReadable = false }
        let look = documents.look
        #expect(await look.isMentioned(Self.id(1), others: []) == nil)
        documents.state.withLock { $0.isReadable = true }
        #expect(await look.isMentioned(Self.id(1), others: []) == true)
    }
}
