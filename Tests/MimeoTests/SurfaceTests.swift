import AttachmentStore
import Attachments
import AuthGateway
import Foundation
import Identity
import Logging
import Mimeo
import OperationLog
import QueryService
import Replicator
import ServiceKit
import TestSupport
import Testing

@Suite("Surface: the table against the services")
struct SurfaceTests {
    @Test("every mounted route is described, and every described one is mounted")
    func complete() async throws {
        try await withTemporaryDirectory { folder in
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let options = try ServiceOptions.parse(["--data", folder.path])
            let configuration = try ServiceConfiguration(options, port: AllServices.defaultPort)
            let services = try AllServices(configuration, logger: logger)
            let mounted = try ServiceMount.routes(of: services.parts).filter { !$0.hasPrefix("HEAD ") }
            await services.close()
            let described = Surface.routes.map { "\($0.method.rawValue) \($0.path)" }
            #expect(described.filter { !mounted.contains($0) } == [])
            #expect(mounted.filter { !described.contains($0) } == [])
        }
    }

    @Test("the table names only codes that exist, and every code of a service that has a status for requests")
    func codes() {
        let named = Set(Surface.routes.flatMap { $0.failures.flatMap(\.codes) })
        var known = Set(AuthGatewayErrorCode.allCases.map(\.rawValue))
        known.formUnion(IdentityErrorCode.allCases.map(\.rawValue))
        known.formUnion(ServiceErrorCode.allCases.map(\.rawValue))
        known.formUnion(QueryErrorCode.allCases.map(\.rawValue))
        known.formUnion(AttachmentStoreErrorCode.allCases.map(\.rawValue))
        known.formUnion(AttachmentErrorCode.allCases.map(\.rawValue))
        known.formUnion(OperationLogErrorCode.allCases.map(\.rawValue))
        let others = named.filter { !known.contains($0) && !$0.hasPrefix("REPL-") }
        #expect(others == [])
        for code in QueryErrorCode.allCases { #expect(named.contains(code.rawValue), "\(code.rawValue)") }
        for code in AttachmentStoreErrorCode.allCases {
            #expect(named.contains(code.rawValue), "\(code.rawValue)")
        }
    }
}
