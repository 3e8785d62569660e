import Exchange

/// The server's half: a subscription whose condition takes longer than the server gives it.
extension Session {
    /// The condition of a subscription took too long: it ends, and the others go on.
    mutating func tooCostly(_ id: UInt64) {
        defer { resumePublishing() }
        guard answered(id) != nil else { return }
        refuseCostly(id)
    }

    /// Ends a subscription of the other side whose condition takes too long.
    mutating func refuseCostly(_ id: UInt64) {
        stopServing(id)
        refuse(
            id,
            SyncError(
                .subscriptionTooCostly,
                "the subscription's condition takes longer than the server's limit: narrow it, or compare "
                    + "fields with values instead of going through elements"))
    }
}
