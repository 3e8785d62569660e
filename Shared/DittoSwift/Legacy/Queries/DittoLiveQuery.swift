import CRDT
import DQL
import Dispatch
import Foundation
import Synchronization

/// A query that calls a closure with each new result. It ends when it is stopped, and when nobody holds it
/// any more. After that the closure is not called.
@available(*, deprecated, message: "Use DittoStoreObserver of ditto.store.registerObserver")
public final class DittoLiveQuery: Sendable {
    /// The query, in the language of the 4.x API.
    public let query: String
    /// The name of its collection.
    public var collectionName: String { collection.name.text }

    private let collection: LegacyCollection
    private let parts: LegacyCollection.Parts?
    /// Nil for a query that cannot run.
    private let observer: DittoStoreObserver?
    private let subscription: DittoSubscription?

    init(
        _ collection: LegacyCollection, _ query: String, _ queue: DispatchQueue,
        _ subscription: DittoSubscription?, _ parts: () throws -> LegacyCollection.Parts,
        _ handler: @escaping (_ rows: [KeptRow], _ signalNext: @escaping DittoSignalNext) -> Void
    ) {
        self.collection = collection
        self.query = query
        self.subscription = subscription
        do {
            let parts = try parts()
            observer = try collection.store.register(
                parts.statement, parts.arguments, GivenArguments(parts.arguments.plain), queue, .legacy
            ) { result, signalNext in
                handler(result.items.map(\.kept), signalNext)
            }
            self.parts = parts
        } catch {
            collection.store.unthrown.report("observeLocal", error)
            observer = nil
            self.parts = nil
        }
    }

    deinit { stop() }

    /// Ends it. Once this has returned the closure is not called any more, unless it called this itself.
    public func stop() {
        observer?.cancel()
        subscription?.cancel()
    }

    /// The hashes of the documents that it finds now.
    func hashes() throws -> [UInt64] {
        guard let parts else { return [] }
        return try collection.rows(parts.statement, parts.arguments).map(\.versionHash)
    }
}

/// The rows of the last call of a closure.
final class LastRows: Sendable {
    private let rows = Mutex<[KeptRow]?>(nil)

    /// Replaces the rows. Returns those before; nil the first time.
    func replace(_ new: [KeptRow]) -> [KeptRow]? {
        rows.withLock { rows in
            defer { rows = new }
            return rows
        }
    }
}

/// The difference between the documents of a call and those of the call before.
@available(*, deprecated, message: "Use DittoDiffer")
public enum DittoLiveQueryEvent: CustomStringConvertible, Sendable {
    /// The first call, which comes also when there are no documents.
    case initial
    /// A later call.
    case update(DittoLiveQueryUpdate)

    init(from old: [KeptRow]?, to new: [KeptRow]) {
        guard let old else {
            self = .initial
            return
        }
        let difference = DittoDiff(from: old, to: new)
        self = .update(
            DittoLiveQueryUpdate(
                oldDocuments: old.map { DittoDocument($0) }, insertions: Array(difference.insertions),
                deletions: Array(difference.deletions), updates: Array(difference.updates),
                moves: difference.moves))
    }

    /// A hash of documents: other documents, and other versions of them, have another one.
    public func hash(documents: [DittoDocument]) -> UInt64 {
        QueriesHash.hash(documents.map(\.row.versionHash))
    }

    /// The same in words.
    public func hashMnemonic(documents: [DittoDocument]) -> String {
        QueriesHash.words(hash(documents: documents))
    }

    /// The event in words.
    public var description: String {
        switch self {
        case .initial: "initial"
        case .update(let update):
            "update(insertions: \(update.insertions), deletions: \(update.deletions), updates: "
                + "\(update.updates), moves: \(update.moves))"
        }
    }
}

/// The places of documents that came, went, changed and moved.
@available(*, deprecated, message: "Use DittoDiff of DittoDiffer")
public struct DittoLiveQueryUpdate: Sendable {
    /// The documents of the call before.
    public let oldDocuments: [DittoDocument]
    /// New documents: places among the documents of this call.
    public let insertions: [Int]
    /// Documents that are gone: places among the old documents.
    public let deletions: [Int]
    /// Documents that have changed: places among the documents of this call.
    public let updates: [Int]
    /// Documents that have another place: from the old place to the new one.
    public let moves: [(from: Int, to: Int)]
}

/// The difference of one document from the call before.
@available(*, deprecated, message: "Use DittoDiffer")
public struct DittoSingleDocumentLiveQueryEvent: Sendable {
    /// True for the first call.
    public let isInitial: Bool
    /// The document of the call before.
    public let oldDocument: DittoDocument?
}
