import CRDT
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
            case .time(let time)?: try await past.offset(of: .time(time), in: database)
            }
        switch request.since {
        case .now, .snapshot: return Bounds(begin: head, head: head, until: until)
        case .point(.offset(0)): return Bounds(begin: min(oldest, head), head: head, until: until)
        case .point(let point):
            let offset = try await past.offset(of: point, in: database)
            if offset < oldest, case .gone = projection.recent.read(after: offset) {
                throw try await past.gone(database)
            }
            return Bounds(begin: offset, head: head, until: until)
        }
    }

    /// Writes the feed.
    func run(from bounds: Bounds, to stream: inout StreamWriter) async throws {
        let cursor = ChangeCursor(database, after: bounds.begin, projection.recent, past)
        do {
            // The reading of the log may have ended since the request began, before this cursor was there.
            try await projection.beginFollowing()
            if request.since == .snapshot { try await snapshot(at: bounds.begin, to: &stream) }
            try await follow(cursor, bounds, to: &stream)
        } catch let error as any HTTPReportable {
            // The head of the answer has left: the last line says why there are no more.
            try? await tell(error, to: &stream)
        } catch {
            await cursor.end()
            throw error
        }
        await cursor.end()
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
            for operation in operations {
                let author = try await cursor.author(of: operation.stamp.actor)
                let found = try request.filter.lines(of: operation, author: author)
                for (place, line) in found.enumerated() {
                    let isLast = place == found.count - 1
                    try await stream.add(
                        .object(line), event: "change", id: isLast ? operation.position.offset : nil)
                }
                lines += found.count
                if let limit = request.limit, lines >= limit { return }
            }
            guard operations.isEmpty else { continue }
            guard !cursor.isOver else { throw QueryError(.unavailable, "the projection was closed") }
            try await stream.beAlive()
            await projection.recent.wait(beyond: cursor.position)
            try Task.checkCancellation()
        }
    }

    /// The current documents, page by page, from a fold that stays at one offset meanwhile. The last line
    /// says so, as an operation's does: from there on the offset stands for all of them.
    private func snapshot(at offset: Offset, to stream: inout StreamWriter) async throws {
        var held: String?
        let names = try await past.folds.read(database, at: offset) { try $0.collectionNames() }
        for name in names where request.filter.wants(name) {
            var after: UInt64? = 0
            while let begin = after {
                if let reason = end() { throw reason }
                let filter = request.filter
                let page = try await past.folds.read(database, at: offset) { documents in
                    var lines: [String] = []
                    var bytes = 0
                    let next = try documents.page(of: name, after: begin) { id, state in
                        let key = DocumentKey(collection: name, id: id)
                        if let line = try filter.snapshotLine(of: key, state, at: offset) {
                            lines.append(JSONText.print(.object(line)))
                        }
                        bytes += state.count + 64
                        return bytes < Limits.batchBytes
                    }
                    return (lines, next)
                }
                for line in page.0 {
                    if let held { try await stream.add(json: held, event: "change") }
                    held = line
                }
                after = page.1
            }
        }
        guard let held else { return }
        try await stream.add(json: String(held.dropLast()) + ",\"last\":true}", event: "change", id: offset)
    }
}
