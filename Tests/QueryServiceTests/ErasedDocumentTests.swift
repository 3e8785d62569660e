import CRDT
import Logging
import OperationLog
import ServiceKit
import Testing

@Suite("Erased documents")
struct ErasedDocumentTests {
    @Test("an erased id takes no writes, others of the collection and the id elsewhere do")
    func refused() async throws {
        try await QueryBench.each { bench in
            let log = try await bench.openLog()
            let system = SystemDatabase(
                log: log, folder: "\(bench.folder)/system", logger: Logger(label: "test"))
            try await system.open()
            let database = DatabaseID(QueryBench.database)
            let erased = DocumentKey(collection: "cars", id: try DocumentID(.string("fiat")))
            let elsewhere = DocumentKey(collection: "vans", id: try DocumentID(.int(1)))
            try await system.write { writer in
                try writer.put(DatabaseRecord(id: QueryBench.database, createdAtSeconds: 1))
                for key in [erased, elsewhere] {
                    try writer.put(
                        DocumentErasure(
                            database: database, digests: [ErasedDocuments.digest(of: key, in: database)],
                            blobs: [], requestedAtSeconds: 1))
                }
            }
            try await bench.serving(log, system: system) { client in
                for statement in [
                    "INSERT INTO cars DOCUMENTS ({'_id': 'fiat'})",
                    "INSERT INTO cars DOCUMENTS ({'_id': 'opel'}), ({'_id': 'fiat'})",
                    "INSERT INTO vans DOCUMENTS ({'_id': 1})",
                ] {
                    let answer = try await client.execute(statement)
                    #expect((answer.status, answer.code) == (410, "QUERY-0204"), "\(statement)")
                }
                let written = try await client.execute(
                    "INSERT INTO cars DOCUMENTS ({'_id': 'Fiat'}), ({'_id': 1})")
                #expect(written.status == 200)
                #expect(
                    try await client.execute("INSERT INTO vans DOCUMENTS ({'_id': 'fiat'})").status == 200)
                #expect(try await client.execute("SELECT _id FROM cars").rows.count == 2)
            }
            await log.close()
        }
    }
}
