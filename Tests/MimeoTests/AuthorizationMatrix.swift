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
/// | admin | the admin credential |
///
/// The server's database has `own` and `other` in `cars` and one document in `boats`; the other database has
/// nothing. Whoever adds a route or a kind of statement adds its rows: a test misses them.
enum AuthorizationMatrix {
    static let columns = ["none", "gone", "else", "read", "coll", "ids", "all", "key", "admin"]

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
            kind: "createIndex", statement: "CREATE INDEX by_n ON cars (n)",
            cells: "401 401 400 400 400 400 400 400 401"),
        .init(
            kind: "dropIndex", statement: "DROP INDEX by_n ON cars",
            cells: "401 401 400 400 400 400 400 400 401"),
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
        let cells: String
    }

    private static let everybody = "200 200 200 200 200 200 200 200 200"
    private static let nobodyButAdmin = "401 401 401 401 401 401 401 401"

    static let routes: [RouteRow] = [
        .init(route: "GET /health", cells: everybody),
        .init(route: "GET /metrics", cells: everybody),
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
        .init(route: "GET /admin/metrics/series", cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/auth/databases/:database/explain-access", cells: "\(nobodyButAdmin) 400"),
        // What a login may is its provider's word; a credential that comes with it says nothing.
        .init(route: "POST /_ditto/auth/login", cells: "400 400 400 400 400 400 400 400 400"),
        .init(route: "GET /_ditto/auth/jwks.json", cells: everybody),
        // Tokens without a peer key get no certificate.
        .init(
            route: "POST /_ditto/auth/cert", body: #"{"request":""}"#,
            cells: "401 401 400 400 400 400 400 400 401"),
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
        .init(route: "POST /api/v5/store/observe", cells: "401 401 400 400 400 400 400 400 401"),
        .init(route: "GET /api/v5/store/observe", cells: "401 401 400 400 400 400 400 400 401"),
        .init(route: "GET /api/v5/changes", cells: "401 401 200 200 200 200 200 200 401"),
        // A document that never was, of a collection that only `cars` is not.
        .init(
            route: "GET /api/v5/history/:collection/:id", cells: "401 401 200 200 403 403 200 200 401"),
        // Running statements: everybody's own.
        .init(route: "GET /api/v5/requests", cells: "401 401 200 200 200 200 200 200 401"),
        .init(route: "DELETE /api/v5/requests/:request", cells: "401 401 404 404 404 404 404 404 401"),
        .init(
            route: "GET /admin/query-service/databases/:database/requests",
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "DELETE /admin/query-service/databases/:database/requests/:request",
            cells: "\(nobodyButAdmin) 404"),
        .init(route: "GET /admin/query-service/databases", cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/query-service/databases/:database/projection", cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/query-service/databases/:database/rebuilds", cells: "\(nobodyButAdmin) 202"),
        .init(
            route: "GET /admin/query-service/databases/:database/collections",
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/query-service/databases/:database/collections/:collection/shape",
            cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/query-service/databases/:database/indexes", cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/query-service/databases/:database/slow", cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/query-service/databases/:database/webhooks", cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/query-service/databases/:database/webhooks", body: #"{"url":"ftp://x"}"#,
            cells: "\(nobodyButAdmin) 400"),
        .init(
            route: "DELETE /admin/query-service/databases/:database/webhooks/:webhook",
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "POST /api/v4/attachments/upload", body: "x",
            cells: "401 401 200 403 200 200 200 200 401"),
        .init(
            route: "POST /api/v5/attachments/upload", body: "x",
            cells: "401 401 200 403 200 200 200 200 401"),
        .init(
            route: "GET /api/v5/attachments/:id/chunks", cells: "401 401 404 200 404 404 200 200 401"),
        .init(
            route: "GET /admin/attachment-store/databases/:database/attachments",
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/attachment-store/databases/:database/usage", cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "GET /admin/attachment-store/databases/:database/verifications",
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/attachment-store/databases/:database/verifications",
            cells: "\(nobodyButAdmin) 202"),
        .init(
            route: "POST /admin/attachment-store/databases/:database/collections",
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
        .init(route: "GET /admin/auth/databases", cells: "\(nobodyButAdmin) 200"),
        .init(route: "POST /admin/auth/databases", body: #"{"id":"."}"#, cells: "\(nobodyButAdmin) 400"),
        .init(route: "GET /admin/auth/databases/:database", cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/auth/databases/:database/erasure", cells: "\(nobodyButAdmin) 404"),
        .init(route: "GET /admin/auth/databases/:database/providers", cells: "\(nobodyButAdmin) 200"),
        .init(route: "POST /admin/auth/databases/:database/providers", cells: "\(nobodyButAdmin) 400"),
        .init(
            route: "DELETE /admin/auth/databases/:database/providers/:provider",
            cells: "\(nobodyButAdmin) 404"),
        .init(route: "GET /admin/auth/databases/:database/api-keys", cells: "\(nobodyButAdmin) 200"),
        .init(route: "POST /admin/auth/databases/:database/api-keys", cells: "\(nobodyButAdmin) 400"),
        .init(
            route: "DELETE /admin/auth/databases/:database/api-keys/:key", cells: "\(nobodyButAdmin) 404"),
        .init(route: "GET /admin/auth/databases/:database/revocations", cells: "\(nobodyButAdmin) 200"),
        .init(route: "POST /admin/auth/databases/:database/revocations", cells: "\(nobodyButAdmin) 400"),
        .init(
            route: "DELETE /admin/auth/databases/:database/revocations/:revocation",
            cells: "\(nobodyButAdmin) 404"),
        .init(route: "GET /admin/auth/databases/:database/keys", cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/auth/databases/:database/keys", body: #"{"overlapSeconds":-1}"#,
            cells: "\(nobodyButAdmin) 400"),
        .init(route: "GET /admin/replicator/databases", cells: "\(nobodyButAdmin) 200"),
        .init(route: "POST /admin/replicator/drain", cells: "\(nobodyButAdmin) 200"),
        .init(route: "DELETE /admin/replicator/drain", cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/replicator/databases/:database/sessions", cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "DELETE /admin/replicator/databases/:database/sessions/:session",
            cells: "\(nobodyButAdmin) 404"),
        .init(route: "GET /admin/replicator/databases/:database/log", cells: "\(nobodyButAdmin) 200"),
        .init(route: "POST /admin/replicator/databases/:database/snapshots", cells: "\(nobodyButAdmin) 201"),
        .init(
            route: "POST /admin/replicator/databases/:database/truncations", cells: "\(nobodyButAdmin) 200"),
        .init(route: "GET /admin/replicator/databases/:database/erasures", cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/replicator/databases/:database/erasures", body: #"{"ids":[]}"#,
            cells: "\(nobodyButAdmin) 400"),
        .init(
            route: "GET /admin/auth/databases/:database/providers/:provider/secrets",
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "POST /admin/auth/databases/:database/providers/:provider/secrets",
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "DELETE /admin/auth/databases/:database/providers/:provider/secrets/:secret",
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "GET /admin/auth/databases/:database/providers/:provider", cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "PATCH /admin/auth/databases/:database/providers/:provider",
            cells: "\(nobodyButAdmin) 404"),
        .init(route: "GET /admin/auth/audit", cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/auth/audit", body: #"{"statement":"DELETE FROM audit"}"#,
            cells: "\(nobodyButAdmin) 400"),
        .init(route: "GET /admin/auth/sealing-key", cells: "\(nobodyButAdmin) 200"),
        .init(route: "POST /admin/auth/sealing-key", cells: "\(nobodyButAdmin) 201"),
        .init(route: "DELETE /admin/auth/sealing-key/previous", cells: "\(nobodyButAdmin) 204"),
        .init(route: "GET /admin/auth/restore", cells: "\(nobodyButAdmin) 200"),
        .init(route: "POST /admin/auth/restore", cells: "\(nobodyButAdmin) 204"),
        // The last row: nobody of the others is anybody any more.
        .init(route: "DELETE /admin/auth/databases/:database", cells: "\(nobodyButAdmin) 202"),
    ]
}
