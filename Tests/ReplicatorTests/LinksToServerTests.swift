import CRDT
import Exchange
import Foundation
import Machine
import Replica
import Sync
import Testing
import Transport

/// Small peers of which only some reach the server, over real sessions: links within the process, and
/// WebSockets to a replicator.
@Suite("What links bring reaches the server", .timeLimit(.minutes(5)))
struct LinksToServerTests {
    /// Both ends of a connection within the process.
    private static func pipe() -> (TaskedChannel, TaskedChannel) {
        let (toSecond, second) = AsyncStream.makeStream(of: [UInt8].self)
        let (toFirst, first) = AsyncStream.makeStream(of: [UInt8].self)
        func channel(
            _ incoming: AsyncStream<[UInt8]>, _ outgoing: AsyncStream<[UInt8]>.Continuation
        ) -> TaskedChannel {
            TaskedChannel(
                send: { outgoing.yield($0) },
                receive: {
                    for await frame in incoming { return frame }
                    return nil
                }, close: { _, _ in outgoing.finish() })
        }
        return (channel(toFirst, second), channel(toSecond, first))
    }

    /// Links two feeds while `body` runs.
    private static func linked(
        _ dialer: MeshFeed, _ listener: MeshFeed, _ body: () async throws -> Void
    ) async throws {
        let (near, far) = pipe()
        let runs = [(dialer, near, true), (listener, far, false)].map { feed, channel, isDialer in
            Task {
                let link = MeshFeed.Parties(
                    databaseID: TestBench.database, isDialer: isDialer,
                    wallMilliseconds: Environment.system.wallMilliseconds())
                return await feed.run(link, over: channel)
            }
        }
        try await body()
        for run in runs { run.cancel() }
        for run in runs { _ = await run.value }
    }

    private static func offline(_ bench: TestBench, _ name: String) throws -> PeerReplica {
        try PeerReplica(
            directory: bench.folder.appendingPathComponent(name).path, environment: .system,
            logger: TestBench.quiet)
    }

    @Test("documents of an author that never meets it, and a write that rests on them")
    func relayed() async throws {
        try await TestBench.run { bench in
            let gateway = try bench.peer("gateway")
            let reader = try bench.peer("reader")
            let author = try bench.peer("author")
            for peer in [gateway, reader] {
                _ = try peer.sync.subscribe(statement: "SELECT * FROM c", arguments: ObjectValue())
                peer.sync.start()
            }
            try author.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            let near = try MeshFeed(
                replica: gateway.replica, hasServer: true, setsLiveQueries: false, logger: TestBench.quiet)
            let far = try MeshFeed(replica: author.replica, logger: TestBench.quiet)
            for feed in [near, far] { _ = try feed.subscribe(statement: "SELECT * FROM c") }
            // The session began before there were links.
            gateway.sync.restartSession()
            try await Self.linked(near, far) {
                #expect(try await eventually { try gateway.rows("SELECT * FROM c").count == 1 })
                #expect(try await eventually { try reader.rows("SELECT n FROM c") == [#"{"n":1}"#] })
                try author.execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'n': 1})")
                #expect(
                    try await eventually { try gateway.rows("SELECT n FROM c WHERE _id = 2").count == 1 })
                // At once: it rests on what the server has not been given yet.
                let commit = try gateway.execute("UPDATE c SET n = 2 WHERE _id = 2")
                #expect(try await gateway.isAcknowledged(commit))
                #expect(
                    try await eventually {
                        try reader.rows("SELECT n FROM c WHERE _id = 2") == [#"{"n":2}"#]
                    })
                #expect(
                    try await eventually {
                        try author.rows("SELECT n FROM c WHERE _id = 2") == [#"{"n":2}"#]
                    })
            }
            #expect(try gateway.replica.refusedCommits(from: 0, limit: 1).isEmpty)
            // The author meets the server after all: its operations are there, and are acknowledged.
            _ = try author.sync.subscribe(statement: "SELECT * FROM c", arguments: ObjectValue())
            author.sync.start()
            #expect(try await author.isAcknowledged(author.replica.head))
            #expect(try await eventually { try author.rows("SELECT * FROM c").count == 2 })
            for peer in [gateway, reader, author] { await peer.sync.stop() }
            for feed in [near, far] { feed.close() }
        }
    }

    @Test("a document that the server has deleted meanwhile goes, when a link brings an old copy")
    func gone() async throws {
        try await TestBench.run { bench in
            let gateway = try bench.peer("gateway")
            let old = try bench.peer("old")
            for peer in [gateway, old] {
                _ = try peer.sync.subscribe(statement: "SELECT * FROM c", arguments: ObjectValue())
            }
            old.sync.start()
            let commit = try old.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            #expect(try await old.isAcknowledged(commit))
            await old.sync.stop()
            gateway.sync.start()
            #expect(try await eventually { try gateway.rows("SELECT * FROM c").count == 1 })
            let deletion = try gateway.execute("DELETE FROM c WHERE _id = 1")
            #expect(try await gateway.isAcknowledged(deletion))
            let near = try MeshFeed(
                replica: gateway.replica, hasServer: true, setsLiveQueries: false, logger: TestBench.quiet)
            let far = try MeshFeed(replica: old.replica, logger: TestBench.quiet)
            for feed in [near, far] { _ = try feed.subscribe(statement: "SELECT * FROM c") }
            try await Self.linked(far, near) {
                let isGone = try await eventually { try old.rows("SELECT * FROM c").isEmpty }
                #expect(isGone)
            }
            #expect(try gateway.rows("SELECT * FROM c").isEmpty)
            await gateway.sync.stop()
            for feed in [near, far] { feed.close() }
        }
    }
}
