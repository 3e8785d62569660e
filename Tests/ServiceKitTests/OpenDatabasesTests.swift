import Logging
import ServiceKit
import Synchronization
import Testing

@Suite("What is open per database", .timeLimit(.minutes(1)))
struct OpenDatabasesTests {
    /// The databases that are open, by number, and the events in their order.
    private final class Book: Sendable {
        private let state = Mutex((last: 0, events: [String]()))

        func open() -> Int {
            state.withLock { state in
                state.last += 1
                state.events.append("open \(state.last)")
                return state.last
            }
        }

        func note(_ event: String) { state.withLock { $0.events.append(event) } }
        var events: [String] { state.withLock { $0.events } }
    }

    private func table(_ book: Book) -> OpenDatabases<Int> {
        OpenDatabases(logger: Logger(label: "test")) { _ in book.open() }
    }

    @Test("opened once, closed by the first who means it, and opened again behind that")
    func reopening() async throws {
        let book = Book()
        let table = table(book)
        #expect(try await table("a") == 1)
        #expect(try await table("a") == 1)
        let (isClosing, signal) = AsyncStream.makeStream(of: Void.self)
        let closing = Task {
            await table.close("a", if: { $0 == 1 }) { number in
                signal.yield()
                try? await Task.sleep(for: .milliseconds(200))
                book.note("closed \(number)")
            }
        }
        for await _ in isClosing { break }
        // Another one who had it meant the same.
        await table.close("a", if: { $0 == 1 }) { _ in book.note("closed twice") }
        #expect(try await table("a") == 2)
        await closing.value
        #expect(book.events == ["open 1", "closed 1", "open 2"])
        await table.close("a", if: { $0 == 1 }) { _ in book.note("closed another") }
        #expect(table.all == [2])
        #expect(await table.removeAll() == [2])
        #expect(book.events.count == 3)
    }
}
