import DQLCorpus
import Foundation
import TestSupport
import Testing

@Suite("Relations on the replica")
struct RelationsOnReplicaTests {
    @Test(
        "every relation holds, and each of its statements gives what it gives the naive evaluator",
        arguments: RelationCases.chunks(fast: 200))
    func holds(_ cases: Range<Int>) throws {
        try withTemporaryDirectory { folder in
            let folders = Folders(below: folder)
            let reports = try RelationRun(documents: 12).violations(of: cases) { _ in
                EnginePair(MemoryStore(isSorted: false), try ReplicaEngine(folder: folders.next()))
            }
            #expect(reports == [], "\(reports.joined(separator: "\n\n"))")
        }
    }

    /// Names new folders. Used by one thread at a time.
    private final class Folders {
        private let parent: URL
        private var count = 0

        init(below parent: URL) { self.parent = parent }

        func next() -> URL {
            count += 1
            return parent.appendingPathComponent("\(count)")
        }
    }
}
