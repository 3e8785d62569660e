import DittoSwift
import Foundation
import Mimeo
import Synchronization
import TestSupport
import Testing

/// Gathers what callbacks bring, and lets a test wait for it.
final class Gathered<Element: Sendable>: Sendable {
    private let elements = Mutex<[Element]>([])

    var all: [Element] { elements.withLock { $0 } }
    func add(_ element: Element) { elements.withLock { $0.append(element) } }

    /// Everything gathered once it satisfies the condition; what there is after a minute at the latest.
    func wait(until isEnough: ([Element]) -> Bool) async -> [Element] {
        _ = await eventually { isEnough(all) }
        return all
    }
}

/// Returns whether the condition came true within a minute.
func eventually(_ condition: () async throws -> Bool) async rethrows -> Bool {
    let deadline = ContinuousClock.now + .seconds(60)
    while ContinuousClock.now < deadline {
        if try await condition() { return true }
        try? await Task.sleep(for: .milliseconds(5))
    }
    return try await condition()
}

/// The errors and warnings that the SDK logs, from all stores of the process.
enum ErrorLog {
    private static let lines = Mutex<[(level: DittoLogLevel, text: String)]>([])

    /// Runs a body, and returns what was logged at a level meanwhile.
    static func during(
        _ level: DittoLogLevel = .error, _ body: () async throws -> Void
    ) async rethrows -> [String] {
        let before = lines.withLock { $0.count }
        DittoLogger.setCustomLogCallback { level, text in
            if level == .error || level == .warning { lines.withLock { $0.append((level, text)) } }
        }
        try await body()
        return lines.withLock { $0.dropFirst(before).filter { $0.level == level }.map(\.text) }
    }
}

/// The family and the reason of an error, `storeError.queryInvalid`, and the code in its message.
func caught(_ body: () throws -> Void) -> (name: String, code: String)? {
    do {
        try body()
        return nil
    } catch let error as DittoSwiftError {
        let family = Mirror(reflecting: error).children.first
        let reason = family.flatMap { pair in
            Mirror(reflecting: pair.value).children.first.flatMap {
                Mirror(reflecting: $0.value).children.first?.label
            }
        }
        let name = [family?.label, reason].compactMap { $0 }.joined(separator: ".")
        return (name, String(error.localizedDescription.prefix { $0 != ":" && $0 != " " }))
    } catch {
        return ("\(type(of: error))", "")
    }
}

/// Runs a test's body with an instance of the 4.x API that has no server.
func withLegacyStore(
    isolation: isolated (any Actor)? = #isolation, _ body: (Ditto) async throws -> Void
) async throws {
    try await withTemporaryDirectory { directory in
        let ditto = Ditto.alone(in: directory)
        do {
            try await body(ditto)
        } catch {
            await ditto.close()
            throw error
        }
        await ditto.close()
    }
}

extension Ditto {
    /// An instance of the 4.x API without any transport to other peers, which comes with those to peers
    /// nearby: tests must not find each other.
    static func alone(_ identity: DittoIdentity = .offlinePlayground(), in directory: URL) -> Ditto {
        let ditto = Ditto(identity: identity, persistenceDirectory: directory)
        ditto.transportConfig = DittoTransportConfig()
        return ditto
    }

    /// The rows of a statement of the current API.
    func rows(_ query: String, _ arguments: [String: Any?] = [:]) async throws -> [[String: Any?]] {
        try await store.execute(query: query, arguments: arguments).items.map(\.value)
    }
}
