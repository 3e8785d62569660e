import CRDT
import DQL
import Foundation
import Logging
import Synchronization

/// A store's system parameters and its prepared statements.
///
/// Values from ALTER SYSTEM … PERSIST are in `system_parameters.json` of the persistence directory, which is
/// written before the new value takes effect. Changes come one after another, because the engine runs them
/// in its writer queue.
final class StoreSettings: Sendable {
    /// The file of persisted parameters in the persistence directory.
    static let fileName = "system_parameters.json"

    private let file: ProtectedFile
    private let statements: PreparedStatements
    private let current: Mutex<SystemParameters>
    private let listener = Mutex<(@Sendable () -> Void)?>(nil)
    /// The running and past statements.
    let requests: RequestRegistry
    /// The turns of statements that wait to run.
    let turns: RequestTurns

    /// Settings from the environment and from the file of persisted parameters.
    /// - Throws: `DQLError` for a variable with a value that its parameter cannot have; `SDK-0403` for a
    ///   malformed file.
    init(directory: String, environment: [String: String], logger: Logger) throws {
        let folder = URL(fileURLWithPath: directory, isDirectory: true)
        file = ProtectedFile(url: folder.appendingPathComponent(Self.fileName))
        var parameters = try SystemParameters(environment: environment)
        let unknown = parameters.restore(try Self.persisted(file))
        if !unknown.isEmpty {
            logger.warning(
                "persisted system parameters are unknown to this version", metadata: ["names": "\(unknown)"])
        }
        current = Mutex(parameters)
        requests = RequestRegistry(historySize: parameters.requestHistorySize)
        turns = RequestTurns(limit: parameters.concurrentRequests)
        statements = PreparedStatements(capacity: parameters.statementCacheSize)
    }

    /// The defaults, for a store that could not be opened. Nothing is read or written.
    init() {
        let parameters = SystemParameters()
        file = ProtectedFile(url: URL(fileURLWithPath: "/dev/null"))
        current = Mutex(parameters)
        requests = RequestRegistry(historySize: parameters.requestHistorySize)
        turns = RequestTurns(limit: parameters.concurrentRequests)
        statements = PreparedStatements(capacity: parameters.statementCacheSize)
    }

    /// Sets the listener for changed parameters.
    func onChange(_ listener: @escaping @Sendable () -> Void) { self.listener.withLock { $0 = listener } }

    /// The present values.
    var parameters: SystemParameters { current.withLock { $0 } }

    /// The rows of `system:shared_statements`.
    var sharedStatements: [ObjectValue] { statements.rows }

    /// Prepares a statement, from the cache if possible.
    func prepare(_ text: String) throws(DQLError) -> PreparedStatement { try statements.prepare(text) }

    /// Sets a parameter that exists to a value of its type, until the store closes.
    func set(_ name: String, to value: Value) {
        current.withLock { parameters in
            do {
                _ = try parameters.set(name, to: value)
            } catch {
                preconditionFailure("\(name) is no parameter of this type: \(error)")
            }
        }
        listener.withLock { $0 }?()
    }

    /// Runs ALTER SYSTEM or SHOW. Call it for one statement at a time.
    func execute(_ statement: PreparedStatement, _ arguments: ObjectValue) throws -> SystemResult {
        var parameters = parameters
        let result = try statement.execute(on: &parameters, arguments: arguments)
        if let change = result.persistentChange { try persist(change) }
        current.withLock { $0 = parameters }
        statements.resize(to: parameters.statementCacheSize)
        requests.resize(to: parameters.requestHistorySize)
        turns.resize(to: parameters.concurrentRequests)
        listener.withLock { $0 }?()
        return result
    }

    private func persist(_ change: PersistentChange) throws {
        var values = try Self.persisted(file)
        if let name = change.name {
            guard change.value != nil || values[name] != nil else { return }
            values = ObjectValue(values.entries.filter { !utf8Equal($0.key, name) })
            if let value = change.value { values[name] = value }
        } else {
            guard !values.isEmpty else { return }
            values = ObjectValue()
        }
        do {
            try file.replace(with: Data(JSONText.print(.object(values), sortedKeys: true).utf8))
        } catch {
            throw Self.unusable(file, "it cannot be written: \(error.localizedDescription)")
        }
    }

    private static func persisted(_ file: ProtectedFile) throws(SDKError) -> ObjectValue {
        guard let data = file.content else { return ObjectValue() }
        guard let object = (try? JSONText.parse(Array(data)))?.objectValue else {
            throw unusable(file, "it is not a JSON object")
        }
        return object
    }

    private static func unusable(_ file: ProtectedFile, _ reason: String) -> SDKError {
        SDKError(.parametersFileUnusable, "\(file.url.path): \(reason)")
    }
}
