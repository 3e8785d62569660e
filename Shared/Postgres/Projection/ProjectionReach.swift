import CRDT

/// Whatever tasks wait for at a projection: its offset, and its end.
struct ProjectionReach: Sendable {
    var offset: Offset
    /// False while the projection shows another history than the log's.
    var isReady = true
    var isClosed = false

    /// The end of a wait for an offset; nil while it goes on.
    func answer(_ wanted: Offset) -> Bool? {
        if isReady, offset >= wanted { return true }
        return isClosed ? false : nil
    }
}
