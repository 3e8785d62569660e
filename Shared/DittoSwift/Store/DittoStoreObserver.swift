import CRDT
import DQL
import Dispatch
import Foundation
import Replica
import Synchronization

/// A query that is run again whenever a commit touched a collection it reads, and tells what changed.
///
/// `state` says where the observer is; there is one evaluation or delivery at a time, which makes calls
/// ordered, and `isDirty` joins all changes that came meanwhile. `delivery` is held while the handler runs,
/// so that `cancel()` returns only when no call is under way; it is recursive, because a handler may cancel
/// its own observer.
public final class DittoStoreObserver: Hashable, Sendable {
    /// The query's text.
    public let queryString: String
    /// Whether `cancel()` was called, or the `Ditto` has closed.
    public var isCancelled: Bool { state.withLock { $0.isCancelled } }
    /// The instance it belongs to.
    public var ditto: Ditto? { owner.ditto }
    /// The arguments as they were given.
    public var queryArguments: [String: Any?]? { given.value }

    /// The collections whose changes matter.
    let collections: [String]

    private struct State {
        var isCancelled = false
        /// Something changed after the last evaluation began.
        var isDirty = false
        /// An evaluation or delivery is under way, or the application has not signalled yet.
        var isBusy = false
        /// What was delivered last; nil before the first time.
        var delivered: Fingerprint?
    }

    private let engine: Engine
    private let owner: Owner
    private let statement: PreparedStatement
    private let arguments: ObjectValue
    private let given: GivenArguments
    private let queue: DispatchQueue
    private let handler: DittoStoreObservationHandlerWithSignalNext
    private let state = Mutex(State())
    private let delivery = NSRecursiveLock()
    /// Rings for a query of `system:` collections, whose changes no commit tells.
    private let timer: Timer?

    private static let evaluations = DispatchQueue(label: "ditto.evaluations", attributes: .concurrent)

    init(
        engine: Engine, owner: Owner, statement: PreparedStatement, arguments: ObjectValue,
        given: GivenArguments,
        queue: DispatchQueue, handler: @escaping DittoStoreObservationHandlerWithSignalNext
    ) {
        self.engine = engine
        self.owner = owner
        self.statement = statement
        self.arguments = arguments
        self.given = given
        self.queue = queue
        self.handler = handler
        queryString = statement.text
        collections = statement.collectionsRead
        let interval = engine.settings.parameters.systemRefreshInterval
        timer = collections.contains { $0.hasPrefix("system:") } ? Timer(interval, on: Self.evaluations) : nil
        timer?.start { [weak self] in self?.changed() }
    }

    /// Ends the observer. No call of its handler runs after this has returned, unless this was called by the
    /// handler itself.
    public func cancel() {
        engine.observers.remove(self)
        timer?.stop()
        state.withLock { $0.isCancelled = true }
        // Waits for a call under way on another thread.
        delivery.withLock {}
    }

    /// Same observer.
    public static func == (left: DittoStoreObserver, right: DittoStoreObserver) -> Bool { left === right }
    /// By identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    /// Something it reads may have changed.
    func changed() {
        let begins = state.withLock { state in
            state.isDirty = true
            guard !state.isBusy, !state.isCancelled else { return false }
            state.isBusy = true
            return true
        }
        if begins { evaluate() }
    }

    private func evaluate() {
        Self.evaluations.async { [self] in
            let goesOn = state.withLock { state in
                state.isDirty = false
                return !state.isCancelled
            }
            guard goesOn else { return }
            do {
                let outcome = try engine.read(statement, arguments)
                let print = Fingerprint(outcome.rows)
                let isNew = state.withLock { state in
                    defer { state.delivered = print }
                    return state.delivered != print
                }
                guard isNew else { return finished() }
                let result = DittoQueryResult(outcome)
                queue.async { self.deliver(result) }
            } catch {
                engine.logger.error(
                    "an observed query failed",
                    metadata: ["query": "\(queryString)", "error": "\(error)"])
                finished()
            }
        }
    }

    private func deliver(_ result: DittoQueryResult) {
        delivery.withLock {
            guard !isCancelled else { return }
            let isFirstSignal = Mutex(true)
            handler(result) { [self] in
                let counts = isFirstSignal.withLock { isFirst in
                    defer { isFirst = false }
                    return isFirst
                }
                if counts { finished() }
            }
        }
    }

    /// Runs again if something changed meanwhile.
    private func finished() {
        let again = state.withLock { state in
            state.isBusy = state.isDirty && !state.isCancelled
            return state.isBusy
        }
        if again { evaluate() }
    }
}

extension DittoStoreObserver {
    /// Calls again and again until it is stopped or gone.
    fileprivate final class Timer: @unchecked Sendable {
        // Unchecked: Dispatch sources may be used from any thread; the reference never changes.
        private let source: any DispatchSourceTimer

        init(_ interval: Duration, on queue: DispatchQueue) {
            source = DispatchSource.makeTimerSource(queue: queue)
            let milliseconds = Int(interval / .milliseconds(1))
            source.schedule(
                deadline: .now() + .milliseconds(milliseconds), repeating: .milliseconds(milliseconds),
                leeway: .milliseconds(milliseconds / 10))
        }

        deinit { source.cancel() }

        func start(_ ring: @escaping @Sendable () -> Void) {
            source.setEventHandler(handler: ring)
            source.activate()
        }

        func stop() { source.cancel() }
    }
}

/// 128 bits of a result, to tell whether it changed without keeping its rows.
private struct Fingerprint: Equatable {
    private var first: UInt64 = 1
    private var second: UInt64 = 2

    init(_ rows: [Value]) {
        for row in rows {
            CBOR.encode(row).withUnsafeBytes { bytes in
                first = hash64(bytes, seed: first)
                second = hash64(bytes, seed: second)
            }
        }
    }
}

/// The observers of one store.
final class ObserverRegistry: Sendable {
    private let observers = Mutex<Set<DittoStoreObserver>>([])

    var all: Set<DittoStoreObserver> { observers.withLock { $0 } }
    func add(_ observer: DittoStoreObserver) { observers.withLock { _ = $0.insert(observer) } }
    func remove(_ observer: DittoStoreObserver) { observers.withLock { _ = $0.remove(observer) } }
    func cancelAll() { for observer in all { observer.cancel() } }

    /// Called on the writer's thread after each commit.
    func committed(_ commit: Replica.Commit) {
        let observers = all
        guard !observers.isEmpty else { return }
        var touched: [String] = []
        for document in commit.documents
        where !touched.contains(where: { utf8Equal($0, document.collection) }) {
            touched.append(document.collection)
        }
        for observer in observers
        where observer.collections.contains(where: { read in touched.contains { utf8Equal($0, read) } }) {
            observer.changed()
        }
    }
}
