import CRDT
import DQL
import Exchange
import Foundation
import Identity
import Machine
import OperationLog
import Replica
import Sync
import TestSupport
import Testing
import Transport

@testable import Replicator

/// Replays the exchange in `Shared/Sync/Example.md` with real stores, and compares it with the page.
@Suite("The worked example of a session", .timeLimit(.minutes(1)))
struct WorkedExampleTests {
    private static let database: DatabaseID = "example"
    private static let page = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Shared/Sync/Example.md")
    private static let fence = "```text\n"

    private static func identity(_ user: String, writes: AccessRules) -> Identity {
        Identity(
            userID: user, databaseID: database, peerKey: nil, grant: Grant(read: .everything, write: writes),
            expiresAtSeconds: 4_000_000_000)
    }

    /// A peer's store, and what an application does with it.
    private struct Author {
        let replica: PeerReplica

        init(_ folder: URL, _ name: String) throws {
            replica = try PeerReplica(
                directory: folder.appendingPathComponent(name).path, environment: .system,
                logger: TestBench.quiet)
        }

        /// Executes statements in one transaction.
        func execute(_ statements: String...) throws {
            let prepared = try statements.map { try PreparedStatement($0) }
            _ = try replica.write { transaction in
                for statement in prepared {
                    _ = try statement.execute(
                        in: transaction, arguments: ObjectValue(),
                        idGenerator: { Environment.system.generateDocumentID() })
                }
            }
        }

        func rows(_ statement: String) throws -> [String] {
            let prepared = try PreparedStatement(statement)
            return try replica.read { transaction in
                try prepared.rows(in: transaction).map { JSONText.print($0, sortedKeys: true) }
            }
        }
    }

    /// The blocks of the exchange on the page, and the page with others in their places.
    private static func blocks(replacedBy others: [String]? = nil) throws -> (blocks: [String], page: String)
    {
        let text = try String(contentsOf: page, encoding: .utf8)
        var parts = text.components(separatedBy: fence)
        var blocks: [String] = []
        for place in parts.indices.dropFirst() {
            guard let end = parts[place].range(of: "```") else { continue }
            blocks.append(String(parts[place][..<end.lowerBound]))
            let other = others.flatMap { $0.indices.contains(place - 1) ? $0[place - 1] : nil }
            if let other { parts[place].replaceSubrange(..<end.lowerBound, with: other) }
        }
        return (blocks, parts.joined(separator: fence))
    }

    @Test("the page shows what two sessions with real stores say to each other")
    func replayed() async throws {
        let parts = try await exchange()
        if ProcessInfo.processInfo.environment["MIMEO_WRITE_REFERENCE"] != nil {
            try Self.blocks(replacedBy: parts).page.write(to: Self.page, atomically: true, encoding: .utf8)
        }
        let written = try Self.blocks().blocks
        #expect(
            written == parts, "write it again: MIMEO_WRITE_REFERENCE=1 swift test --filter WorkedExampleTests"
        )
    }

    /// Plays the four parts; each one's transcript.
    private func exchange() async throws -> [String] {
        try await withTemporaryDirectory { folder in
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await log.createDatabase(Self.database)
            let hub = try await DatabaseHub.open(
                Self.database, log: log, folder: folder.appendingPathComponent("server").path,
                logger: TestBench.quiet)
            let alice = try Author(folder, "alice")
            let bob = try Author(folder, "bob")
            try await upload(bob, "INSERT INTO tasks DOCUMENTS ({'_id': 1, 'title': 'door'})", to: hub)
            let session = try #require(await hub.enter())
            let rules = AccessRules(queriesByCollection: ["tasks": ["true"]])
            let conversation = Conversation(
                peer: PeerStore(
                    replica: alice.replica, executor: .inline, report: { _ in }, acknowledged: {}),
                server: ServerStore(
                    hub: hub, log: log, database: Self.database, session: session,
                    identity: Self.identity("alice", writes: rules)),
                log: log, database: Self.database)
            let parts = try await talk(conversation, alice, bob, hub)
            await hub.leave(session)
            await hub.close()
            await log.close()
            try alice.replica.close()
            try bob.replica.close()
            return parts
        }
    }

    private func talk(
        _ conversation: Conversation, _ alice: Author, _ bob: Author, _ hub: DatabaseHub
    ) async throws -> [String] {
        var parts: [String] = []
        let tasks = try LiveSubscription(statement: "SELECT * FROM tasks", arguments: ObjectValue())
        alice.replica.setLiveQueries([tasks.query])
        conversation.open()
        conversation.tell(.subscribe(try tasks.request(from: alice.replica)))
        parts.append(try await conversation.run())

        try alice.execute("UPDATE tasks SET done = false WHERE _id = 1")
        conversation.tell(.ownOperationAdded(alice.replica.actor))
        parts.append(try await conversation.run())

        try await upload(bob, "UPDATE tasks SET title = 'front door' WHERE _id = 1", to: hub)
        parts.append(try await conversation.run())

        try alice.execute(
            "UPDATE tasks SET done = true WHERE _id = 1", "INSERT INTO prices DOCUMENTS ({'_id': 1})")
        let writer = alice.replica.actor
        for count in 1...3 { try alice.execute("UPDATE tasks SET coats = \(count) WHERE _id = 1") }
        conversation.tell(.ownOperationAdded(writer))
        parts.append(try await conversation.run())
        let row = try alice.rows("SELECT * FROM tasks")
        #expect(row == [#"{"_id":1,"coats":3,"done":false,"title":"front door"}"#])
        #expect(try alice.rows("SELECT * FROM prices").isEmpty)
        #expect(try alice.replica.refusedWrites().map(\.code) == [SyncErrorCode.writeNotGranted.rawValue])
        #expect(alice.replica.actor != writer)
        return parts
    }

    /// Has another peer write, and waits until the server has folded it.
    private func upload(_ bob: Author, _ statement: String, to hub: DatabaseHub) async throws {
        try bob.execute(statement)
        let actor = bob.replica.actor
        let all = try bob.replica.ownOperations(of: actor, after: 0, maxBytes: .max)
        let everything = Self.identity("bob", writes: .everything)
        let answer = try await hub.admission.admit(all.suffix(1).map(\.bytes), from: 0) { everything }
        guard case .appended(_, let offset) = answer else {
            Issue.record("\(answer)")
            return
        }
        try await hub.materializer.advance(through: offset)
    }
}
