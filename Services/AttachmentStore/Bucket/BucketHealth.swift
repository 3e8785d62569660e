/// The bucket's condition, asked at most every `Limits.bucketHealth`.
actor BucketHealth {
    private let client: BucketClient
    private var last: (moment: ContinuousClock.Instant, problem: String?)?

    init(_ client: BucketClient) { self.client = client }

    /// Nil while the bucket answers.
    func problem() async -> String? {
        if let last, ContinuousClock.now - last.moment < Limits.bucketHealth { return last.problem }
        let problem = await BucketCheck.problem(of: client)
        last = (ContinuousClock.now, problem)
        return problem
    }
}

/// The question whether a bucket can be used: for health, and for `mimeo doctor`.
public enum BucketCheck {
    /// Nil if the bucket can be listed; otherwise a sentence.
    public static func problem(of address: BucketAddress) async -> String? {
        await problem(of: BucketClient(address))
    }

    static func problem(of client: BucketClient) async -> String? {
        do {
            try await client.check()
            return nil
        } catch {
            return "\(error)"
        }
    }
}
