import OperationLog

extension RestorableLog {
    /// Runs a body that makes drafts, while nobody else makes any in this log. PostgreSQL has the lock of a
    /// process that has just ended for a moment more.
    /// - Throws: `LOG-0314`.
    func makingDrafts<Result>(_ body: () async throws -> Result) async throws -> Result {
        let end = ContinuousClock.now + Limits.leavingPatience
        var isReserved = false
        while !isReserved {
            do {
                try await reserveDrafts()
                isReserved = true
            } catch let error as OperationLogError
                where error.code == .contended && ContinuousClock.now < end
            {
                try await Task.sleep(for: Limits.leavingPause)
            }
        }
        do {
            let result = try await body()
            await releaseDrafts()
            return result
        } catch {
            await releaseDrafts()
            throw error
        }
    }
}
