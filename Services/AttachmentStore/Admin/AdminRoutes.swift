import Attachments
import CRDT
import Hummingbird
import OperationLog
import ServiceKit

/// `/admin/attachment-store/databases/:database/…`: lists attachments, says what they take, compares them
/// with their ids, collects those that no document mentions. For the holder of the admin credential.
struct AdminRoutes: Sendable {
    static let base = "/admin/attachment-store/databases/:database"

    let admin: AdminCredential
    let authenticator: Authenticator
    let log: any OperationLog
    let options: AttachmentOptions
    let shelf: @Sendable (DatabaseID) throws -> BlobShelf
    let collector: @Sendable (DatabaseID) throws -> Collector

    func mount(on mount: inout ServiceMount) {
        route(.get, "attachments", &mount) { try await list($0, $1) }
        route(.get, "usage", &mount) { _, database in try await usage(database) }
        route(.get, "verifications", &mount) { _, database in
            Self.answer(try shelf(database).verification.course.map(Self.value) ?? ["running": false])
        }
        route(.post, "verifications", &mount) { request, database in
            try await request.requireNoMembers()
            return Self.answer(Self.value(try shelf(database).verification.begin()), status: .accepted)
        }
        route(.post, "collections", &mount) { try await collect($0, $1) }
    }

    private func route(
        _ method: HTTPRequest.Method, _ name: String, _ mount: inout ServiceMount,
        _ body: @escaping @Sendable (Request, DatabaseID) async throws -> Response
    ) {
        let path = "\(Self.base)/\(name)"
        mount.on(method, path) { request, context in
            try await admin.answer(request, context, authenticator.audit, route: path) {
                let id = DatabaseID(try context.parameters.require("database"))
                guard try await log.databaseExists(id) else {
                    throw AttachmentStoreError(.unknownDatabase, "there is no such database")
                }
                return try await body(request, id)
            }
        }
    }

    /// `?after=ID&limit=COUNT`, in the order of the ids.
    private func list(_ request: Request, _ database: DatabaseID) async throws -> Response {
        let after = request.uri.queryParameters.get("after") ?? ""
        let limit = try number("limit", request) ?? Int64(Limits.listedRows)
        guard limit > 0 else { throw Self.malformed("limit is a number from 1") }
        let blobs = try shelf(database).blobs
        let rows = try await blobs.list(after: after, most: Int(min(limit, Int64(Limits.listedRows))))
        return Self.answer([
            "attachments": .array(
                rows.map { row in
                    [
                        "id": .string(row.id.text), "len": .int(row.length),
                        "storedAt": .int(row.storedAtSeconds),
                    ]
                })
        ])
    }

    private func usage(_ database: DatabaseID) async throws -> Response {
        let shelf = try shelf(database)
        let (stored, damaged) = try await (shelf.blobs.usage(), shelf.blobs.damagedIDs())
        let arriving = try await BlobStore.onDisk { try shelf.uploads.usage() }
        return Self.answer([
            "attachments": .int(Int64(stored.count)), "bytes": .int(stored.bytes),
            "uploads": .int(Int64(arriving.count)), "uploadBytes": .int(arriving.bytes),
            "damaged": .array(damaged.map(\.text).sorted().map { .string($0) }),
            "quotaBytes": options.quotaBytes > 0 ? .int(options.quotaBytes) : .null,
        ])
    }

    /// `?graceHours=COUNT` instead of the server's own grace period.
    private func collect(_ request: Request, _ database: DatabaseID) async throws -> Response {
        try await request.requireNoMembers()
        let hours = try number("graceHours", request)
        guard let grace = hours.map({ min($0, Limits.longestGraceHours) * 3_600 }) ?? options.graceSeconds
        else {
            throw Self.malformed("this server keeps all attachments; name graceHours")
        }
        guard let report = try await collector(database).collect(graceSeconds: grace) else {
            throw AttachmentStoreError(
                .collectionRunning, "another process is collecting in this database; try again later")
        }
        try shelf(database).quota.counted(report.keptBytes)
        return Self.answer([
            "removed": .int(Int64(report.removed)), "removedBytes": .int(report.removedBytes),
            "mentioned": .int(Int64(report.mentioned)), "waiting": .int(Int64(report.waiting)),
            "isWhole": .bool(report.isWhole),
        ])
    }

    private static func value(_ course: Verification.State) -> Value {
        [
            "running": .bool(course.isRunning), "checked": .int(Int64(course.checked)),
            "checkedBytes": .int(course.checkedBytes), "damaged": .int(Int64(course.damaged)),
            "unread": .int(Int64(course.unread)), "isWhole": .bool(course.isWhole),
            "beganAt": .int(course.beganAtSeconds),
            "endedAt": course.endedAtSeconds.map { .int($0) } ?? .null,
        ]
    }

    private func number(_ name: String, _ request: Request) throws -> Int64? {
        guard let text = request.uri.queryParameters.get(name) else { return nil }
        guard let number = Int64(text), number >= 0 else {
            throw Self.malformed("\(name) is a whole number from 0")
        }
        return number
    }

    private static func malformed(_ message: String) -> AttachmentStoreError {
        AttachmentStoreError(.requestMalformed, message)
    }

    private static func answer(_ value: Value, status: HTTPResponse.Status = .ok) -> Response {
        .json(JSONText.print(value).utf8, status: status)
    }
}
