import CRDT
import DQL
import Foundation
import HTTPTypes
import Hummingbird
import OperationLog
import ServiceKit

/// `/admin/query-service/databases/:database/webhooks`: lists, makes and deletes webhooks for changes. The
/// secret is shown once.
struct WebhookRoutes: Sendable {
    let shared: WebhookDelivery.Shared
    let admin: AdminCredential

    func mount(on mount: inout ServiceMount) {
        let path = "/admin/query-service/databases/:database/webhooks"
        mount.on(.get, path) { request, context in
            try await admitted(request, context, path) { id in
                let head = try await shared.log.head(of: id).offset
                let rows = webhooks(of: id).sorted { $0.createdAtSeconds < $1.createdAtSeconds }
                return json(["webhooks": .array(rows.map { .object(view($0, head)) })])
            }
        }
        mount.on(.post, path) { request, context in
            try await admitted(request, context, path) { try await create(request, $0) }
        }
        mount.on(.delete, "\(path)/:webhook") { request, context in
            try await admitted(request, context, "\(path)/:webhook") { id in
                try await delete(try context.parameters.require("webhook"), of: id)
            }
        }
    }

    private func admitted(
        _ request: Request, _ context: ServiceContext, _ path: String,
        _ body: (DatabaseID) async throws -> Response
    ) async throws -> Response {
        try await admin.answer(request, context, shared.system.audit, route: path) {
            let id = DatabaseID(try context.parameters.require("database"))
            guard try await shared.log.databaseExists(id) else { throw QueryError(.unknownDatabase) }
            do {
                return try await body(id)
            } catch let error as OperationLogError {
                throw QueryError.translated(error)
            }
        }
    }

    private func json(_ value: Value, _ status: HTTPResponse.Status = .ok) -> Response {
        .json(JSONText.bytes(value), status: status, headers: [.cacheControl: "no-store"])
    }

    private func webhooks(of id: DatabaseID) -> [WebhookRecord] {
        shared.system.directory.webhooks.values.filter { $0.databaseID == id }
    }

    private func view(_ webhook: WebhookRecord, _ head: Offset) -> ObjectValue {
        let state = shared.states.state(of: webhook.id)
        let known = shared.system.directory.webhookPositions[webhook.id]
        let offset = state.offset ?? Offset(UInt64(clamping: known?.offset ?? webhook.since))
        let delivered = state.deliveredAtSeconds ?? known?.deliveredAtSeconds
        var view = ObjectValue()
        view["id"] = .string(webhook.id)
        view["url"] = .string(WebhookClient.shown(webhook.url))
        view["collections"] = webhook.collections.map { .array($0.map { .string($0) }) } ?? .null
        view["where"] = webhook.condition.map { .string($0) } ?? .null
        view["values"] = .string(webhook.values)
        view["createdAt"] = .int(webhook.createdAtSeconds)
        view["offset"] = .offset(offset)
        view["lag"] = .int(Int64(min(head, offset).distance(to: head)))
        view["state"] = .string(state.word)
        view["deliveredAt"] = delivered.map { .int($0) } ?? .null
        view["failure"] = state.failure.map { .string($0) } ?? .null
        view["failures"] = .int(Int64(state.failures))
        view["nextAttemptAt"] = state.nextAttemptSeconds.map { .int($0) } ?? .null
        return view
    }

    private func create(_ request: Request, _ id: DatabaseID) async throws -> Response {
        let body = try await request.wholeBody(limitBytes: Limits.webhookRequestBytes)
        let members: ObjectValue
        do {
            members = try RequestObject(
                body.readableBytesView, known: ["url", "collections", "where", "values", "since", "secret"]
            ).members
        } catch {
            throw QueryError(.malformedRequest, error.message)
        }
        let head = try await shared.log.head(of: id).offset
        let since = try Self.since(members, head)
        // Its first call would fail, and each after it.
        let oldest = try await PastFold.oldest(in: shared.log, of: id)
        guard since >= Int64(clamping: oldest.rawValue) else { throw try await shared.past.gone(id) }
        guard let box = SecretBox.read(shared.secretsKey) else {
            throw QueryError(.noSecretsKey, shared.secretsKey)
        }
        let secret = try Self.secret(members)
        let name = Self.random(16).map { String(UInt16($0) + 0x100, radix: 16).dropFirst() }.joined()
        let webhook = WebhookRecord(
            id: name, database: id, url: try Self.url(members), collections: try Self.collections(members),
            condition: try Self.condition(members), values: try Self.values(members),
            sealedSecret: box.seal(secret, at: SecretBox.place(name)), since: since,
            createdAtSeconds: shared.bounds.nowSeconds())
        let others = webhooks(of: id).count
        guard others < Limits.webhooksOfDatabase else { throw QueryError(.tooManyWebhooks) }
        try await shared.system.write { try $0.put(webhook) }
        var answer = view(webhook, head)
        answer["secret"] = .string(secret)
        return json(.object(answer), .created)
    }

    private func delete(_ name: String, of id: DatabaseID) async throws -> Response {
        guard webhooks(of: id).contains(where: { utf8Equal($0.id, name) }) else {
            throw QueryError(.unknownWebhook)
        }
        try await shared.system.write { writer in
            try writer.remove(name, WebhookRecord.self)
            try writer.remove(name, WebhookPosition.self)
        }
        return Response(status: .noContent)
    }

    /// Bytes of the system's cryptographic generator.
    private static func random(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }

    // MARK: Members of a request

    private static func malformed(_ reason: String) -> QueryError { QueryError(.malformedRequest, reason) }

    private static func url(_ members: ObjectValue) throws(QueryError) -> String {
        guard let text = members["url"]?.stringValue, text.utf8.count <= Limits.webhookURLBytes,
            let url = URL(string: text), ["http", "https"].contains(url.scheme), url.host?.isEmpty == false,
            url.user == nil
        else {
            throw malformed("\"url\" must be an http or https address without a user")
        }
        return text
    }

    private static func collections(_ members: ObjectValue) throws(QueryError) -> [String]? {
        guard let value = members["collections"], value != .null else { return nil }
        let names = value.arrayValue?.compactMap(\.stringValue).filter { !$0.isEmpty } ?? []
        guard !names.isEmpty, names.count == value.arrayValue?.count,
            names.count <= Limits.webhookCollections
        else {
            throw malformed("\"collections\" must be a list of 1 to \(Limits.webhookCollections) names")
        }
        return names
    }

    private static func condition(_ members: ObjectValue) throws -> String? {
        guard let value = members["where"], value != .null else { return nil }
        guard let text = value.stringValue, text.utf8.count <= Limits.conditionBytes else {
            throw malformed("\"where\" must be a condition of at most \(Limits.conditionBytes) bytes")
        }
        do {
            _ = try DocumentCondition(text)
        } catch {
            throw ReportedStatement(error: error)
        }
        return text
    }

    private static func values(_ members: ObjectValue) throws(QueryError) -> String {
        guard let value = members["values"], value != .null else { return ChangeFilter.Values.new.rawValue }
        guard let text = value.stringValue, let known = ChangeFilter.Values(rawValue: text) else {
            throw malformed("\"values\" must be \"new\", \"both\", \"none\" or \"changes\"")
        }
        return known.rawValue
    }

    /// An offset, or `now` without one.
    private static func since(_ members: ObjectValue, _ head: Offset) throws(QueryError) -> Int64 {
        switch members["since"] {
        case nil, .null?, .string("now")?: return Int64(clamping: head.rawValue)
        case .int(let number)? where number >= 0:
            guard Offset(UInt64(number)) <= head else { throw QueryError(.futureOffset, "\(head)") }
            return number
        default: throw malformed("\"since\" must be an offset of the log, or \"now\"")
        }
    }

    /// The secret of the request, or a new one.
    private static func secret(_ members: ObjectValue) throws(QueryError) -> String {
        guard let value = members["secret"], value != .null else {
            return Data(random(64)).base64EncodedString()
        }
        guard let text = value.stringValue, let key = Data(base64Encoded: text),
            Limits.webhookSecretBytes...1_024 ~= key.count
        else {
            throw malformed("\"secret\" must be base64 of \(Limits.webhookSecretBytes) bytes or more")
        }
        return text
    }
}
