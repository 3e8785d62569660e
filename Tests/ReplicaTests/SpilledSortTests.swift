import CRDT
import DQL
import DQLCorpus
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("Sorting on disk")
struct SpilledSortTests {
    @Test(
        "rows come back in order and unchanged, and those that sort alike as they came",
        arguments: Depth.cases(fast: 4, deep: 100))
    func order(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        let naive = MemoryStore(isSorted: false)
        try withPeer { replica, _ in
            for number in 0..<60 {
                var entries: [ObjectValue.Entry] = [(key: "_id", value: .int(Int64(number)))]
                for key in ["b", "a"] {
                    let value = random.chance(40) ? .int(Int64(random.below(3))) : RandomValues.next(&random)
                    if let value { entries.append((key: key, value: value)) }
                }
                let document = arguments(("d", .object(ObjectValue(entries))))
                _ = try naive.execute("INSERT INTO c DOCUMENTS (:d)", document)
                try replica.execute("INSERT INTO c DOCUMENTS (:d)", document)
            }
            for order in ["a", "a DESC, b", "a NULLS FIRST", "b DESC NULLS LAST, a DESC", "a || 'x', b"] {
                for end in ["", " LIMIT 7 OFFSET 3", " LIMIT 59"] {
                    let statement = "SELECT b, a, _id, {'z': a, 'y': b} AS o FROM c ORDER BY \(order)\(end)"
                    var options = ExecutionOptions()
                    options.materializedRows = 1 + random.below(20)
                    let rows = try replica.read {
                        try PreparedStatement(statement).rows(in: $0, options: options)
                    }
                    #expect(
                        rows.map { "\($0)" } == (try naive.rows(statement)).map { "\($0)" }, "\(statement)")
                }
            }
        }
    }

    @Test("its file lies in the folder that is set, without a name; a folder that cannot be used is refused")
    func folder() throws {
        try withTemporaryDirectory { folder in
            try TemporaryFiles.lie(in: folder.path)
            let spill = try SpilledSort([])
            // More than SQLite keeps in memory.
            for _ in 0..<8 { try spill.add([], .string(String(repeating: "x", count: 1_000_000))) }
            let manager = FileManager.default
            let open = try manager.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
                try? manager.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
            }
            #expect(open.contains { $0.contains(folder.lastPathComponent) && $0.hasSuffix("(deleted)") })
            #expect(try manager.contentsOfDirectory(atPath: folder.path) == [])
            let error = #expect(throws: ReplicaError.self) {
                try TemporaryFiles.lie(in: folder.appendingPathComponent("missing").path)
            }
            #expect(error?.code == .storageFailed)
        }
    }

    @Test("a sort of more than memory may hold works, and can be cancelled")
    func large() throws {
        try withPeer { replica, _ in
            let text = String(repeating: "x", count: 1_000_000)
            let count = DQLLimits.sortBytes / 1_000_000 + 10
            try replica.insert(0..<2) { ["t": .string(text), "n": .int(Int64($0))] }
            for number in 2..<count {
                try replica.insert(number..<number + 1) {
                    ["t": .string(text), "n": .int(Int64($0 * 37 % 100))]
                }
            }
            let statement = try PreparedStatement("SELECT n, t FROM c ORDER BY n DESC, t")
            var numbers: [Int64] = []
            _ = try replica.read { transaction in
                try statement.forEachRow(in: transaction) { row in
                    numbers.append(row["n"]?.intValue ?? -1)
                    #expect(row["t"]?.stringValue?.utf8.count == text.utf8.count)
                    return true
                }
            }
            #expect(numbers.count == count)
            #expect(numbers == numbers.sorted(by: >))
            var options = ExecutionOptions()
            options.interruption = { .cancelled }
            #expect(throws: DQLError.self) {
                _ = try replica.read { try statement.rows(in: $0, options: options) }
            }
        }
    }
}
