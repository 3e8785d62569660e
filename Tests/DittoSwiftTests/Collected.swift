import Foundation
import Synchronization

/// Gathers what callbacks bring, and lets a test wait for it.
final class Collected<Element: Sendable>: Sendable {
    private let elements = Mutex<[Element]>([])

    var all: [Element] { elements.withLock { $0 } }
    func add(_ element: Element) { elements.withLock { $0.append(element) } }

    /// Everything gathered once it satisfies the condition; what there is after ninety seconds at the latest.
    func wait(until isEnough: ([Element]) -> Bool) async -> [Element] {
        let deadline = ContinuousClock.now + .seconds(90)
        while !isEnough(all), ContinuousClock.now < deadline { try? await Task.sleep(for: .milliseconds(5)) }
        return all
    }
}

/// Returns whether the condition came true within ninety seconds.
func eventually(_ condition: () async throws -> Bool) async rethrows -> Bool {
    let deadline = ContinuousClock.now + .seconds(90)
    while ContinuousClock.now < deadline {
        if try await condition() { return true }
        try? await Task.sleep(for: .milliseconds(10))
    }
    return try await condition()
}
