import CRDT
import Foundation
import Replica
import Testing

@testable import QueryService

@Suite("A projection in a folder that is damaged", .timeLimit(.minutes(1)))
struct DamagedProjectionTests {
    @Test("a turned byte in a value is found by whoever reads it, and the same answer says what is right")
    func turned() async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        let marker = "the color of the seventeenth car is blue"
        let before = try await bench.serving(log) { client async throws in
            for number in 0..<60 {
                // Nothing that packs too well for the client.
                let other = (0..<40).map { String(number * 7_919 + $0 * 104_729) }.joined(separator: " ")
                let text = number == 17 ? marker : other
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(number), 't': '\(text)'})")
            }
            return try await client.execute("SELECT * FROM c").rows
        }
        #expect(before.count == 60)
        let file = URL(fileURLWithPath: "\(bench.folder)/query/\(QueryBench.database)/replica.sqlite")
        var bytes = try Data(contentsOf: file)
        let place = try #require(bytes.range(of: Data("seventeenth".utf8))).lowerBound
        bytes[place] ^= 1
        try bytes.write(to: file)
        try await bench.serving(log) { client async throws in
            // It opens: the damage is where nothing was read yet.
            #expect(try await client.execute("SELECT COUNT(*) AS n FROM c WHERE _id = 1").status == 200)
            let answer = try await client.execute("SELECT * FROM c")
            #expect(answer.status == 200)
            #expect(answer.rows == before)
            #expect(try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 99})").status == 200)
            #expect(try await client.health() == 200)
        }
        await log.close()
    }

    @Test("damage is never the client's fault")
    func blame() {
        for error in [
            ReplicaError(.damaged, "x") as any Error, ReplicaError(.brokenLog, "x"),
        ] {
            let answer = QueryError.translated(error) as? QueryError
            #expect(answer?.publicCode == "QUERY-0306" && answer?.httpStatus == .internalServerError)
            #expect(answer?.httpHeaders.isEmpty == true)
        }
    }
}
