internal import CMimeo
import CRDT
import Dispatch
import DittoSwift
import Foundation
import Glibc
import Synchronization

/// An open database and everything of it that has a handle.
final class Database: Held {
    static let kind = "a database"
    let ditto: Ditto
    let events = Events()
    /// Converts results for observers, in the order in which they came.
    let queue = DispatchQueue(label: "mimeo.events")
    private let state = Mutex(State())

    private struct State {
        /// Handles to release at the end.
        var parts: Set<UInt64> = []
        /// The thread that has a transaction open which writes; nil for one of any thread.
        var writer: pthread_t?
        var isClosed = false
    }

    init(_ ditto: Ditto) { self.ditto = ditto }

    /// Gives a part of the database a handle.
    /// - Throws: `NATIVE-0101` if the database was closed meanwhile.
    func add(_ part: any Held) throws -> UInt64 {
        let handle = HandleTable.shared.reserve()
        try state.withLock { state in
            guard !state.isClosed else {
                throw BorderError(.handleUnknown, "the database was closed by another thread")
            }
            state.parts.insert(handle)
            HandleTable.shared.set(part, at: handle)
        }
        return handle
    }

    /// Gives a part a handle and starts it; takes the handle back if that fails.
    func add<Part: Held>(_ part: Part, starting start: (UInt64, Part) throws -> Void) throws -> UInt64 {
        let handle = try add(part)
        do {
            try start(handle, part)
        } catch {
            forget(handle)
            _ = try? HandleTable.shared.remove(handle)
            throw error
        }
        return handle
    }

    /// A part was released.
    func forget(_ handle: UInt64) {
        state.withLock { _ = $0.parts.remove(handle) }
    }

    /// Notes the thread that writes, until `stopWriting`.
    func startWriting() { state.withLock { $0.writer = pthread_self() } }
    func stopWriting() { state.withLock { $0.writer = nil } }

    /// - Throws: `SDK-0205` on the thread that has a transaction open, and would wait for itself.
    func checkNotInside() throws {
        let isInside = state.withLock { $0.writer.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
        guard isInside else { return }
        throw BorderError(
            code: "SDK-0205",
            "this thread has a transaction of the database open, and would wait for it forever: execute the"
                + " statement in the transaction")
    }

    /// Ends all parts, then the instance; returns when the directory is free.
    func end() {
        let parts = state.withLock { state in
            state.isClosed = true
            return state.parts
        }
        for part in parts { (try? HandleTable.shared.remove(part))?.end() }
        events.close()
        let ditto = ditto
        // Closing throws nothing.
        try? DittoStore.waiting { await ditto.close() }
    }
}

/// A part that ends with one call: an observer, a subscription, a watcher, a fetch.
final class Running: Held {
    static let kind = "an observer, watcher, subscription or fetch"
    private let database: Database
    private let state = Mutex(State())

    private struct State {
        var handle = UInt64(0)
        var stop: (@Sendable () -> Void)?
        var isEnded = false
    }

    init(_ database: Database) { self.database = database }

    /// Takes the call that ends it.
    func started(_ handle: UInt64, _ stop: @escaping @Sendable () -> Void) {
        let isEnded = state.withLock { state in
            state.handle = handle
            state.stop = stop
            return state.isEnded
        }
        // Released by another thread while it was being started.
        if isEnded { end() }
    }

    func end() {
        let (handle, stop) = state.withLock { state in
            defer { state.stop = nil }
            state.isEnded = true
            return (state.handle, state.stop)
        }
        stop?()
        database.events.forget(handle)
        database.forget(handle)
    }
}

/// A transaction with a handle. Ending it releases the handle.
final class HeldTransaction: Held {
    static let kind = "a transaction"
    let database: Database
    private let transaction: OpenTransaction
    private let writes: Bool
    private let last = Mutex<DittoQueryResult?>(nil)
    private let handle = Mutex(UInt64(0))

    init(_ database: Database, _ transaction: OpenTransaction, isBound: Bool) {
        self.database = database
        self.transaction = transaction
        writes = isBound
        if isBound { database.startWriting() }
    }

    func named(_ handle: UInt64) { self.handle.withLock { $0 = handle } }

    func execute(_ statement: String, _ arguments: ObjectValue) throws -> DittoQueryResult {
        let result = try transaction.execute(statement, arguments)
        if result.isWrite { last.withLock { $0 = result } }
        return result
    }

    /// Ends it. Returns the number of the commit, 0 if nothing was written.
    func end(commits: Bool) throws -> UInt64 {
        if writes { database.stopWriting() }
        database.forget(handle.withLock { $0 })
        try transaction.end(commits ? .commit : .rollback)
        return commits ? last.withLock { $0 }?.commitID ?? 0 : 0
    }

    func end() { _ = try? end(commits: false) }
}

/// The rows of a SELECT that are fetched in parts.
final class Cursor: Held {
    static let kind = "a cursor"
    private let items: [DittoQueryResultItem]
    private let next = Mutex(0)

    init(_ result: DittoQueryResult) { items = result.items }

    func end() {}

    func rows(atMost limit: Int) -> [Value] {
        let range = next.withLock { next in
            // A size beyond the integers arrives as a negative one.
            let end = min(items.count, next + (limit < 0 ? items.count : min(limit, items.count)))
            defer { next = end }
            return next..<end
        }
        return items[range].map(\.row)
    }
}

/// An attachment with a handle, and the bytes of its token.
final class HeldAttachment: Held {
    static let kind = "an attachment"
    let attachment: DittoAttachment
    let token: Bytes
    let size: Int
    let format: Format

    init(_ attachment: DittoAttachment, _ format: Format = .cbor) {
        self.attachment = attachment
        let (bytes, used) = format.bytes(attachment.markedToken)
        token = Bytes(bytes)
        size = bytes.count
        self.format = used
    }

    func end() {}
}
