import CRDT
import Exchange
import Foundation
import TestSupport
import Testing

@testable import Replica

/// Documents that links brought, and that the server has not seen whole after it was told of them.
@Suite("What the server has not seen of links")
struct SettlingTests {
    private let feed = LogID(bytes: Array(repeating: 9, count: 16))

    /// A link brings documents that somebody else has written.
    private func bring(
        _ numbers: Range<Int>, to replica: PeerReplica, _ folder: URL, bytes: Int = 0
    ) throws {
        let text = String(repeating: "x", count: bytes)
        let other = try ReplicaTests.open(
            folder.appendingPathComponent("other-\(numbers.lowerBound)"),
            TestEnvironment(seed: UInt64(numbers.lowerBound) + 7))
        var updates: [DocumentUpdate] = []
        for number in numbers {
            try other.execute("INSERT INTO c DOCUMENTS ({'_id': \(number), 't': '\(text)'})")
            let key = DocumentKey(collection: "c", id: try DocumentID(.int(Int64(number))))
            let state = try #require(try other.read { try $0.state(of: key) })
            updates.append(DocumentUpdate(key: key, content: .state(state)))
        }
        try other.close()
        _ = try replica.feed.receive(
            Reception(updates: updates, cursors: [], publishes: nil, settles: [], rights: nil),
            from: try #require(feed))
    }

    /// A whole list, to which the server answers that it has nothing of it.
    private func list(_ replica: PeerReplica, isFirst: Bool = false) throws -> Set<DocumentKey> {
        let through = try replica.feed.beginLinkList(isFirst: isFirst)
        var named: [DocumentKey] = []
        var last: DocumentKey?
        while true {
            let page = try replica.feed.linkHoldings(after: last, through: through)
            named += page.candidates.map(\.key)
            if page.isLast { break }
            last = named.last
        }
        _ = try replica.feed.settleLinks(through: through, limit: 1_024)
        _ = try replica.receive(
            Reception(updates: [], cursors: [], publishes: nil, settles: named, rights: nil))
        return Set(named)
    }

    @Test("is named again with later lists a few at a time, in turn; and a page of it in the next session")
    func open() throws {
        try withTemporaryDirectory { folder in
            let replica = try linked(folder)
            try bring(0..<200, to: replica, folder)
            #expect(try list(replica).count == 200)
            var seen: Set<DocumentKey> = []
            for round in 0..<4 {
                try bring((200 + round)..<(201 + round), to: replica, folder)
                let named = try list(replica)
                #expect(named.count == ReplicaLimits.openHoldings + 1)
                seen.formUnion(named)
            }
            #expect(seen.count == 204)
            // Without news too, as ever.
            #expect(try list(replica).count == ReplicaLimits.openHoldings)
            // An attempt that reaches no server names none.
            _ = try replica.ownHistory()
            #expect(try list(replica).count == ReplicaLimits.openHoldings)
            #expect(try list(replica, isFirst: true).count == 204)
            try replica.close()
        }
    }

    @Test("is named again up to a number of bytes, at least one document", arguments: [100_000, 300_000])
    func large(bytes: Int) throws {
        let count = bytes == 100_000 ? 2 : 1
        try withTemporaryDirectory { folder in
            let replica = try linked(folder)
            try bring(0..<4, to: replica, folder, bytes: bytes)
            #expect(try list(replica, isFirst: true).count == 4)
            #expect(try list(replica, isFirst: true).count == count)
            #expect(try list(replica).count == count)
            try replica.close()
        }
    }

    @Test("is not named any more once the server has seen it")
    func settled() throws {
        try withTemporaryDirectory { folder in
            let replica = try linked(folder)
            try bring(0..<3, to: replica, folder)
            let keys = try list(replica)
            #expect(try list(replica) == keys)
            _ = try replica.feed.beginLinkList()
            let states = try keys.map { key in
                DocumentUpdate(
                    key: key, content: .state(try #require(try replica.read { try $0.state(of: key) })))
            }
            _ = try replica.feed.settleLinks(through: replica.head, limit: 8)
            _ = try replica.receive(
                Reception(updates: states, cursors: [], publishes: nil, settles: Array(keys), rights: nil))
            #expect(try list(replica).isEmpty)
            try replica.close()
        }
    }

    @Test("is listed whole only if it is little")
    func whole() throws {
        try withTemporaryDirectory { folder in
            let replica = try linked(folder)
            try bring(0..<3, to: replica, folder, bytes: 100)
            let list = try #require(try replica.feed.wholeLinkList(documents: 3, bytes: 1_000))
            #expect(list.versions.count == 3 && list.through == replica.head)
            #expect(try replica.feed.wholeLinkList(documents: 2, bytes: 1_000) == nil)
            #expect(try replica.feed.wholeLinkList(documents: 3, bytes: 250) == nil)
            try replica.close()
        }
    }

    /// A store with links and a server.
    private func linked(_ folder: URL) throws -> PeerReplica {
        let replica = try ReplicaTests.open(folder.appendingPathComponent("store"))
        _ = try replica.feed.begin(hasServer: true)
        return replica
    }
}
