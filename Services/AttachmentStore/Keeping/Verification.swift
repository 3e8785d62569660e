import Attachments
import CRDT
import Machine
import ServiceKit
import Synchronization

/// The comparison of all attachments of a database with their ids, which an operator begins.
///
/// It runs in the background, one at a time for each database. `state` guards its course.
final class Verification: Sendable {
    /// Its course so far.
    struct State: Sendable {
        var isRunning = false
        var checked = 0
        var checkedBytes: Int64 = 0
        var damaged = 0
        var beganAtSeconds: Int64 = 0
        var endedAtSeconds: Int64?
    }

    private let place: any BlobPlace
    private let state = Mutex<State?>(nil)
    private let task = Mutex<Task<Void, Never>?>(nil)

    init(_ place: any BlobPlace) { self.place = place }

    /// Nil before the first one.
    var course: State? { state.withLock { $0 } }

    /// Begins, unless it is running.
    func begin() -> State {
        let (course, isNew) = state.withLock { state in
            if let state, state.isRunning { return (state, false) }
            let new = State(isRunning: true, beganAtSeconds: SystemClock.seconds())
            state = new
            return (new, true)
        }
        if isNew { task.withLock { $0 = Task { await run() } } }
        return course
    }

    /// Ends it where it is.
    func stop() async {
        let running = task.withLock { $0 }
        running?.cancel()
        await running?.value
    }

    private func run() async {
        var after = ""
        while !Task.isCancelled {
            let start = after
            let page = try? await place.list(after: start, most: Limits.verifiedAtOnce)
            guard let page, let last = page.last else { break }
            for entry in page where !Task.isCancelled {
                let isDamaged = await Self.isDamaged(entry.id, in: place)
                state.withLock { state in
                    state?.checked += 1
                    state?.checkedBytes += entry.length
                    if isDamaged { state?.damaged += 1 }
                }
            }
            after = last.id.text
        }
        state.withLock { state in
            state?.isRunning = false
            state?.endedAtSeconds = SystemClock.seconds()
        }
    }

    /// Compares one attachment with its id; one that differs is set aside.
    private static func isDamaged(_ id: BlobID, in place: any BlobPlace) async -> Bool {
        do {
            try await place.verify(id) { _ in }
            return false
        } catch {
            return (error as? BlobFailure)?.error.code == .corrupt
        }
    }
}
