import CRDT
import DQL
import Dispatch
import Foundation
import Synchronization

/// A query that runs again whenever a commit may have changed its result, and delivers each new result.
///
/// `state` holds the observer's progress. There is one evaluation or delivery at a time, which makes calls
/// ordered; `isDirty` merges all changes that come meanwhile. `delivery` is held while the handler runs, so
/// that `cancel()` returns only when no call is active; it is recursive because a handler may cancel its own
/// observer.
public final class DittoStoreObserver: Hashable, Sendable {
    /// The query's text.
    public let queryString: String
    /// True if `cancel()` was called or the `Ditto` has closed.
    public var isCancelled: Bool { state.withLock { $0.isCancelled } }
    /// The instance it belongs to.
    public var ditto: Ditto? { owner.ditto }
    /// The arguments as they were given.
    public var queryArguments: [String: Any?]? { given.value }

    /// The collections that the query reads.
    let collections: [CollectionName]
    /// A hash of query and arguments, to count observers that are alike.
    let likeness: UInt64

    private struct State {
        var isCancelled = false
        /// True if something changed after the last evaluation began.
        var isDirty = false
        /// True if an evaluation or delivery is active, or the application has not signalled yet.
        var isBusy = false
        /// The print of the last delivered result; nil before the first.
        var delivered: ResultPrint?
        /// Filters the changes that matter; nil when all changes of its collections do.
        var gate: ObserverGate?
        /// The number of runs of the query.
        var runs = 0
    }

    private let engine: Engine
    private let owner: Owner
    private let statement: PreparedStatement
    private let dialect: Dialect
    private let arguments: ObjectValue
    private let given: GivenArguments
    private let queue: DispatchQueue
    private let handler: Handler<DittoStoreObservationHandlerWithSignalNext>
    private let state: Mutex<State>
    private let delivery = NSRecursiveLock()
    /// Triggers a query of `system:` collections, whose changes no commit reports.
    private let timer: Timer?

    init(
        engine: Engine, owner: Owner, statement: PreparedStatement, arguments: ObjectValue,
        given: GivenArguments, queue: DispatchQueue, dialect: Dialect = .configured,
        handler: @escaping DittoStoreObservationHandlerWithSignalNext
    ) {
        self.engine = engine
        self.owner = owner
        self.statement = statement
        self.dialect = dialect
        self.arguments = arguments
        self.given = given
        self.queue = queue
        self.handler = Handler(handler)
        queryString = statement.text
        collections = statement.collectionsRead
        likeness = hash64(CBOR.encode(.object(arguments)), seed: hash64(Array(statement.text.utf8)))
        let gate = engine.observedQuery(statement, arguments, dialect).map(ObserverGate.init)
        state = Mutex(State(gate: gate))
        let interval = engine.settings.parameters.systemRefreshInterval
        let isOfSystem = collections.contains { $0.text.hasPrefix("system:") }
        timer = isOfSystem ? Timer(interval, on: EvaluationPool.clock) : nil
        timer?.start { [weak self] in self?.changed() }
    }

    /// Ends the observer. After this returns, its handler is not called any more, unless the handler itself
    /// called this.
    public func cancel() {
        engine.observers.remove(self)
        timer?.stop()
        state.withLock { state in
            state.isCancelled = true
            state.gate = nil
        }
        // Waits for a call that is active on another thread.
        delivery.withLock {}
    }

    /// True for the same observer.
    public static func == (left: DittoStoreObserver, right: DittoStoreObserver) -> Bool { left === right }
    /// Hashes the identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    /// A document of its collections may have changed.
    func changed() {
        let begins = state.withLock { state in
            state.isDirty = true
            guard !state.isBusy, !state.isCancelled else { return false }
            state.isBusy = true
            return true
        }
        if begins { engine.evaluations.submit { self.evaluate() } }
    }

    /// The condition that decides which changes matter; nil when every change does.
    var watched: ObservedQuery? { state.withLock { $0.gate?.query } }

    /// The number of runs of the query.
    var runs: Int { state.withLock { $0.runs } }

    /// True if a run of the query or a call of the handler is active or due.
    var isBusy: Bool { state.withLock { $0.isBusy } }

    /// True if a condition filters the changes.
    var isGated: Bool { state.withLock { $0.gate != nil } }

    /// A document was changed; `matches` says if it fulfils the watched condition now.
    func changed(_ document: UInt64, matches: Bool) {
        let matters = state.withLock { state in
            guard state.gate != nil else { return true }
            return state.gate?.matters(document, matches: matches) ?? true
        }
        if matters { changed() }
    }

    private func evaluate() {
        // Before the condition is derived from the settings: if they change later, the observer is dirty
        // again.
        let (goesOn, last) = state.withLock { state in
            state.isDirty = false
            state.runs += 1
            return (!state.isCancelled, state.delivered)
        }
        guard goesOn else { return }
        let query = engine.observedQuery(statement, arguments, dialect)
        // From here on, changes are remembered until the ids of the result are known.
        state.withLock { state in
            if !state.isCancelled { state.gate = query.map(ObserverGate.init) }
        }
        do {
            let found = try engine.observe(statement, arguments, query, dialect)
            let print = ResultPrint(found.outcome.kept, after: last)
            let isNew = !(last?.says(whatSays: print) ?? false)
            let matters = state.withLock { state in
                state.delivered = print
                // A document of this result was changed meanwhile and may no longer belong to it.
                return state.gate?.queryEnded(with: found.documents) ?? false
            }
            if matters { changed() }
            guard isNew else { return finished() }
            let result = DittoQueryResult(found.outcome)
            queue.deliver { self.deliver(result) }
        } catch {
            engine.logger.error(
                "an observed query failed", metadata: ["query": "\(queryString)", "error": "\(error)"])
            // The documents it reads are unknown: every change may repair it.
            _ = state.withLock { $0.gate?.queryEnded(with: nil) }
            finished()
        }
    }

    private func deliver(_ result: DittoQueryResult) {
        delivery.withLock {
            guard !isCancelled else { return }
            let isFirstSignal = Mutex(true)
            handler.call(result) { [self] in
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
        if again { engine.evaluations.submit { self.evaluate() } }
    }
}

extension DittoStoreObserver {
    /// Calls repeatedly until it is stopped or released.
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
