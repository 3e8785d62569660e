import Foundation
import TestSupport
import Testing

@testable import DittoSwift

@Suite("The end of an instance", .timeLimit(.minutes(5)))
struct ReleaseTests {
    /// A reference that keeps nothing.
    private final class Seen {
        weak var links: PeerLinks?
        weak var engine: Engine?
    }

    private func open(_ seen: Seen, in directory: URL) async throws {
        let ditto = try await Ditto.openAlone(config: .local(directory))
        try await ditto.store.execute(query: "SELECT * FROM system:transports_info")
        seen.links = ditto.links
        seen.engine = ditto.store.engine
        #expect(seen.links != nil)
        await ditto.close()
    }

    @Test("an instance that was closed and released leaves neither its engine nor its links in memory")
    func released() async throws {
        try await withTemporaryDirectory { directory in
            let seen = Seen()
            try await open(seen, in: directory)
            #expect(await eventually { seen.links == nil && seen.engine == nil })
        }
    }
}
