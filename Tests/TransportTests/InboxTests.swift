import CRDT
import Sync
import Synchronization
import Testing

@testable import Transport

@Suite("What waits for a session")
struct InboxTests {
    private func key(_ number: Int) throws -> DocumentKey {
        DocumentKey(collection: "c", id: try DocumentID(.int(Int64(number))))
    }

    /// What the session is told of all that waits, item by item.
    private func told(_ inbox: Inbox) -> [[Event]] {
        var (inbox, events) = (inbox, [[Event]]())
        while let item = inbox.next() { events.append(item.events) }
        return events
    }

    private func actors(_ events: [Event]) -> [ActorID] {
        events.compactMap { if case .ownOperationAdded(let actor) = $0 { actor } else { nil } }
    }

    private func wanted(_ events: [Event]) -> [DocumentKey] {
        events.flatMap { if case .wanted(let keys) = $0 { keys } else { [DocumentKey]() } }
    }

    @Test("100,000 own commits of two actors wait as one item, and each actor is told once")
    func ownCommits() {
        var inbox = Inbox()
        for number in 0..<100_000 as Range<UInt64> {
            inbox.put(.ownOperationAdded(ActorID(number < 70_000 ? 1 : 2)))
        }
        let told = told(inbox)
        #expect(told.count == 1)
        #expect(actors(told.first ?? []) == [ActorID(1), ActorID(2)])
    }

    @Test("evictions by the million wait as one item of bounded size, each document once")
    func evictions() throws {
        var inbox = Inbox()
        let keys = try (0..<1_000).map(key)
        for _ in 0..<1_000 { inbox.put(.wanted(keys)) }
        #expect(wanted(told(inbox).flatMap { $0 }) == keys)
        var many = Inbox()
        for start in stride(from: 0, to: Transport.Limits.wantedDocuments + 5_000, by: 1_000) {
            many.put(.wanted(try (start..<start + 1_000).map(key)))
        }
        #expect(wanted(told(many).flatMap { $0 }).count == Transport.Limits.wantedDocuments)
    }

    @Test("a write is told before what is wanted, though that waited first")
    func order() throws {
        var inbox = Inbox()
        inbox.put(.wanted([try key(1)]))
        inbox.put(.stored)
        inbox.put(.ownOperationAdded(ActorID(1)))
        inbox.put(.wanted([try key(2)]))
        let told = told(inbox)
        #expect(told.count == 2)
        let first = try #require(told.first)
        #expect(first.count == 2)
        #expect(actors(Array(first.prefix(1))) == [ActorID(1)])
        #expect(wanted(Array(first.suffix(1))) == [try key(1), try key(2)])
    }

    @Test("several actors' commits are told in the order of the writes, whatever their numbers are")
    func actorsInOrder() {
        var inbox = Inbox()
        for number in [9, 3, 9, 7, 3, 1] as [UInt64] { inbox.put(.ownOperationAdded(ActorID(number))) }
        let told = told(inbox)
        #expect(told.map(actors) == [[9, 3, 7, 1].map { ActorID($0) }])
    }

    @Test("what comes after an item was told waits anew")
    func anew() {
        var inbox = Inbox()
        inbox.put(.ownOperationAdded(ActorID(1)))
        let first = inbox.next()
        #expect(first.map { actors($0.events) } == [ActorID(1)])
        #expect(inbox.isEmpty)
        inbox.put(.ownOperationAdded(ActorID(1)))
        let second = inbox.next()
        #expect(second.map { actors($0.events) } == [ActorID(1)])
    }

    @Test("frames wait one by one among the others, in order, and each says when it was handled")
    func frames() {
        var inbox = Inbox()
        let handled = Mutex<[Int]>([])
        for number in 0..<100 {
            inbox.put(frame: [UInt8(number)]) { handled.withLock { $0.append(number) } }
            if number % 3 == 0 { inbox.put(.stored) }
            // It is never empty, so what was taken goes bit by bit.
            if number % 2 == 1 { inbox.next()?.handled?() }
        }
        while let item = inbox.next() {
            #expect(item.events.count == 1)
            item.handled?()
        }
        #expect(handled.withLock { $0 } == Array(0..<100))
    }
}
