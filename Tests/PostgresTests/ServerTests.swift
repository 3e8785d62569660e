import CLibPQ
import Foundation
import Testing

/// Where `make test` has started PostgreSQL; without it there is nothing to talk to.
private let conninfo = ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"]

@Suite("The PostgreSQL that the tests run beside", .enabled(if: conninfo != nil, "`make test` starts one"))
struct ConnectionPostgresTests {
    @Test("libpq reaches a server that is not older than the oldest version supported")
    func version() throws {
        let connection = try #require(PQconnectdb(conninfo))
        defer { PQfinish(connection) }
        #expect(PQstatus(connection) == CONNECTION_OK, "\(String(cString: PQerrorMessage(connection)))")
        #expect(PQserverVersion(connection) >= 150_000)
    }

    @Test("the server syncs its commits to disk, as tests of durability need it")
    func durability() throws {
        let connection = try #require(PQconnectdb(conninfo))
        defer { PQfinish(connection) }
        let result = try #require(PQexec(connection, "SHOW fsync"))
        defer { PQclear(result) }
        #expect(PQresultStatus(result) == PGRES_TUPLES_OK)
        #expect(String(cString: PQgetvalue(result, 0, 0)) == "on")
    }
}
