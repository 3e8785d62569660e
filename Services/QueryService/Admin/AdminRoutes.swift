import CRDT
import DQL
import HTTPTypes
import Hummingbird
import Identity
import OperationLog
import ServiceKit
import Synchronization

/// `/admin/query-service/…`: databases, their projections and collections, slow statements. For the holder
/// of the admin credential; no access token and no API key opens it.
struct AdminRoutes: Sendable {
    let log: any OperationLog
    let authenticator: Authenticator
    let admin: AdminCredential
    let slow: SlowStatementLog
    let rebuilds: Rebuilds
    /// The projection of a database, opened if need be.
    let projection: @Sendable (DatabaseID) async throws -> Projection
    /// The projection of a database if it is open.
    let openProjection: @Sendable (DatabaseID) -> Projection?
    private let surveys = Surveys()

    init(
        log: any OperationLog, authenticator: Authenticator, admin: AdminCredential, slow: SlowStatementLog,
        rebuilds: Rebuilds, projection: @escaping @Sendable (DatabaseID) async throws -> Projection,
        openProjection: @escaping @Sendable (DatabaseID) -> Projection?
    ) {
        (self.log, self.authenticator, self.admin) = (log, authenticator, admin)
        (self.slow, self.rebuilds) = (slow, rebuilds)
        (self.projection, self.openProjection) = (projection, openProjection)
    }

    private typealias Handler = @Sendable (Request, ServiceContext, DatabaseID) async throws -> Response

    func mount(on mount: inout ServiceMount) {
        let base = "/admin/query-service/databases"
        mount.on(.get, base) { request, context in
            try await admitted(request, context, base) { try await databases(request) }
        }
        let one = "\(base)/:database"
        on(&mount, .get, "\(one)/collections") { _, _, id in try await collections(id) }
        on(&mount, .get, "\(one)/collections/:collection/shape") { request, context, id in
            try await shape(request, HistoryRequest.collection(context), id)
        }
        on(&mount, .post, "\(one)/explain-subscription") { request, _, id in
            try await explainSubscription(request, id)
        }
        on(&mount, .get, "\(one)/indexes") { request, _, id in try await indexes(request, id) }
        on(&mount, .get, "\(one)/peers") { request, _, id in try await peers(request, id) }
        on(&mount, .get, "\(one)/projection") { _, _, id in json(try await state(of: id)) }
        on(&mount, .post, "\(one)/rebuilds") { request, _, id in
            try await request.requireNoMembers()
            try await rebuild(id)
            return json(try await state(of: id), .accepted)
        }
        on(&mount, .get, "\(one)/slow") { request, _, id in
            let limit = try QueryValues(request).whole("limit", in: 1...Limits.listedRows) ?? 100
            return json(["statements": .array(slow.rows(of: id, limit: Int(limit)))])
        }
    }

    private func on(
        _ mount: inout ServiceMount, _ method: HTTPRequest.Method, _ path: String,
        _ handler: @escaping Handler
    ) {
        mount.on(method, path) { request, context in
            try await admitted(request, context, path) {
                let id = DatabaseID(try context.parameters.require("database"))
                guard try await log.databaseExists(id) else { throw QueryError(.unknownDatabase) }
                return try await handler(request, context, id)
            }
        }
    }

    private func admitted(
        _ request: Request, _ context: ServiceContext, _ path: String, _ body: () async throws -> Response
    ) async throws -> Response {
        try await admin.answer(request, context, authenticator.audit, route: path, body)
    }

    private func json(_ value: Value, _ status: HTTPResponse.Status = .ok) -> Response {
        .json(JSONText.bytes(value), status: status, headers: [.cacheControl: "no-store"])
    }

    // MARK: Databases and projections

    /// `?after=ID&limit=COUNT`, in the order of the ids.
    private func databases(_ request: Request) async throws -> Response {
        let query = try QueryValues(request)
        let after = try query.text("after").map { DatabaseID($0) }
        let limit = Int(try query.whole("limit", in: 1...Limits.listedRows) ?? Limits.listedRows)
        let all = try await log.databases().sorted().filter { id in after.map { $0 < id } ?? true }
        var rows: [Value] = []
        for id in all.prefix(limit) {
            let head = try await log.head(of: id).offset
            let open = openProjection(id)
            let offset = await open?.store.position.offset
            rows.append([
                "id": .string(id.text), "head": .offset(head), "isOpen": .bool(open != nil),
                "offset": offset.map { .offset($0) } ?? .null,
                "lag": offset.map { .int(Int64(min(head, $0).distance(to: head))) } ?? .null,
                "failure": (await open?.store.failure).map { .string($0) } ?? .null,
            ])
        }
        return json(["databases": .array(rows), "more": .bool(all.count > limit)])
    }

    /// How far a database's projection is. Nothing is opened for that.
    private func state(of id: DatabaseID) async throws -> Value {
        let head = try await log.head(of: id).offset
        let open = openProjection(id)
        let report = try await translated { try await open?.store.report() }
        let running = rebuilds.state(of: id)
        var rebuild = Value.null
        if let report, report.building != nil || report.isRebuildWanted {
            rebuild = Self.progress(report.building ?? 0, of: head)
        } else if let target = running.target {
            rebuild = Self.progress(report?.offset ?? 0, of: target)
        }
        let generation = report?.generation ?? running.generation
        return [
            "database": .string(id.text), "storage": report.map { .string($0.storage) } ?? .null,
            "isOpen": .bool(open != nil), "head": .offset(head),
            "offset": report.map { .offset($0.offset) } ?? .null,
            "lag": report.map { .int(Int64(min(head, $0.offset).distance(to: head))) } ?? .null,
            "generation": .int(Int64(generation)),
            "worker": report.map { .string($0.worker) } ?? .null,
            "failure": (await open?.store.failure).map { .string($0) } ?? .null, "rebuild": rebuild,
        ]
    }

    private static func progress(_ offset: Offset, of target: Offset) -> Value {
        let share = target == 0 ? 1 : min(1, Double(offset.rawValue) / Double(target.rawValue))
        return ["offset": .offset(offset), "through": .offset(target), "share": .double(share)]
    }

    /// Begins to build a projection again from the log; while one is built nothing begins.
    private func rebuild(_ id: DatabaseID) async throws {
        guard rebuilds.state(of: id).target == nil else { return }
        let open = try await translated { try await projection(id) }
        if try await translated({ try await open.store.rebuild() }) { return }
        rebuilds.begin(id, through: try await log.head(of: id).offset)
    }

    private func translated<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch {
            throw QueryError.translated(error)
        }
    }

    // MARK: Collections

    private func collections(_ id: DatabaseID) async throws -> Response {
        if let known = surveys.recent(id) { return json(known) }
        let began = ContinuousClock.now
        let value = try await translated {
            try await projection(id).survey("collections of \(id)") { documents, evaluation in
                let rows = try documents.collectionNames().map { name -> Value in
                    let size = try documents.size(of: name) { try evaluation.checkEnd() }
                    let indexes = try documents.indexRows(of: name).filter { $0["kind"] != "primary" }
                    return [
                        "name": .string(name.text), "documents": .int(Int64(size.documents)),
                        "bytes": .int(Int64(size.bytes)), "indexes": .int(Int64(indexes.count)),
                        "isInternal": .bool(name.text.hasPrefix(CompiledRules.serversOwn)),
                    ]
                }
                return Value.object([
                    (key: "collections", value: .array(rows)),
                    (key: "transactionId", value: .offset(try documents.offset())),
                ])
            }
        }
        surveys.keep(value, of: id, tookSince: began)
        return json(value)
    }

    private func indexes(_ request: Request, _ id: DatabaseID) async throws -> Response {
        let wanted = try QueryValues(request).text("collection").map { CollectionName($0) }
        let rows = try await translated {
            try await projection(id).survey("indexes of \(id)") { documents, evaluation in
                try documents.collectionNames().filter { name in wanted.map { $0 == name } ?? true }
                    .flatMap { name in
                        try evaluation.checkEnd()
                        return try documents.indexRows(of: name).map { Value.object($0) }
                    }
            }
        }
        return json(["indexes": .array(rows)])
    }

    /// `?after=KEY&limit=COUNT`, in the order of the keys.
    private func peers(_ request: Request, _ id: DatabaseID) async throws -> Response {
        let query = try QueryValues(request)
        let after = try query.text("after") ?? ""
        let limit = Int(try query.whole("limit", in: 1...Limits.listedRows) ?? Limits.listedRows)
        let value = try await translated {
            try await projection(id).survey("peers of \(id)") { documents, evaluation in
                var reports = PeerReports(after: after, limit: limit)
                try reports.read(documents) { try evaluation.checkEnd() }
                return Value.object([
                    (key: "peers", value: .array(reports.rows)), (key: "more", value: .bool(reports.isCut)),
                ])
            }
        }
        return json(value)
    }

    /// Answer whether a document belongs to a subscription, with the first reason why it does not.
    private func explainSubscription(_ request: Request, _ id: DatabaseID) async throws -> Response {
        let checks: [SubscriptionTest.Check]
        do {
            checks = try await translated {
                let test = try await SubscriptionTest(request)
                return try await projection(id).survey("explain-subscription") { documents, evaluation in
                    try test.checks(in: documents, evaluation)
                }
            }
        } catch let error as DQLError {
            throw ReportedStatement(error: error)
        }
        let failed = checks.first { !$0.passes }
        return json([
            "belongs": .bool(failed == nil),
            "reason": .string((failed ?? checks[checks.count - 1]).reason),
            "checks": .array(checks.map(\.value)),
        ])
    }

    /// `?sample=COUNT`: the keys of so many documents.
    private func shape(
        _ request: Request, _ collection: CollectionName, _ id: DatabaseID
    ) async throws -> Response {
        let query = try QueryValues(request)
        let count = Int(
            try query.whole("sample", in: 1...Limits.sampleDocumentsMost) ?? Limits.sampleDocuments)
        let name = collection.text
        let value = try await translated {
            try await projection(id).survey("shape of \(name)") { documents, evaluation in
                var shape = CollectionShape()
                try documents.sample(collection, count) { record in
                    try evaluation.checkEnd()
                    try shape.add(record)
                }
                return Value.object([
                    (key: "collection", value: .string(name)),
                    (key: "sampled", value: .int(Int64(shape.documents))),
                    (key: "transactionId", value: .offset(try documents.offset())),
                    (key: "keys", value: .array(shape.rows)), (key: "more", value: .bool(shape.isCut)),
                ])
            }
        }
        return json(value)
    }
}

/// The sizes of databases' collections, as they were a moment ago.
private final class Surveys: Sendable {
    private let known = Mutex<[DatabaseID: (until: ContinuousClock.Instant, value: Value)]>([:])

    func recent(_ id: DatabaseID) -> Value? {
        known.withLock { known in
            known[id].flatMap { ContinuousClock.now < $0.until ? $0.value : nil }
        }
    }

    /// Keeps sizes for as long as counting them again would be too much, so those of a small database are
    /// always those of now.
    func keep(_ value: Value, of id: DatabaseID, tookSince began: ContinuousClock.Instant) {
        let now = ContinuousClock.now
        let age = min(Limits.surveyAge, (now - began) * Limits.surveyShare)
        known.withLock { known in
            known = known.filter { now < $0.value.until }
            if known.count < Limits.surveysKept { known[id] = (now + age, value) }
        }
    }
}

extension Value {
    /// An offset as a number.
    static func offset(_ offset: Offset) -> Value { .int(Int64(clamping: offset.rawValue)) }

    fileprivate static func object(_ members: [ObjectValue.Entry]) -> Value { .object(ObjectValue(members)) }
}
