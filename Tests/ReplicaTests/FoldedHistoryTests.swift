import CRDT
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("What a fold remembers of operations")
struct FoldedHistoryTests {
    @Test("the checksums of many operations that are folded at once are each in their place")
    func many() throws {
        try withTemporaryDirectory { folder in
            let writer = try open(folder.appendingPathComponent("writer"))
            var log = TestLog()
            for number in 1...70 {
                let statement = "INSERT INTO c DOCUMENTS ({'_id': \(number)})"
                log.append(try #require(try writer.execute(statement).operation))
            }
            let fold = try openFold(folder.appendingPathComponent("fold"))
            _ = try fold.fold(log.items())
            let actor = try #require(log.operations.first).actor
            let found = try fold.read { try $0.hashes(of: actor, after: 0, through: 70) }
            #expect(found.first == 1)
            #expect(found.hashes == log.operations.map { hash64($0.encoded()) })
        }
    }
}
