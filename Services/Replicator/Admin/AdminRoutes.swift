import CRDT
import Hummingbird
import Logging
import OperationLog
import ServiceKit

/// `/admin/replicator/…`: sessions, queues and lag; disconnecting and draining; the log, its snapshots and
/// its truncation. For the holder of the admin credential; no access token and no API key opens it.
struct AdminRoutes: Sendable {
    let part: ReplicatorPart
    let credential: AdminCredential
    let log: any OperationLog
    let logger: Logger

    /// Every path and method there is.
    static let paths: [(method: HTTPRequest.Method, path: String)] = [
        (.get, "/admin/replicator/databases"), (.post, "/admin/replicator/drain"),
        (.delete, "/admin/replicator/drain"),
        (.get, "/admin/replicator/databases/:database/sessions"),
        (.get, "/admin/replicator/databases/:database/sessions/:session"),
        (.delete, "/admin/replicator/databases/:database/sessions/:session"),
        (.get, "/admin/replicator/databases/:database/presence"),
        (.get, "/admin/replicator/databases/:database/log"),
        (.post, "/admin/replicator/databases/:database/snapshots"),
        (.post, "/admin/replicator/databases/:database/truncations"),
        (.get, "/admin/replicator/databases/:database/erasures"),
        (.post, "/admin/replicator/databases/:database/erasures"),
    ]

    func mount(on mount: inout ServiceMount) {
        for (method, path) in Self.paths {
            mount.on(method, path) { request, context in
                func answered() async throws -> Response {
                    if method == .post, !path.hasSuffix("/erasures") { try await request.requireNoMembers() }
                    return try await answer(method, path, request, context)
                }
                guard let audit = part.audit else {
                    try credential.admit(request, route: path)
                    return try await answered()
                }
                return try await audit.admin(
                    request, context, route: path,
                    admit: { try credential.admit(request, route: path) }, answered)
            }
        }
    }

    private func answer(
        _ method: HTTPRequest.Method, _ path: String, _ request: Request, _ context: ServiceContext
    ) async throws -> Response {
        guard let database = context.parameters.get("database").map({ DatabaseID($0) }) else {
            if path.hasSuffix("/drain") {
                return await drain(method == .post)
            }
            return try await listDatabases(request)
        }
        guard try await log.databaseExists(database) else { throw ReplicatorError.unknownDatabase }
        switch (method, path.split(separator: "/").last.map(String.init)) {
        case (.get, ":session"): return try await show(database, context.parameters.require("session"))
        case (.get, "sessions"): return try await listSessions(database, request)
        case (.delete, _): return try await disconnect(database, context.parameters.require("session"))
        case (.get, "presence"): return await showPresence(database)
        case (.get, "erasures"): return try listErasures(database)
        case (.post, "erasures"): return try await beginErasure(database, request)
        case (.get, _): return try await readLog(database, request)
        case (.post, "snapshots"): return try await snapshot(database)
        default: return try await truncate(database, request)
        }
    }

    private func drain(_ begins: Bool) async -> Response {
        if begins { await part.drain(.onRequest) } else { _ = part.undrain() }
        return json(["draining": .bool(part.isDraining), "sessions": .int(Int64(await part.sessionCount))])
    }

    // MARK: Databases and sessions

    /// `?after=ID&limit=COUNT`, in the order of the ids.
    private func listDatabases(_ request: Request) async throws -> Response {
        let after = request.uri.queryParameters.get("after").map { DatabaseID($0) }
        let limit = try rows(request)
        var rows: [Value] = []
        let all = try await log.databases().sorted()
        for database in all.filter({ id in after.map { $0 < id } ?? true }).prefix(limit) {
            let head = try await log.head(of: database).offset
            let snapshot = try await log.snapshot(of: database)?.position.offset
            var row: [(key: String, value: Value)] = [
                ("id", .string(database.text)), ("head", .int(Int64(clamping: head.rawValue))),
                ("truncated", .int(Int64(clamping: try await log.truncation(of: database).offset.rawValue))),
                ("snapshot", snapshot.map { .int(Int64(clamping: $0.rawValue)) } ?? .null),
            ]
            if let hub = part.openHub(of: database) {
                let folded = await hub.materializer.position.offset
                row += [
                    ("sessions", .int(Int64(await hub.sessions))),
                    ("queries", .int(Int64(hub.queries.count))),
                    ("folded", .int(Int64(clamping: folded.rawValue))),
                    ("lag", .int(Int64(min(head, folded).distance(to: head)))),
                ]
            }
            rows.append(.object(ObjectValue(row)))
        }
        return json(["databases": .array(rows), "draining": .bool(part.isDraining)])
    }

    /// `?after=NUMBER&limit=COUNT`, in the order of their numbers.
    private func listSessions(_ database: DatabaseID, _ request: Request) async throws -> Response {
        let after = try number("after", request) ?? 0
        let limit = try rows(request)
        guard let hub = part.openHub(of: database) else { return json(["sessions": .array([])]) }
        let head = try await log.head(of: database).offset
        let reports = await hub.sessionReports().filter { part.names.number(of: $0.number) > after }
            .prefix(limit)
        return json(["sessions": .array(reports.map { .object($0.value(head: head, at: part.names)) })])
    }

    /// The peers that are there, in the order of their keys.
    private func showPresence(_ database: DatabaseID) async -> Response {
        let peers = await part.openHub(of: database)?.presence(at: part.names) ?? []
        return json(["peers": .array(peers)])
    }

    /// Takes the number of a session, or its name in the form `INSTANCE-NUMBER`. Both say at which instance
    /// it runs: behind a balancer another one may be asked, which answers 404.
    private func disconnect(_ database: DatabaseID, _ name: String) async throws -> Response {
        guard let number = part.names.session(name), let hub = part.openHub(of: database),
            await hub.disconnect(number)
        else { throw ReplicatorError.unknownSession }
        return Response(status: .noContent)
    }

    private func rows(_ request: Request) throws -> Int {
        let limit = try number("limit", request) ?? UInt64(Limits.listedRows)
        guard limit > 0 else { throw ReplicatorError.malformedRequest }
        return Int(min(limit, UInt64(Limits.listedRows)))
    }

    // MARK: The log

    /// `?after=OFFSET&limit=COUNT`: what operations there are, without what they say.
    private func readLog(_ database: DatabaseID, _ request: Request) async throws -> Response {
        let truncated = try await log.truncation(of: database).offset
        let after = try number("after", request).map { Offset($0) } ?? truncated
        let limit = min(try number("limit", request) ?? 100, UInt64(Limits.listedOperations))
        guard limit > 0 else { throw ReplicatorError.malformedRequest }
        let entries: [LogEntry]
        do {
            entries = try await log.read(
                database, after: after, limit: ReadLimit(operations: Int(limit), bytes: Limits.listedBytes))
        } catch let error as OperationLogError where error.code == .offsetBeyondHead {
            entries = []
        } catch let error as OperationLogError where error.code == .truncated {
            throw ReplicatorError.truncatedAway
        }
        let rows = entries.map { entry in
            let operation = try? Operation(decoding: entry.record.bytes)
            let documents = (operation?.changes ?? []).prefix(Limits.listedDocuments).map { change in
                Value.object(
                    ObjectValue([
                        (key: "collection", value: .string(change.collection.text)),
                        (key: "id", value: change.id.value),
                        (key: "bytes", value: .int(Int64(change.delta.count))),
                    ]))
            }
            let row: Value = [
                "offset": .int(Int64(clamping: entry.offset.rawValue)),
                "actor": .string(Self.hexadecimal(entry.record.actor.rawValue)),
                "sequence": .int(Int64(clamping: entry.record.sequence.rawValue)),
                "milliseconds": .int(Int64(clamping: entry.record.timestamp >> 16)),
                "bytes": .int(Int64(entry.record.bytes.count)),
                "changes": .int(Int64(operation?.changes.count ?? 0)), "documents": .array(Array(documents)),
            ]
            return row
        }
        return json(["operations": .array(rows)])
    }

    /// Writes a snapshot of what is folded, and removes nothing.
    private func snapshot(_ database: DatabaseID) async throws -> Response {
        var options = HousekeepingOptions()
        (options.snapshotOperations, options.keptOperations) = (0, .max)
        _ = try await keepHouse(of: database, options)
        guard let snapshot = try await log.snapshot(of: database) else { throw ReplicatorError.noSnapshot }
        return json(
            [
                "offset": .int(Int64(clamping: snapshot.position.offset.rawValue)),
                "bytes": .int(Int64(clamping: snapshot.bytes)),
            ], status: .created)
    }

    /// `?keep=COUNT`: removes operations that the snapshot stands for, but for so many before it.
    private func truncate(_ database: DatabaseID, _ request: Request) async throws -> Response {
        var options = HousekeepingOptions()
        options.snapshotOperations = .max
        options.keptOperations = try number("keep", request) ?? Limits.keptOperations
        guard try await log.snapshot(of: database) != nil else { throw ReplicatorError.noSnapshot }
        let report = try await keepHouse(of: database, options)
        let offset = try await log.truncation(of: database).offset
        // Where nothing is old enough to go, nothing was made.
        return json(
            ["truncated": .int(Int64(clamping: offset.rawValue))],
            status: report.truncated == nil ? .ok : .created)
    }

    /// A turn of the housekeeping out of its turn; one process at a time does it, as ever.
    private func keepHouse(
        of database: DatabaseID, _ options: HousekeepingOptions
    ) async throws -> Housekeeper.Report {
        let hub = try await part.hub(of: database)
        // Counts as a session: nobody closes the database meanwhile.
        guard let visit = await hub.enter() else { throw ReplicatorError.busy }
        defer { Task { await hub.leave(visit) } }
        let housekeeper = Housekeeper(
            materializer: hub.materializer, log: log, database: database, options: options, logger: logger,
            wallMilliseconds: hub.environment.wallMilliseconds)
        guard let report = try await housekeeper.turn(reaps: false), !report.isCutShort else {
            throw ReplicatorError.busy
        }
        return report
    }

    private func number(_ name: String, _ request: Request) throws -> UInt64? {
        guard let text = request.uri.queryParameters.get(name) else { return nil }
        guard let number = UInt64(text) else { throw ReplicatorError.malformedRequest }
        return number
    }

    /// With the instance that answers.
    func json(_ value: Value, status: HTTPResponse.Status = .ok) -> Response {
        var members = value.objectValue ?? ObjectValue()
        members["instance"] = .string(part.names.instance)
        return .json(
            JSONText.print(.object(members)).utf8, status: status, headers: [.cacheControl: "no-store"])
    }

    private static func hexadecimal(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
