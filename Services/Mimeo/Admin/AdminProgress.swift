import CRDT
import Foundation

/// Waits until work has ended that an admin request has begun: the rebuild of a projection, the erasure of a
/// database or of documents, a drain. Everything else has ended with its answer.
struct AdminProgress {
    let client: AdminClient
    let call: AdminCall
    /// The most sessions that were seen while they are sent away.
    private var most: Int64 = 0

    init(client: AdminClient, call: AdminCall) { (self.client, self.call) = (client, call) }

    /// Share of the work that is done, from 0 to 1; nil when the work has ended.
    private mutating func share() async throws -> Double? {
        let path = String(call.path.prefix { $0 != "?" })
        switch call.route.name {
        case "rebuildProjection":
            let state = try await client.value(path.replacing("/rebuilds", with: "/projection"))
            guard let rebuild = state?["rebuild"], rebuild != .null else { return nil }
            if case .double(let share)? = rebuild["share"] { return share }
            return Double(rebuild["share"]?.intValue ?? 0)
        case "deleteDatabase":
            let holders = 4.0
            let receipts = try await client.value("\(path)/erasure")?["receipts"]?.arrayValue?.count ?? 0
            return Double(receipts) >= holders ? nil : Double(receipts) / holders
        case "drain":
            let databases = try await client.value("/admin/replicator/databases")?["databases"]?.arrayValue
            let left = (databases ?? []).reduce(0) { $0 + ($1["sessions"]?.intValue ?? 0) }
            most = max(most, left)
            return left == 0 ? nil : 1 - Double(left) / Double(most)
        default: return nil
        }
    }

    /// Shows a bar until the work has ended.
    /// - Throws: `CLI-0502` after `Limits.adminWaitSeconds`.
    mutating func untilDone() async throws {
        let progress = Progress()
        defer { progress.clear() }
        let end = ContinuousClock.now + .seconds(Limits.adminWaitSeconds)
        while let share = try await share() {
            guard ContinuousClock.now < end else {
                throw MimeoError(.waitTimedOut, "\(call.title) has begun, and goes on")
            }
            progress.show(call.title, Int(share * 100), of: 100)
            try await Task.sleep(for: Limits.adminLook)
        }
    }
}
