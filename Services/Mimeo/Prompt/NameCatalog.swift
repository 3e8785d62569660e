import CRDT
import DQL
import Foundation
import Synchronization

/// Collections and fields of a store or server, read when the Tab key asks for them first.
///
/// `state` has what is known. A statement that ran may have changed it, so `forget` is called after each.
final class NameCatalog: KnownNames, Sendable {
    private struct State {
        var collections: [String]?
        var fields: [String: [String]] = [:]
    }

    private let runner: any StatementRunner
    private let state = Mutex(State())

    init(_ runner: any StatementRunner) { self.runner = runner }

    /// Forgets the names, which are read again when they are asked for.
    func forget() { state.withLock { $0 = State() } }

    func collections() -> [String] {
        if let known = state.withLock({ $0.collections }) { return known }
        guard let rows = rows("SELECT name FROM system:collections") else { return [] }
        let names = rows.compactMap { $0["name"]?.stringValue }.sorted()
        state.withLock { $0.collections = names }
        return names
    }

    func fields(of collection: String) -> [String] {
        if let known = state.withLock({ $0.fields[collection] }) { return known }
        guard
            let rows = rows(
                "SELECT * FROM \(StatementText.name(collection)) LIMIT \(Limits.sampledDocuments)")
        else { return [] }
        var paths: Set<String> = []
        for row in rows { Self.collect(row, "", 1, into: &paths) }
        let fields = Array(paths.sorted().prefix(Limits.offeredNames))
        state.withLock { state in
            if state.fields.count >= Limits.sampledCollections { state.fields = [:] }
            state.fields[collection] = fields
        }
        return fields
    }

    private static func collect(_ value: Value, _ prefix: String, _ depth: Int, into paths: inout Set<String>)
    {
        guard depth <= Limits.offeredDepth, let object = value.objectValue else { return }
        for entry in object.entries where !entry.key.isEmpty && !entry.key.contains(".") {
            paths.insert(prefix + entry.key)
            collect(entry.value, prefix + entry.key + ".", depth + 1, into: &paths)
        }
    }

    /// The rows of a statement; nil if it fails, or takes longer than a person waits for a completion. Blocks
    /// the thread, which must be one of the editor's own.
    private func rows(_ statement: String) -> [Value]? {
        let done = DispatchSemaphore(value: 0)
        let answer = Found()
        Task { [runner] in
            if case .result(let result)? = try? await runner.run(statement, arguments: ObjectValue()) {
                answer.rows.withLock { $0 = result.items }
            }
            done.signal()
        }
        _ = done.wait(timeout: .now() + Limits.completionSeconds)
        return answer.rows.withLock { $0 }
    }

    private final class Found: Sendable {
        let rows = Mutex<[Value]?>(nil)
    }
}
