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
