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
        /// Attachments that could not be read; a later verification may.
        var unread = 0
        /// True once all attachments were listed, however many of them could be read.
        var isWhole = false
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

    /// Returns when the running one has ended.
    func ended() async { await task.withLock { $0 }?.value }

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
            guard let page = try? await place.list(after: start, most: Limits.verifiedAtOnce) else { break }
            guard let last = page.last else {
                state.withLock { $0?.isWhole = true }
                break
            }
            for entry in page where !Task.isCancelled {
                let finding = await Self.finding(entry.id, in: place)
                state.withLock { state in
                    guard finding != .unread else {
                        state?.unread += 1
                        return
                    }
                    state?.checked += 1
                    state?.checkedBytes += entry.length
                    if finding == .damaged { state?.damaged += 1 }
                }
            }
            after = last.id.text
        }
        state.withLock { state in
            state?.isRunning = false
            state?.endedAtSeconds = SystemClock.seconds()
        }
    }

    private enum Finding { case right, damaged, unread }

    /// Compares one attachment with its id; one that differs is set aside. One that was removed meanwhile
    /// counts as right.
    private static func finding(_ id: BlobID, in place: any BlobPlace) async -> Finding {
        do {
            try await place.verify(id) { _ in }
            return .right
        } catch {
            let code = (error as? BlobFailure)?.error.code ?? (error as? AttachmentError)?.code
            return code == .corrupt ? .damaged : code == .notFound ? .right : .unread
        }
    }
}
