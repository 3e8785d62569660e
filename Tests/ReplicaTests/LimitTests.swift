import CRDT
import DQL
import Exchange
import TestSupport
import Testing

@testable import Replica

@Suite("Limits")
struct LimitTests {
    @Test("a document over the hard limit is refused, one that only shrinks towards it is not")
    func hard() throws {
        try withPeer { replica, _ in
            let text = Value.string(String(repeating: "x", count: CRDT.Limits.documentHardLimitBytes))
            #expect(
                code {
                    try replica.execute(
                        "INSERT INTO c DOCUMENTS ({'_id': 1, 't': :t})", arguments(("t", text)))
                }
                    == .documentTooLarge)
            #expect(try replica.rows("SELECT * FROM c") == [])
            let large = try document("t", text, by: 5, at: 10)
            let update = DocumentUpdate(key: try key("c", 1), content: .state(large.encoded()))
            #expect(try replica.receive(Reception(updates: [update])) == .stored)
            #expect(code { try replica.execute("UPDATE c SET u = 1") } == .documentTooLarge)
            try replica.execute("UPDATE c SET t = 'short'")
            #expect(try replica.rows("SELECT t FROM c") == ["{\"t\":\"short\"}"])
        }
    }

    @Test("a document over the soft limit is stored with a warning")
    func soft() throws {
        try withPeer { replica, _ in
            let insert = try PreparedStatement("INSERT INTO c DOCUMENTS ({'_id': :id, 't': :t})")
            let sizes = [1_000, CRDT.Limits.documentSoftLimitBytes]
            let warnings = try sizes.map { size in
                try replica.write { transaction in
                    _ = try insert.execute(
                        in: transaction,
                        arguments: arguments(
                            ("id", .int(Int64(size))), ("t", .string(String(repeating: "x", count: size)))),
                        idGenerator: { preconditionFailure("ids are given") })
                    return transaction.warnings
                }.value
            }
            #expect(warnings[0] == [])
            #expect(warnings[1].count == 1)
            #expect(warnings[1].first?.contains("\"\(CRDT.Limits.documentSoftLimitBytes)\"") == true)
        }
    }

    @Test("a transaction larger than an operation may be is refused whole")
    func operation() throws {
        try withPeer { replica, _ in
            let text = Value.string(String(repeating: "x", count: 4_500_000))
            let statement = """
                INSERT INTO c DOCUMENTS ({'_id': 1, 't': :t}), ({'_id': 2, 't': :t}), ({'_id': 3, 't': :t}),
                    ({'_id': 4, 't': :t})
                """
            #expect(code { try replica.execute(statement, arguments(("t", text))) } == .transactionTooLarge)
            #expect(try replica.everything() == [:])
            let small = try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(small.commit == 1)
        }
    }

    @Test("a collection's name has 1 to 512 bytes, and names that only look alike are two collections")
    func collectionNames() throws {
        try withPeer { replica, _ in
            let id = try DocumentID("a")
            for name in ["", String(repeating: "é", count: 257)] {
                #expect(
                    code { _ = try replica.write { try $0.edit(CollectionName(name), id) { $0.create() } } }
                        == .invalidCollection)
            }
            let names = ["e\u{301}", "\u{e9}", String(repeating: "é", count: 256)]
            for name in names {
                _ = try replica.write { try $0.edit(CollectionName(name), id) { $0.create() } }
            }
            #expect(
                try replica.read { try $0.collectionNames() }.map { Array($0.text.utf8).count } == [
                    3, 2, 512,
                ])
            #expect(try replica.everything().count == 3)
        }
    }
}
