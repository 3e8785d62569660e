import CRDT
import DQL
import Dispatch
import TestSupport
import Testing

@testable import Replica

@Suite("Scans during writes")
struct ScanTests {
    @Test("readers on many threads see whole transactions only, each at the head it names")
    func snapshots() async throws {
        try await withTemporaryDirectory { folder in
            let replica = try open(folder)
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 'a', 'n': 0}), ({'_id': 'b', 'n': 0})")
            let commits = 150
            let select = try PreparedStatement("SELECT n FROM c")
            let scans = try await withThrowingTaskGroup(of: Int.self) { group in
                group.addTask {
                    for number in 1...commits { try replica.execute("UPDATE c SET n = \(number)") }
                    return 0
                }
                for _ in 0..<4 {
                    group.addTask {
                        var scans = 0
                        var last: UInt64 = 0
                        while last < UInt64(commits) + 1 {
                            let (head, rows) = try replica.read { transaction in
                                (try transaction.head(), try select.rows(in: transaction))
                            }
                            #expect(head >= last)
                            #expect(rows == Array(repeating: ["n": .int(Int64(head) - 1)], count: 2))
                            last = head
                            scans += 1
                        }
                        return scans
                    }
                }
                return try await group.reduce(0, +)
            }
            #expect(scans >= 4)
        }
    }

    @Test("a scan in progress neither waits for a writer nor sees it")
    func scanGoesOn() throws {
        try withPeer { replica, _ in
            for id in 0..<50 { try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(id), 'n': 0})") }
            var seen: [Int64] = []
            try replica.read { transaction in
                try transaction.scan("c") { record in
                    if seen.isEmpty {
                        try elsewhere {
                            try replica.execute("UPDATE c SET n = 1")
                            try replica.execute("DELETE FROM c WHERE _id > 10")
                        }
                    }
                    seen.append(try record.document.root.value()["n"]?.intValue ?? -1)
                    return true
                }
            }
            #expect(seen == Array(repeating: 0, count: 50))
            #expect(try replica.rows("SELECT COUNT(*) AS n FROM c WHERE n = 1") == ["{\"n\":11}"])
        }
    }

    @Test("a visit that returns false ends the scan; unknown collections and documents are empty")
    func ending() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2}), ({'_id': 3})")
            try replica.execute("DELETE FROM c WHERE _id = 3")
            var visits = 0
            try replica.read { transaction in
                try transaction.scan("c") { _ in
                    visits += 1
                    return false
                }
                try transaction.scan("unknown") { _ in
                    visits += 100
                    return true
                }
                for (collection, id) in [("unknown", 1), ("c", 3), ("c", 4)] {
                    try transaction.lookup(CollectionName(collection), DocumentID(.int(Int64(id)))) { _ in
                        visits += 100
                    }
                }
                try transaction.lookup("c", DocumentID(2)) { _ in visits += 1 }
            }
            #expect(visits == 2)
        }
    }

}

/// Runs `body` on another thread and waits for it.
func elsewhere(_ body: @escaping @Sendable () throws -> Void) throws {
    let done = DispatchSemaphore(value: 0)
    let failure = FailureBox()
    DispatchQueue.global().async {
        failure.set(Result { try body() })
        done.signal()
    }
    done.wait()
    try failure.get()
}
