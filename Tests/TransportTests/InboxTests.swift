import CRDT
import Sync
import Testing

@testable import Transport

@Suite("What waits for a session")
struct InboxTests {
    private func key(_ number: Int) throws -> DocumentKey {
        DocumentKey(collection: "c", id: try DocumentID(.int(Int64(number))))
    }

    /// What the session is told of all that waits, item by item.
    private func told(_ inbox: Inbox) async -> [[Event]] {
        inbox.put(.finish(SyncError(.goingAway, "the end")))
        var events: [[Event]] = []
        for await item in inbox.items {
            let next = inbox.events(of: item)
            if case .finish? = next.first { break }
            events.append(next)
        }
        return events
    }

    private func actors(_ events: [Event]) -> [ActorID] {
        events.compactMap { if case .ownOperationAdded(let actor) = $0 { actor } else { nil } }
    }

    private func wanted(_ events: [Event]) -> [DocumentKey] {
        events.flatMap { if case .wanted(let keys) = $0 { keys } else { [DocumentKey]() } }
    }

    @Test("100,000 own commits of two actors wait as one item, and each actor is told once")
    func ownCommits() async {
        let inbox = Inbox()
        for number in 0..<100_000 as Range<UInt64> {
            inbox.put(.ownOperationAdded(ActorID(number < 70_000 ? 1 : 2)))
        }
        let told = await told(inbox)
        #expect(told.count == 1)
        #expect(actors(told.first ?? []) == [ActorID(1), ActorID(2)])
    }

    @Test("evictions by the million wait as one item of bounded size, each document once")
    func evictions() async throws {
        let inbox = Inbox()
        let keys = try (0..<1_000).map(key)
        for _ in 0..<1_000 { inbox.put(.wanted(keys)) }
        #expect(wanted(await told(inbox).flatMap { $0 }) == keys)
        let many = Inbox()
        for start in stride(from: 0, to: Transport.Limits.wantedDocuments + 5_000, by: 1_000) {
            many.put(.wanted(try (start..<start + 1_000).map(key)))
        }
        #expect(wanted(await told(many).flatMap { $0 }).count == Transport.Limits.wantedDocuments)
    }

    @Test("a write is told before what is wanted, though that waited first")
    func order() async throws {
        let inbox = Inbox()
        inbox.put(.wanted([try key(1)]))
        inbox.put(.stored)
        inbox.put(.ownOperationAdded(ActorID(1)))
        inbox.put(.wanted([try key(2)]))
        let told = await told(inbox)
        #expect(told.count == 2)
        let first = try #require(told.first)
        #expect(first.count == 2)
        #expect(actors(Array(first.prefix(1))) == [ActorID(1)])
        #expect(wanted(Array(first.suffix(1))) == [try key(1), try key(2)])
    }

    @Test("several actors' commits are told in the order of the writes, whatever their numbers are")
    func actorsInOrder() async {
        let inbox = Inbox()
        for number in [9, 3, 9, 7, 3, 1] as [UInt64] { inbox.put(.ownOperationAdded(ActorID(number))) }
        let told = await told(inbox)
        #expect(told.map(actors) == [[9, 3, 7, 1].map { ActorID($0) }])
    }

    @Test("what comes after an item was told waits anew")
    func anew() async {
        let inbox = Inbox()
        inbox.put(.ownOperationAdded(ActorID(1)))
        var items = inbox.items.makeAsyncIterator()
        let first = await items.next()
        #expect(first.map { actors(inbox.events(of: $0)) } == [ActorID(1)])
        inbox.put(.ownOperationAdded(ActorID(1)))
        let second = await items.next()
        #expect(second.map { actors(inbox.events(of: $0)) } == [ActorID(1)])
    }

    @Test("a reader waits until its frame was handled, and is let go at the end")
    func frames() async {
        let inbox = Inbox()
        let reader = Task {
            await inbox.put(frame: [1])
            await inbox.put(frame: [2])
        }
        var items = inbox.items.makeAsyncIterator()
        let first = await items.next()
        first?.release()
        // The second is never handled.
        inbox.close()
        await reader.value
    }
}
