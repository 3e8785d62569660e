import CRDT
import DQL
import Exchange
import Identity
import Logging
import OperationLog
import Replica
import ServiceKit

/// One consumer's feed of changes, from its request to its end.
struct ChangeFeed: Sendable {
    let request: ChangeRequest
    let database: DatabaseID
    let projection: Projection
    let past: Past
    let turns: StreamTurns
    /// The reason why the stream must end: the token is over, or the service stops.
    let end: @Sendable () -> (any HTTPReportable)?

    /// The offset after which the feed begins, and the last one of a feed that ends by itself.
    struct Bounds: Sendable {
        let begin: Offset
        let head: Offset
        /// The last offset that was asked for.
        let until: Offset
    }

    /// - Throws: `QUERY-0501`, `QUERY-0503`: before the answer begins, so that it has their status.
    func bounds() async throws -> Bounds {
        let head = try await past.log.head(of: database).offset
        let oldest = try await PastFold.oldest(in: past.log, of: database)
        // An offset may lie ahead, a time is that of the log as it is now.
        let until: Offset =
            switch request.until {
            case nil: .max
            case .offset(let offset)?: offset
            case .time(let time)?: try await self.offset(of: .time(time))
            }
        switch request.since {
        case .now, .snapshot: return Bounds(begin: head, head: head, until: until)
        case .point(.offset(0)): return Bounds(begin: min(oldest, head), head: head, until: until)
        case .point(let point):
            let offset = try await self.offset(of: point)
            if offset < oldest, case .gone = projection.recent.read(after: offset) {
                throw try await past.gone(database)
            }
            return Bounds(begin: offset, head: head, until: until)
        }
    }

    private func offset(of point: PastPoint) async throws -> Offset {
        try await turns.evaluating { try await past.offset(of: point, in: database, $0) }
    }

    /// Writes the feed.
    func run(from bounds: Bounds, to stream: inout StreamWriter) async throws {
        let cursor = ChangeCursor(database, after: bounds.begin, projection.recent, past, turns)
        do {
            // The reading of the log may have ended since the request began, before this cursor was there.
            try await projection.beginFollowing()
            if request.since == .snapshot { try await snapshot(at: bounds.begin, to: &stream) }
            try await follow(cursor, bounds, to: &stream)
        } catch {
            await cursor.end()
            guard let reason = Self.told(error) else { throw error }
            // The head of the answer has left: the last line says why there are no more.
            try? await tell(reason, to: &stream)
            return
        }
        await cursor.end()
    }

    /// The reason as the last line tells it: also of a damaged log or store, where nobody else would. Nil for
    /// an error of the connection.
    private static func told(_ error: any Error) -> (any HTTPReportable)? {
        switch error {
        case is OperationLogError, is ReplicaError, is DQLError, is CRDTError:
            ErrorAnswer.reportable(QueryError.translated(error))
        default: error as? any HTTPReportable
        }
    }

    private func tell(_ error: any HTTPReportable, to stream: inout StreamWriter) async throws {
        var members = ObjectValue([
            (key: "code", value: .string(error.publicCode)),
            (key: "message", value: .string(error.publicMessage)),
        ])
        for member in error.publicMembers.entries { members[member.key] = member.value }
        try await stream.add(.object(ObjectValue([(key: "error", value: .object(members))])), event: "closed")
        try await stream.flush()
    }

    private func follow(
        _ cursor: ChangeCursor, _ bounds: Bounds, to stream: inout StreamWriter
    ) async throws {
        let last = min(bounds.until, request.isContinuous ? .max : bounds.head)
        var lines = 0
        while cursor.position < last {
            if let reason = end() { throw reason }
            let operations = try await cursor.next(through: last)
            var rest = operations[...]
            while !rest.isEmpty {
                let most = request.limit.map { $0 - lines } ?? .max
                let page = try await self.page(of: &rest, most, cursor)
                for (offset, found) in page {
                    for (place, line) in found.enumerated() {
                        let isLast = place == found.count - 1
                        try await stream.add(json: line, event: "change", id: isLast ? offset : nil)
                    }
                    lines += found.count
                    if let limit = request.limit, lines >= limit { return }
                }
            }
            guard operations.isEmpty else { continue }
            guard !cursor.isOver else { throw QueryError(.unavailable, "the projection was closed") }
            try await stream.beAlive()
            await projection.recent.wait(beyond: cursor.position)
            try Task.checkCancellation()
        }
    }

    /// The lines of the first operations, which are removed: a megabyte or `most`, and those of the operation
    /// that reaches it.
    private func page(
        of operations: inout ArraySlice<FoldedOperation>, _ most: Int, _ cursor: ChangeCursor
    ) async throws -> [(offset: Offset, lines: [String])] {
        var authors: [ActorID: String] = [:]
        for actor in Set(operations.map { $0.stamp.actor }) {
            authors[actor] = try await cursor.author(of: actor)
        }
        let (known, wanted, filter) = (authors, operations, request.filter)
        let page = try await turns.run { evaluation in
            var page: [(offset: Offset, lines: [String])] = []
            var (bytes, count) = (0, 0)
            for operation in wanted {
                let author = known[operation.stamp.actor] ?? ""
                let lines = try filter.lines(of: operation, author: author, in: evaluation)
                page.append((operation.position.offset, lines))
                bytes += lines.reduce(0) { $0 + $1.utf8.count }
                count += lines.count
                if bytes >= Limits.batchBytes || count >= most { break }
            }
            return page
        }
        operations.removeFirst(page.count)
        return page
    }

    /// The current documents, page by page, from a fold that stays at one offset meanwhile. The last line
    /// says so, as an operation's does: from there on the offset stands for all of them.
    private func snapshot(at offset: Offset, to stream: inout StreamWriter) async throws {
        var held: String?
        let names = try await turns.evaluating { evaluation in
            try await past.folds.read(database, at: offset, evaluation) { try $0.collectionNames() }
        }
        for name in names where request.filter.wants(name) {
            var after: UInt64? = 0
            while let begin = after {
                if let reason = end() { throw reason }
                let page = try await documents(of: name, after: begin, at: offset)
                for line in page.lines {
                    if let held { try await stream.add(json: held, event: "change") }
                    held = line
                }
                after = page.next
            }
        }
        guard let held else { return }
        try await stream.add(json: String(held.dropLast()) + ",\"last\":true}", event: "change", id: offset)
    }

    /// A page of a collection's documents as lines, and the place at which the next one begins.
    private func documents(
        of name: CollectionName, after begin: UInt64, at offset: Offset
    ) async throws -> (lines: [String], next: UInt64?) {
        let filter = request.filter
        return try await turns.evaluating { evaluation in
            try await past.folds.read(database, at: offset, evaluation) { documents in
                var lines: [String] = []
                var bytes = 0
                let next = try documents.page(of: name, after: begin) { id, state in
                    let key = DocumentKey(collection: name, id: id)
                    if let line = try filter.snapshotLine(of: key, state, at: offset, in: evaluation) {
                        lines.append(JSONText.print(.object(line)))
                    }
                    bytes += state.count + 64
                    return bytes < Limits.batchBytes
                }
                return (lines, next)
            }
        }
    }
}
