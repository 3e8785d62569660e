import CRDT
import DQL
import HTTPTypes
import Hummingbird
import Identity
import ServiceKit

/// A request for changes, read from its query.
struct ChangeRequest: Sendable {
    /// The place where the feed begins.
    enum Since: Sendable, Equatable {
        /// After an offset, or after all that was there at a time.
        case point(PastPoint)
        /// With what comes from now on.
        case now
        /// With the current documents.
        case snapshot
    }

    let since: Since
    /// The last offset, or a time whose last offset it is; nil for no end.
    let until: PastPoint?
    /// Lines after which the feed ends, with the operation that reaches it; nil for no end.
    let limit: Int?
    /// Goes on at the log's head.
    let isContinuous: Bool
    let format: StreamFormat
    let filter: ChangeFilter

    /// - Throws: `SRV-0400`, `QUERY-0202`, `SRV-0406`, and DQL's errors of the condition.
    init(_ request: Request, _ identity: Identity) throws {
        let query = try QueryValues(request)
        since = try Self.since(query, request)
        until = try query.text("until").map { try Self.point($0, "\"until\"") }
        limit = try query.whole("limit", in: 1...UInt64(Int32.max)).map { Int($0) }
        isContinuous = try query.choice("feed", of: ["once", "continuous"]) == "continuous"
        format = try StreamFormat(request, preferred: .lines)
        var filter = ChangeFilter(rules: identity.rights.read)
        let names = query.all("collection")
        if !names.isEmpty {
            filter.collections = try names.map { name in
                let collection = CollectionName(name)
                guard identity.rights.read.allowsAny(of: collection) else {
                    throw QueryError(.readNotGranted, name)
                }
                return collection
            }
        }
        if let condition = try query.text("where") {
            guard condition.utf8.count <= Limits.conditionBytes else {
                throw ServiceError(
                    .badRequest, "\"where\" has at most \(Limits.conditionBytes) bytes; send a shorter one")
            }
            do {
                filter.condition = try DocumentCondition(condition)
            } catch {
                throw ReportedStatement(error: error)
            }
        }
        let words = ChangeFilter.Values.allCases.map(\.rawValue)
        if let word = try query.choice("values", of: words), let values = ChangeFilter.Values(rawValue: word)
        {
            filter.values = values
        }
        self.filter = filter
    }

    /// `since`, or where a browser's stream was cut: `Last-Event-ID`. Without either all that is kept.
    private static func since(_ query: QueryValues, _ request: Request) throws -> Since {
        let last = HTTPField.Name("Last-Event-ID").flatMap { request.headers[$0] }
        guard let text = try last ?? query.text("since") else { return .point(.offset(0)) }
        switch text {
        case "now": return .now
        case "snapshot": return .snapshot
        default: return .point(try point(text, "\"since\" is \"now\" or \"snapshot\", or it"))
        }
    }

    /// - Throws: `SRV-0400`.
    private static func point(_ text: String, _ name: String) throws -> PastPoint {
        do { return try PastPoint(text) } catch {
            throw ServiceError(
                .badRequest,
                "\(name) must be an offset of the log, or a time like 2026-11-26T08:30:00Z "
                    + "(in a query + is %2B)")
        }
    }
}
