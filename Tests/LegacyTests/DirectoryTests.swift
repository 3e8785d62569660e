import DittoSwift
import Foundation
import TestSupport
import Testing

@Suite("The folder of an application of 4.x")
struct DirectoryTests {
    @Test("a folder of another application's id does not open, says so wherever it can, and stays as it is")
    func otherID() async throws {
        try await withTemporaryDirectory { directory in
            let staging = Ditto.alone(.offlinePlayground(appID: "staging"), in: directory)
            try staging.store["c"].upsert(["_id": "of staging"])
            await staging.close()
            var opened: Ditto?
            let log = await ErrorLog.during {
                let production = Ditto.alone(.offlinePlayground(appID: "production"), in: directory)
                #expect(production.store["c"].findAll().exec().isEmpty)
                let subscription = production.store["c"].findAll().subscribe()
                let failures = [
                    caught { try production.startSync() },
                    caught { try production.store["c"].upsert(["a": 1]) },
                ]
                #expect(failures.map { $0?.code } == ["STORE-0106", "STORE-0106"])
                #expect(failures[0]?.name == "storeError.backendError" && !production.isSyncActive)
                subscription.cancel()
                opened = production
            }
            await opened?.close()
            #expect(log.contains { $0.contains("database staging") && $0.contains("for production") })
            let again = Ditto.alone(.offlinePlayground(appID: "staging"), in: directory)
            #expect(again.store["c"].findAll().exec().map(\.id) == ["of staging"])
            await again.close()
        }
    }

    @Test("an emptied folder opens for another id, without the documents of before")
    func emptied() async throws {
        try await withTemporaryDirectory { directory in
            let staging = Ditto.alone(.offlinePlayground(appID: "staging"), in: directory)
            try staging.store["c"].upsert(["_id": "of staging"])
            #expect(
                caught { try Ditto.emptyPersistenceDirectory(directory) }?.name
                    == "storeError.persistenceDirectoryLocked")
            await staging.close()
            try Ditto.emptyPersistenceDirectory(directory)
            let production = Ditto.alone(.offlinePlayground(appID: "production"), in: directory)
            #expect(production.store["c"].findAll().exec().isEmpty)
            try production.store["c"].upsert(["_id": "of production"])
            try production.startSync()
            #expect(production.isSyncActive)
            await production.close()
        }
    }
}
