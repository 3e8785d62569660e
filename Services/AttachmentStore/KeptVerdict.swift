/// The condition of a storage, which is asked at most once in a while: monitors ask a server all the time.
actor KeptVerdict {
    private let time: Duration
    private let look: @Sendable () async -> String?
    private var last: (moment: ContinuousClock.Instant, problem: String?)?

    /// - Parameters:
    ///   - time: how long an answer is used again.
    ///   - look: asks the storage; nil while it works.
    init(for time: Duration, _ look: @escaping @Sendable () async -> String?) {
        (self.time, self.look) = (time, look)
    }

    /// Nil while the storage works.
    func problem() async -> String? {
        if let last, ContinuousClock.now - last.moment < time { return last.problem }
        let problem = await look()
        last = (ContinuousClock.now, problem)
        return problem
    }
}
