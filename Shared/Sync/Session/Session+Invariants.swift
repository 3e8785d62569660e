extension Session {
    /// Traps where the session's state contradicts itself: between any two events all of this holds. Tests,
    /// the fuzz target and the simulator call it after each event; a driver has no need to.
    public func checkInvariants() {
        precondition(actions.isEmpty, "actions of the last event were not handed over")
        precondition(
            subscriber.asked.count <= Limits.wantedDocuments,
            "asks for \(subscriber.asked.count) documents at once")
        let waiting = publisher.wants.reduce(0) { $0 + $1.keys.count }
        precondition(
            waiting <= Limits.wantedWaitingDocuments, "\(waiting) documents that the other side wants wait")
        precondition(subscriber.step != .storing || !subscriber.queue.isEmpty, "stores, and has nothing to")
    }
}
