import Foundation
import Logging
import ServiceKit
import TestSupport
import Testing

@testable import Mimeo

/// How the work is bounded that a request of a route can cause.
private enum Meter {
    /// A body of 64 KiB at most, and a moment of work, where it arrives: no member of the request decides how
    /// long. Of an unknown caller, attempts are counted by address.
    case brief
    /// A running statement of its credential: body, parsing, evaluation and printing in turns of the pool;
    /// listed, cancelled, ended with its client; rows and answer held by the credential's account.
    case statement
    /// A stream: one of the credential's slots, and each part of it in a turn (`StreamTurns`).
    case stream
    /// Bytes of a file between client and disk or bucket, in pieces, under the quotas of attachments.
    case bytes
    /// A session of sync: conditions in turns of the pool, frames under credit (`FrameRegisterTests`).
    case session
    /// An operator's: few have the credential, and what takes time is a statement of the account `admin`.
    case operated
}

@Suite("The register of what each route may cost")
struct MeterRegisterTests {
    private static let register: [String: Meter] = [
        "DELETE /_ditto/auth/account/devices/:device": .brief,
        "DELETE /_ditto/auth/account/sessions/:session": .brief,
        "DELETE /api/v1/collections/:collection/documents/:id": .statement,
        "DELETE /api/v5/attachments/uploads/:upload": .brief,
        "DELETE /api/v5/requests/:request": .brief,
        "GET /": .brief,
        "GET /_ditto/auth/account": .brief,
        "GET /_ditto/auth/account/joins/:code": .brief,
        "GET /_ditto/auth/jwks.json": .brief,
        "GET /_ditto/sync": .session,
        "GET /api/v4/attachments/:id": .bytes,
        "GET /api/v5/attachments": .brief,
        "GET /api/v5/attachments/:id": .bytes,
        "GET /api/v5/attachments/:id/chunks": .bytes,
        "GET /api/v5/changes": .stream,
        "GET /api/v5/conflicts/:collection": .statement,
        "GET /api/v5/conflicts/:collection/:id": .statement,
        "GET /api/v5/docs": .brief,
        "GET /api/v5/history/:collection/:id": .statement,
        "GET /api/v5/openapi.json": .brief,
        "GET /api/v5/requests": .brief,
        "GET /api/v5/store/observe": .stream,
        "GET /api/v5/swagger.json": .brief,
        "GET /console/:version/:part": .brief,
        "GET /console/:version/:part/:file": .brief,
        "GET /health": .brief,
        "GET /health/live": .brief,
        "GET /health/ready": .brief,
        "GET /metrics": .brief,
        "GET /mimeo.js": .brief,
        "GET /openapi.json": .brief,
        "HEAD /api/v4/attachments/:id": .brief,
        "HEAD /api/v5/attachments/:id": .brief,
        "HEAD /api/v5/attachments/uploads/:upload": .brief,
        "OPTIONS /api/v5/attachments/uploads": .brief,
        "PATCH /api/v5/attachments/uploads/:upload": .bytes,
        "POST /_ditto/auth/account/joins/:code": .brief,
        "POST /_ditto/auth/account/password": .brief,
        "POST /_ditto/auth/account/second-factor": .brief,
        "POST /_ditto/auth/attachment-urls": .brief,
        "POST /_ditto/auth/cert": .brief,
        "POST /_ditto/auth/join": .brief,
        "POST /_ditto/auth/join/key": .brief,
        "POST /_ditto/auth/link": .brief,
        "POST /_ditto/auth/link/use": .brief,
        "POST /_ditto/auth/login": .brief,
        "POST /_ditto/auth/reset": .brief,
        "POST /api/v4/attachments/upload": .bytes,
        "POST /api/v4/store/count": .statement,
        "POST /api/v4/store/execute": .statement,
        "POST /api/v4/store/find": .statement,
        "POST /api/v4/store/findbyid": .statement,
        "POST /api/v4/store/write": .statement,
        "POST /api/v5/attachments/upload": .bytes,
        "POST /api/v5/attachments/uploads": .bytes,
        "POST /api/v5/attachments/uploads/:upload": .bytes,
        "POST /api/v5/store/execute": .statement,
        "POST /api/v5/store/import": .stream,
        "POST /api/v5/store/observe": .stream,
    ]

    private static func meter(of route: String) -> Meter? {
        register[route] ?? (route.contains(" /admin/") ? .operated : nil)
    }

    @Test("every route is registered, and every registered one is mounted")
    func routes() async throws {
        try await withTemporaryDirectory { folder in
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let configuration = try ServiceConfiguration(
                ServiceOptions.parse(["--data", folder.path]), port: AllServices.defaultPort, environment: [:]
            )
            let services = try AllServices(configuration, logger: logger)
            let mounted = try ServiceMount.routes(of: services.parts)
            await services.close()
            #expect(mounted.filter { Self.meter(of: $0) == nil } == [])
            #expect(Self.register.keys.filter { !mounted.contains($0) }.sorted() == [])
        }
    }

    /// Large bodies are read by `received`, which has an account for them; `wholeBody` takes small ones.
    @Test("no route of clients reads a large body outside its account")
    func bodies() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let service = root.appendingPathComponent("Services/QueryService")
        let files = try #require(FileManager.default.enumerator(at: service, includingPropertiesForKeys: nil))
        let found = try files.compactMap { $0 as? URL }.filter { $0.pathExtension == "swift" }.filter {
            try String(contentsOf: $0, encoding: .utf8).contains("wholeBody(limitBytes: Limits.requestBytes)")
        }
        #expect(found.map(\.lastPathComponent) == [])
    }
}
