import ServiceKit

/// The rights of each identity, one row for each operation over HTTP: the statuses in the order of the
/// columns. A digit after a colon is the number of rows that a statement gives, or of documents it changes.
///
/// | column | identity |
/// |---|---|
/// | none | no credential |
/// | gone | an access token whose time is over |
/// | else | another database's token, with all rights there |
/// | read | reads everything |
/// | coll | reads and writes the collection `cars` |
/// | ids | reads and writes the document `own` of `cars`, by a query over `_id` |
/// | all | reads and writes everything |
/// | key | an API key that does |
/// | admin-read, admin-operate, admin-own | a named admin credential with this role |
/// | admin | the admin credential of the file |
///
/// A row has no cells for the three named credentials: at routes that take none they are what the admin
/// credential is, and at others the row names the least role.
///
/// The server's database has `own` and `other` in `cars` and one document in `boats`; the other database has
/// nothing. Whoever adds a route or a kind of statement adds its rows: a test misses them.
enum AuthorizationMatrix {
    static let columns = [
        "none", "gone", "else", "read", "coll", "ids", "all", "key", "admin-read", "admin-operate",
        "admin-own", "admin",
    ]

    /// `kind` is the `StatementKind` that a row stands for.
    struct StatementRow: Sendable {
        let kind: String
        let statement: String
        let cells: String
    }

    static let statements: [StatementRow] = [
        .init(
            kind: "select", statement: "SELECT * FROM cars",
            cells: "401 401 200:0 200:2 200:2 200:1 200:2 200:2 401"),
        .init(
            kind: "select", statement: "SELECT * FROM boats",
            cells: "401 401 200:0 200:1 403 403 200:1 200:1 401"),
        .init(
            kind: "select", statement: "SELECT * FROM cars WHERE _id = 'other'",
            cells: "401 401 200:0 200:1 200:1 200:0 200:1 200:1 401"),
        .init(
            kind: "select", statement: "SELECT * FROM cars c JOIN boats b USE INDEX '' ON c.n = b.n",
            cells: "401 401 200:0 200:1 403 403 200:1 200:1 401"),
        .init(
            kind: "select", statement: "SELECT * FROM cars WHERE n IN (SELECT n FROM boats)",
            cells: "401 401 200:0 200:1 403 403 200:1 200:1 401"),
        .init(
            kind: "select", statement: "SELECT * FROM system:collections",
            cells: "401 401 200:0 200:2 200:1 200:1 200:2 200:2 401"),
        .init(
            kind: "insert", statement: "INSERT INTO cars DOCUMENTS ({'_id': 'own'}) ON ID CONFLICT DO UPDATE",
            cells: "401 401 200:1 403 200:1 200:1 200:1 200:1 401"),
        .init(
            kind: "insert",
            statement: "INSERT INTO cars DOCUMENTS ({'_id': 'other'}) ON ID CONFLICT DO UPDATE",
            cells: "401 401 200:1 403 200:1 403 200:1 200:1 401"),
        .init(
            kind: "insert", statement: "INSERT INTO cars SELECT * FROM boats",
            cells: "401 401 200:0 403 403 403 200:1 200:1 401"),
        .init(
            kind: "insert", statement: "INSERT INTO boats DOCUMENTS ({'_id': 1}) ON ID CONFLICT DO NOTHING",
            cells: "401 401 200:1 403 403 403 200:0 200:0 401"),
        .init(
            kind: "update", statement: "UPDATE cars SET n = n",
            cells: "401 401 200:0 403 200:2 200:1 200:2 200:2 401"),
        .init(
            kind: "update", statement: "UPDATE boats SET n = n RETURNING *",
            cells: "401 401 200:0 403 403 403 200:1 200:1 401"),
        .init(
            kind: "delete", statement: "DELETE FROM cars WHERE _id = 'other'",
            cells: "401 401 200:0 403 200:1 200:0 200:1 200:1 401"),
        .init(
            kind: "delete", statement: "DELETE FROM boats",
            cells: "401 401 200:0 403 403 403 200:1 200:1 401"),
        .init(
            kind: "evict", statement: "EVICT FROM cars",
            cells: "401 401 400 400 400 400 400 400 401"),
        .init(
            kind: "alterSystem", statement: "ALTER SYSTEM SET dql_strict_mode = true",
            cells: "401 401 400 400 400 400 400 400 401"),
        .init(
            kind: "show", statement: "SHOW ALL",
            cells: "401 401 200 200 200 200 200 200 401"),
        .init(
            kind: "createIndex", statement: "CREATE INDEX IF NOT EXISTS by_n ON cars (n)",
            cells: "401 401 200 403 200 403 200 200 401"),
        .init(
            kind: "createIndex", statement: "CREATE INDEX IF NOT EXISTS by_n ON boats (n)",
            cells: "401 401 200 403 403 403 200 200 401"),
        .init(
            kind: "dropIndex", statement: "DROP INDEX IF EXISTS by_n ON cars",
            cells: "401 401 200 403 200 403 200 200 401"),
        .init(
            kind: "explain", statement: "EXPLAIN SELECT * FROM boats",
            cells: "401 401 200 200 403 403 200 200 401"),
        .init(
            kind: "explain", statement: "EXPLAIN DELETE FROM cars",
            cells: "401 401 200 200 200 200 200 200 401"),
        .init(
            kind: "profile", statement: "PROFILE SELECT * FROM boats",
            cells: "401 401 200 200 403 403 200 200 401"),
        .init(
            kind: "profile", statement: "PROFILE DELETE FROM boats",
            cells: "401 401 200 403 403 403 200 200 401"),
        .init(
            kind: "advise", statement: "ADVISE SELECT * FROM boats",
            cells: "401 401 200 200 403 403 200 200 401"),
        .init(
            kind: "advise", statement: "ADVISE AND PROVISION SELECT * FROM cars WHERE n = 7",
            cells: "401 401 200 403 200 403 200 200 401"),
    ]

    /// The download of an attachment, by the one document that refers to it; the route's own rows are of one
    /// that none refers to.
    struct AttachmentRow: Sendable {
        let collection: String
        let id: String
        let cells: String
    }

    static let attachments: [AttachmentRow] = [
        .init(collection: "cars", id: "'own'", cells: "401 401 404 200 200 200 200 200 401"),
        .init(collection: "cars", id: "'other'", cells: "401 401 404 200 200 404 200 200 401"),
        .init(collection: "boats", id: "1", cells: "401 401 404 200 404 404 200 200 401"),
    ]

    /// Each of `ServiceMount.routes`, and a request for it.
    struct RouteRow: Sendable {
        let route: String
        var body = ""
        /// The least role of a named admin credential; nil for a route that takes none.
        var role: AdminRole?
        let cells: String
        /// The status for the first holder of that role who asks, where it differs from the next one's.
        var first: String?
    }

    /// The cells of a row with those of the named credentials: 403 below the role, else as the admin's.
    static func cells(_ cells: String, role: AdminRole? = nil, first: String? = nil) -> [String] {
        var all = cells.split(separator: " ").map(String.init)
        guard let last = all.popLast() else { return [] }
        var next = first ?? last
        for own in AdminRole.allCases {
            guard let role else {
                all.append(last)
                continue
            }
            all.append(own < role ? "403" : next)
            if own >= role { next = last }
        }
        return all + [last]
    }

    private static let everybody = "200 200 200 200 200 200 200 200 200"
    static let nobodyButAdmin = "401 401 401 401 401 401 401 401"

    static let routes = people + general

    private static let general: [RouteRow] = [
        .init(route: "GET /health", cells: everybody),
        .init(route: "GET /metrics", cells: everybody),
        .init(route: "GET /health/live", cells: everybody),
        .init(route: "GET /health/ready", cells: everybody),
        .init(route: "GET /openapi.json", cells: everybody),
        .init(route: "GET /mimeo.js", cells: everybody),
        .init(route: "GET /api/v5/openapi.json", cells: everybody),
        .init(route: "GET /api/v5/swagger.json", cells: everybody),
        .init(route: "GET /api/v5/docs", cells: everybody),
        .init(route: "GET /admin/system-database/health", cells: everybody),
        .init(route: "GET /admin/storage/health", cells: everybody),
        .init(route: "GET /admin/auth-gateway/health", cells: everybody),
        .init(route: "GET /admin/replicator/health", cells: everybody),
        .init(route: "GET /admin/query-service/health", cells: everybody),
        .init(route: "GET /admin/attachment-store/health", cells: everybody),
        // The console's page and its files, of a version that never was. A credential begins its session; one
        // that does not hold is refused, and without the console's field it is malformed.
        .init(route: "GET /", cells: everybody),
        .init(route: "GET /console/:version/:part", cells: "404 404 404 404 404 404 404 404 404"),
        .init(route: "GET /console/:version/:part/:file", cells: "404 404 404 404 404 404 404 404 404"),
        .init(route: "GET /admin/console/health", cells: everybody),
        .init(route: "GET /admin/console/session", cells: everybody),
        .init(route: "POST /admin/console/session", cells: "400 400 400 400 400 400 400 400 400"),
        .init(route: "DELETE /admin/console/session", cells: "400 400 400 400 400 400 400 400 400"),
        .init(route: "GET /admin/metrics/series", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/auth/databases/:database/explain-access", role: .read,
            cells: "\(nobodyButAdmin) 400"),
        .init(
            route: "GET /admin/auth/databases/:database/limits", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "PUT /admin/auth/databases/:database/limits", role: .own, cells: "\(nobodyButAdmin) 204"),
        // What a login may is its provider's word; a credential that comes with it says nothing.
        .init(route: "POST /_ditto/auth/login", cells: "400 400 400 400 400 400 400 400 400"),
        .init(route: "GET /_ditto/auth/jwks.json", cells: everybody),
        // Tokens without a peer key get no certificate.
        .init(
            route: "POST /_ditto/auth/cert", body: #"{"request":""}"#,
            cells: "401 401 400 400 400 400 400 400 401"),
        .init(
            route: "POST /_ditto/auth/attachment-urls", body: #"{"ids":["a"]}"#,
            cells: "401 401 200 200 200 200 200 200 401"),
        // The statements above; without one a request is malformed for whoever may send it.
        .init(route: "POST /api/v4/store/execute", cells: "401 401 400 400 400 400 400 400 401"),
        .init(route: "POST /api/v5/store/execute", cells: "401 401 400 400 400 400 400 400 401"),
        .init(route: "POST /api/v4/store/find", cells: "401 401 400 400 400 400 400 400 401"),
        .init(route: "POST /api/v4/store/findbyid", cells: "401 401 400 400 400 400 400 400 401"),
        .init(route: "POST /api/v4/store/count", cells: "401 401 400 400 400 400 400 400 401"),
        .init(route: "POST /api/v4/store/write", cells: "401 401 400 400 400 400 400 400 401"),
        .init(
            route: "DELETE /api/v1/collections/:collection/documents/:id",
            cells: "401 401 200 403 403 403 200 200 401"),
        .init(route: "POST /api/v5/store/import", cells: "401 401 400 400 400 400 400 400 401"),
        .init(route: "POST /api/v5/store/observe", cells: "401 401 400 400 400 400 400 400 401"),
        .init(route: "GET /api/v5/store/observe", cells: "401 401 400 400 400 400 400 400 401"),
        .init(route: "GET /api/v5/changes", cells: "401 401 200 200 200 200 200 200 401"),
        // A document that never was, of a collection that only `cars` is not.
        .init(
            route: "GET /api/v5/history/:collection/:id", cells: "401 401 200 200 403 403 200 200 401"),
        // A collection of which nothing may be read is refused.
        .init(
            route: "GET /api/v5/conflicts/:collection", cells: "401 401 200 200 403 403 200 200 401"),
        .init(
            route: "GET /api/v5/conflicts/:collection/:id", cells: "401 401 200 200 403 403 200 200 401"),
        // Running statements: everybody's own.
        .init(route: "GET /api/v5/requests", cells: "401 401 200 200 200 200 200 200 401"),
        .init(route: "DELETE /api/v5/requests/:request", cells: "401 401 404 404 404 404 404 404 401"),
        .init(
            route: "GET /admin/query-service/databases/:database/requests",
            role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "DELETE /admin/query-service/databases/:database/requests/:request",
            role: .operate, cells: "\(nobodyButAdmin) 404"),
        .init(route: "GET /admin/query-service/databases", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/query-service/databases/:database/projection", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/query-service/databases/:database/rebuilds", role: .operate,
            cells: "\(nobodyButAdmin) 202"),
        .init(
            route: "GET /admin/query-service/databases/:database/collections",
            role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/query-service/databases/:database/collections/:collection/shape",
            role: .operate, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/query-service/databases/:database/explain-subscription",
            role: .operate, cells: "\(nobodyButAdmin) 400"),
        .init(
            route: "GET /admin/query-service/databases/:database/indexes", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/query-service/databases/:database/peers", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/query-service/databases/:database/slow", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/query-service/databases/:database/webhooks", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/query-service/databases/:database/webhooks", body: #"{"url":"ftp://x"}"#,
            role: .own, cells: "\(nobodyButAdmin) 400"),
        .init(
            route: "DELETE /admin/query-service/databases/:database/webhooks/:webhook",
            role: .own, cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "POST /api/v4/attachments/upload", body: "x",
            cells: "401 401 200 403 200 200 200 200 401"),
        .init(
            route: "POST /api/v5/attachments/upload", body: "x",
            cells: "401 401 200 403 200 200 200 200 401"),
        .init(
            route: "GET /api/v5/attachments", cells: "401 401 200 200 200 200 200 200 401"),
        .init(
            route: "GET /api/v5/attachments/:id/chunks", cells: "401 401 404 200 404 404 200 200 401"),
        .init(
            route: "GET /admin/attachment-store/databases/:database/attachments",
            role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/attachment-store/databases/:database/usage", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/attachment-store/databases/:database/verifications",
            role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/attachment-store/databases/:database/verifications",
            role: .operate,
            cells: "\(nobodyButAdmin) 202"),
        .init(
            route: "POST /admin/attachment-store/databases/:database/collections",
            role: .own,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "OPTIONS /api/v5/attachments/uploads", cells: "204 204 204 204 204 204 204 204 204"),
        // Without the field of tus, whoever may write is told its version.
        .init(
            route: "POST /api/v5/attachments/uploads", cells: "401 401 412 403 412 412 412 412 401"),
        .init(
            route: "POST /api/v5/attachments/uploads/:upload",
            cells: "401 401 412 403 412 412 412 412 401"),
        .init(
            route: "PATCH /api/v5/attachments/uploads/:upload",
            cells: "401 401 412 403 412 412 412 412 401"),
        .init(
            route: "DELETE /api/v5/attachments/uploads/:upload",
            cells: "401 401 412 403 412 412 412 412 401"),
        .init(
            route: "HEAD /api/v5/attachments/uploads/:upload",
            cells: "401 401 412 403 412 412 412 412 401"),
        .init(
            route: "GET /api/v4/attachments/:id", cells: "401 401 404 200 404 404 200 200 401"),
        .init(
            route: "GET /api/v5/attachments/:id", cells: "401 401 404 200 404 404 200 200 401"),
        .init(
            route: "HEAD /api/v4/attachments/:id", cells: "401 401 404 200 404 404 200 200 401"),
        .init(
            route: "HEAD /api/v5/attachments/:id", cells: "401 401 404 200 404 404 200 200 401"),
        // Without an upgrade nobody is asked who they are. Sessions: ReplicatorTests.
        .init(route: "GET /_ditto/sync", cells: "426 426 426 426 426 426 426 426 426"),
        .init(route: "GET /admin/auth/databases", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/auth/databases", body: #"{"id":"."}"#, role: .own,
            cells: "\(nobodyButAdmin) 400"),
        .init(route: "GET /admin/auth/databases/:database", role: .own, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/auth/databases/:database/erasure", role: .read,
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "GET /admin/auth/databases/:database/providers", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/auth/databases/:database/providers", role: .own,
            cells: "\(nobodyButAdmin) 400"),
        .init(
            route: "DELETE /admin/auth/databases/:database/providers/:provider",
            role: .own, cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "GET /admin/auth/databases/:database/api-keys", role: .read,
            cells: "\(nobodyButAdmin) 200"
        ),
        .init(
            route: "POST /admin/auth/databases/:database/api-keys", role: .own,
            cells: "\(nobodyButAdmin) 400"
        ),
        .init(
            route: "DELETE /admin/auth/databases/:database/api-keys/:key", role: .own,
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "GET /admin/auth/databases/:database/revocations", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/auth/databases/:database/revocations", role: .operate,
            cells: "\(nobodyButAdmin) 400"),
        .init(
            route: "DELETE /admin/auth/databases/:database/revocations/:revocation",
            role: .own, cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "GET /admin/auth/databases/:database/keys", role: .read, cells: "\(nobodyButAdmin) 200"
        ),
        .init(
            route: "POST /admin/auth/databases/:database/keys", body: #"{"overlapSeconds":-1}"#,
            role: .own, cells: "\(nobodyButAdmin) 400"),
        .init(route: "GET /admin/replicator/databases", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(route: "POST /admin/replicator/drain", role: .operate, cells: "\(nobodyButAdmin) 200"),
        .init(route: "DELETE /admin/replicator/drain", role: .operate, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/replicator/databases/:database/sessions", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/replicator/databases/:database/sessions/:session",
            role: .operate, cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "DELETE /admin/replicator/databases/:database/sessions/:session",
            role: .operate, cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "GET /admin/replicator/databases/:database/presence", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/replicator/databases/:database/log", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/replicator/databases/:database/snapshots", role: .operate,
            cells: "\(nobodyButAdmin) 201"),
        .init(
            route: "POST /admin/replicator/databases/:database/truncations", role: .operate,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/replicator/databases/:database/erasures", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/replicator/databases/:database/erasures", body: #"{"ids":[]}"#,
            role: .own, cells: "\(nobodyButAdmin) 400"),
        .init(
            route: "GET /admin/auth/databases/:database/providers/:provider/secrets",
            role: .read, cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "POST /admin/auth/databases/:database/providers/:provider/secrets",
            role: .own, cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "DELETE /admin/auth/databases/:database/providers/:provider/secrets/:secret",
            role: .own, cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "GET /admin/auth/databases/:database/providers/:provider", role: .read,
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "PATCH /admin/auth/databases/:database/providers/:provider",
            role: .own, cells: "\(nobodyButAdmin) 404"),
        .init(route: "GET /admin/auth/audit", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/auth/audit", body: #"{"statement":"DELETE FROM audit"}"#,
            role: .read, cells: "\(nobodyButAdmin) 400"),
        .init(route: "GET /admin/auth/sealing-key", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/auth/sealing-key", role: .own, cells: "\(nobodyButAdmin) 409",
            first: "201"),
        .init(
            route: "DELETE /admin/auth/sealing-key/previous", role: .own, cells: "\(nobodyButAdmin) 404",
            first: "204"),
        .init(route: "GET /admin/auth/restore", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(route: "POST /admin/auth/restore", role: .own, cells: "\(nobodyButAdmin) 204"),
        .init(route: "GET /admin/auth/whoami", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/auth/credentials", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(route: "POST /admin/auth/credentials", role: .own, cells: "\(nobodyButAdmin) 400"),
        .init(
            route: "DELETE /admin/auth/credentials/:credential", role: .own,
            cells: "\(nobodyButAdmin) 404"),
        .init(route: "GET /admin/settings", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/auth-gateway/settings", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/auth-gateway/log-level", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(route: "PUT /admin/auth-gateway/log-level", role: .operate, cells: "\(nobodyButAdmin) 400"),
        .init(route: "GET /admin/auth-gateway/log-lines", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/replicator/settings", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/replicator/log-level", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(route: "PUT /admin/replicator/log-level", role: .operate, cells: "\(nobodyButAdmin) 400"),
        .init(route: "GET /admin/replicator/log-lines", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/query-service/settings", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/query-service/log-level", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "PUT /admin/query-service/log-level", role: .operate, cells: "\(nobodyButAdmin) 400"),
        .init(route: "GET /admin/query-service/log-lines", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/attachment-store/settings", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/attachment-store/log-level", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "PUT /admin/attachment-store/log-level", role: .operate, cells: "\(nobodyButAdmin) 400"
        ),
        .init(
            route: "GET /admin/attachment-store/log-lines", role: .read, cells: "\(nobodyButAdmin) 200"),
        // The last row: nobody of the others is anybody any more.
        .init(
            route: "DELETE /admin/auth/databases/:database", role: .own, cells: "\(nobodyButAdmin) 404",
            first: "202"),
    ]
}
