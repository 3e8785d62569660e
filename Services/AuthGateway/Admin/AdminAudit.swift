import CRDT
import Hummingbird
import ServiceKit

/// Admin routes for the audit.
extension AdminRoutes {
    /// `GET ?where=CONDITION&before=ID&limit=COUNT` lists entries, the newest first; `POST {statement, args}`
    /// executes a SELECT over the collection `audit`.
    func audit(_ method: HTTPRequest.Method, _ request: Request) async throws -> Response {
        do {
            return method == .get ? try await listAudit(request) : try await queryAudit(request)
        } catch let refused as AuditLog.Refused {
            throw AuthGatewayError(.requestMalformed, refused.reason)
        }
    }

    private func listAudit(_ request: Request) async throws -> Response {
        let query = request.uri.queryParameters
        var conditions: [String] = []
        var arguments: [(key: String, value: Value)] = []
        if let text = query.get("where") { conditions.append("(\(text)\n)") }
        if let before = query.get("before") {
            conditions.append("_id < :before")
            arguments.append(("before", .string(before)))
        }
        var limit = 100
        if let text = query.get("limit") {
            guard let number = Int(text), 1...ServiceKit.Limits.auditRows ~= number else {
                throw AuthGatewayError(
                    .requestMalformed, "limit must be a number from 1 to \(ServiceKit.Limits.auditRows)")
            }
            limit = number
        }
        let filter = conditions.isEmpty ? "" : " WHERE \(conditions.joined(separator: " AND "))"
        let found = try await state.system.audit.rows(
            of: "SELECT * FROM audit\(filter) ORDER BY _id DESC LIMIT \(limit)", ObjectValue(arguments))
        let isCut = found.hasMore || found.rows.count == limit
        let last = isCut ? found.rows.last?["_id"] : nil
        let body: Value = ["entries": .array(found.rows), "before": last ?? .null]
        return .json(JSONText.print(body).utf8, headers: [.cacheControl: "no-store"])
    }

    private func queryAudit(_ request: Request) async throws -> Response {
        let body = try await AdminBody(request, known: ["statement", "args"])
        guard let statement = try body.text("statement") else { throw AdminBody.missing("statement") }
        let arguments = body.value("args") ?? [:]
        guard let arguments = arguments.objectValue else { throw AdminBody.missing("args") }
        let found = try await state.system.audit.rows(of: statement, arguments)
        let answer: Value = ["items": .array(found.rows), "more": .bool(found.hasMore)]
        return .json(JSONText.print(answer).utf8, headers: [.cacheControl: "no-store"])
    }
}
