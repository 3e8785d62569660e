import CRDT
import DQL
import Synchronization

/// The running and the finished statements: the rows of `system:active_requests` and
/// `system:request_history`, and a way to cancel running ones. Thread-safe.
///
/// Invariant: the history holds at most the latest `historySize` requests (plus some slack); a request is
/// either active or in the history.
final class RequestRegistry: Sendable {
    /// One running statement.
    final class Request: Sendable {
        /// Its id, unique in this registry.
        let id: Int64
        fileprivate let text: String
        fileprivate let kind: StatementKind
        fileprivate let began: UInt64
        fileprivate let start: UInt64
        private let cancelled = Atomic<Bool>(false)

        fileprivate init(id: Int64, text: String, kind: StatementKind, began: UInt64, start: UInt64) {
            self.id = id
            self.text = text
            self.kind = kind
            self.began = began
            self.start = start
        }

        /// Ends the statement at its next check for interruption.
        func cancel() { cancelled.store(true, ordering: .relaxed) }

        /// True after `cancel`.
        var isCancelled: Bool { cancelled.load(ordering: .relaxed) }
    }

    /// The end of a statement.
    enum End: Sendable {
        /// It returned so many rows, or changed so many documents.
        case completed(Int)
        /// It failed with a code.
        case failed(String)
    }

    private struct State {
        var last: Int64 = 0
        var active: [Int64: Request] = [:]
        /// The oldest first.
        var history: [(id: Int64, row: ObjectValue)] = []
        var historySize: Int
    }

    private let state: Mutex<State>

    /// A registry that remembers up to `historySize` requests.
    init(historySize: Int = Limits.rememberedRequests) {
        state = Mutex(State(historySize: historySize))
    }

    /// Registers a statement that begins. `milliseconds` is the time since 1970, `nanoseconds` the time of
    /// any clock that does not jump.
    func begin(
        _ text: String, _ kind: StatementKind, milliseconds: UInt64, nanoseconds: UInt64
    ) -> Request {
        state.withLock { state in
            state.last += 1
            let request = Request(
                id: state.last, text: text, kind: kind, began: milliseconds, start: nanoseconds)
            state.active[request.id] = request
            return request
        }
    }

    /// Registers the end of a statement. Returns its duration in nanoseconds.
    @discardableResult
    func end(_ request: Request, _ end: End, nanoseconds: UInt64) -> UInt64 {
        let elapsed = nanoseconds >= request.start ? nanoseconds - request.start : 0
        state.withLock { state in
            state.active[request.id] = nil
            guard state.historySize > 0 else { return }
            state.history.append((id: request.id, row: Self.row(request, end, elapsed)))
            // Several at once, so that the cost per request is small.
            if state.history.count >= state.historySize + Limits.requestSlack {
                state.history.removeFirst(state.history.count - state.historySize)
            }
        }
        return elapsed
    }

    /// Cancels a running statement; false if none has this id.
    @discardableResult
    func cancel(_ id: Int64) -> Bool {
        guard let request = state.withLock({ $0.active[id] }) else { return false }
        request.cancel()
        return true
    }

    /// Removes finished requests from the history.
    func forget(_ ids: Set<Int64>) { state.withLock { $0.history.removeAll { ids.contains($0.id) } } }

    /// Changes the number of requests remembered.
    func resize(to size: Int) {
        state.withLock { state in
            state.historySize = max(0, size)
            if state.history.count > state.historySize {
                state.history.removeFirst(state.history.count - state.historySize)
            }
        }
    }

    /// The rows of `system:active_requests`, the oldest first.
    func activeRows(nanoseconds: UInt64) -> [ObjectValue] {
        let active = state.withLock { $0.active.values.sorted { $0.id < $1.id } }
        return active.map { request in
            let elapsed = nanoseconds >= request.start ? nanoseconds - request.start : 0
            return Self.row(request, nil, elapsed)
        }
    }

    /// The rows of `system:request_history`, the oldest first.
    var historyRows: [ObjectValue] {
        state.withLock { state in state.history.suffix(state.historySize).map(\.row) }
    }

    private static func row(_ request: Request, _ end: End?, _ elapsed: UInt64) -> ObjectValue {
        let text = request.text.utf8.prefix(Limits.rememberedStatementBytes)
        var row = ObjectValue([
            (key: "_id", value: .int(request.id)),
            (key: "statement", value: .string(String(decoding: text, as: UTF8.self))),
            (key: "queryType", value: .string(request.kind.rawValue)),
            (key: "requestTime", value: .int(Int64(clamping: request.began))),
            (key: "elapsed", value: .int(Int64(clamping: elapsed))),
        ])
        switch end {
        case nil: row["state"] = request.isCancelled ? "cancelled" : "running"
        case .completed(let count)?:
            row["state"] = "completed"
            row["resultCount"] = .int(Int64(count))
        case .failed(let code)?:
            row["state"] = request.isCancelled ? "cancelled" : "failed"
            row["error"] = .string(code)
        }
        return row
    }
}
