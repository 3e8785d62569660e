import CRDT
import DQL
import Dispatch
import Foundation
import Synchronization

/// Executes statements: the store or a transaction.
public protocol DittoQueryExecuting {
    /// Executes a statement.
    @discardableResult
    func execute(query: String, arguments: [String: Any?]?) async throws -> DittoQueryResult
}

/// Requests the next result for an observer that sets its own pace.
public typealias DittoSignalNext = @Sendable () -> Void
/// Receives each new result of an observed query.
public typealias DittoStoreObservationHandler = (_ result: DittoQueryResult) -> Void
/// Receives a new result. The next one comes only after `signalNext` was called.
public typealias DittoStoreObservationHandlerWithSignalNext =
    (_ result: DittoQueryResult, _ signalNext: @escaping DittoSignalNext) -> Void

/// The documents on this device. Everything here works on the local store and never waits for sync.
public final class DittoStore: DittoQueryExecuting, Sendable {
    let engine: Engine
    let owner = Owner()
    let transfers = TransfersLink()
    /// The errors that calls of the 4.x API cannot throw.
    let unthrown: UnthrownErrors

    /// Stands for the default of `deliverOn`: the main queue if the process serves it, else this serial
    /// queue (`DefaultDelivery`).
    @usableFromInline static let defaultDeliveryQueue = DispatchQueue(label: "ditto.observers")

    init(_ engine: Engine) {
        self.engine = engine
        unthrown = UnthrownErrors(engine.logger)
    }

    /// Executes one statement. Returns when it is done; a write is then on disk.
    /// - Parameters:
    ///   - query: DQL, with parameters as `:name`.
    ///   - arguments: the parameters' values; `Arguments` in the README lists the accepted types.
    /// - Throws: `DittoSwiftError`: `storeError` for the statement, its arguments, the store;
    ///   `validationError(.sizeLimitExceeded)` for a document or transaction that became too large.
    @discardableResult
    public func execute(query: String, arguments: [String: Any?]? = [:]) async throws -> DittoQueryResult {
        do {
            try DittoTransaction.checkNotInside(self, "store.execute")
            return DittoQueryResult(try await engine.execute(query, try Arguments.object(arguments)))
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// Calls a handler with the result of a SELECT, now and after each change of the result.
    ///
    /// The calls of one observer follow each other. Changes during a call are delivered together in the next
    /// one. The observer lives until it is cancelled or the `Ditto` closes, even if its return value is
    /// dropped.
    /// - Parameters:
    ///   - query: a SELECT, with parameters as `:name`.
    ///   - arguments: as in `execute`.
    ///   - queue: the queue of the calls. The default is the main queue in a process that serves it (an
    ///     `async` main, `RunLoop.main.run()`, `dispatchMain()`), else a serial queue of the SDK. A program
    ///     that blocks its main thread names a queue.
    ///   - handler: called with each result.
    /// - Throws: `storeError` for anything but a correct SELECT with all its arguments.
    @discardableResult
    public func registerObserver(
        query: String, arguments: [String: Any?]? = nil,
        deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        handler: @escaping DittoStoreObservationHandler
    ) throws -> DittoStoreObserver {
        try registerObserver(query: query, arguments: arguments, deliverOn: queue) { result, signalNext in
            handler(result)
            signalNext()
        }
    }

    /// As above, but the next call comes only after `signalNext` was called.
    @discardableResult
    public func registerObserver(
        query: String, arguments: [String: Any?]? = nil,
        deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        handlerWithSignalNext: @escaping DittoStoreObservationHandlerWithSignalNext
    ) throws -> DittoStoreObserver {
        do {
            let values = try Arguments.object(arguments)
            return try register(
                query, values, GivenArguments(arguments), queue, .configured, handlerWithSignalNext)
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// The observers that are not cancelled.
    public var observers: Set<DittoStoreObserver> { engine.observers.all }

    /// Executes a statement with all details for the command line.
    package func run(_ statement: String, arguments: ObjectValue) async throws(Failure) -> StatementOutcome {
        do {
            return try await engine.execute(statement, arguments).decoded()
        } catch {
            throw Failure(error)
        }
    }

    /// The command line reads its input on the main thread.
    private static let commandLineQueue = DispatchQueue(label: "ditto.command-line")

    /// As `registerObserver`, with the error in parts.
    @discardableResult
    package func observe(
        _ query: String, handler: @escaping DittoStoreObservationHandler
    ) throws(Failure) -> DittoStoreObserver {
        do {
            return try register(query, ObjectValue(), GivenArguments(nil), Self.commandLineQueue) {
                result, signalNext in
                handler(result)
                signalNext()
            }
        } catch {
            throw Failure(error)
        }
    }

    func register(
        _ query: String, _ arguments: ObjectValue, _ given: GivenArguments, _ queue: DispatchQueue,
        _ dialect: Dialect = .configured, _ handler: @escaping DittoStoreObservationHandlerWithSignalNext
    ) throws -> DittoStoreObserver {
        let statement = try engine.settings.prepare(query)
        guard statement.kind == .select else {
            // The error is about the statement as a whole, so it points at its beginning, as in DQL.
            throw SDKError(
                .notObservable, "only a SELECT can be observed", position: SourcePosition(line: 1, column: 1))
        }
        _ = try engine.replica()
        if statement.parameterNames.contains(where: { arguments[$0] == nil }) {
            // Throws before it reads anything, with the same error and place as executing it would.
            _ = try engine.read(statement, arguments)
        }
        let observer = DittoStoreObserver(
            engine: engine, owner: owner, statement: statement, arguments: arguments, given: given,
            queue: queue, dialect: dialect, handler: handler)
        engine.observers.add(observer)
        warnOfMany(like: observer)
        if engine.isAboutReports(statement) { engine.provideReport() }
        observer.changed()
        return observer
    }
}

extension DittoStore {
    /// Warns in the log about an application that registers observers and never cancels them.
    private func warnOfMany(like observer: DittoStoreObserver) {
        let parameters = engine.settings.parameters
        let (all, alike) = engine.observers.counts(like: observer)
        if alike == parameters.duplicateObserversWarning {
            engine.logger.warning(
                "many observers of the same query",
                metadata: ["query": "\(observer.queryString)", "count": "\(alike)"])
        }
        if all == parameters.totalObserversWarning {
            engine.logger.warning("many observers", metadata: ["count": "\(all)"])
        }
    }
}

/// The arguments as the application passed them.
struct GivenArguments: @unchecked Sendable {
    // Safe: never changes, and the SDK only hands it back. An object of a class that can be changed is the
    // application's to guard.
    let value: [String: Any?]?

    init(_ value: [String: Any?]?) { self.value = value }
}
