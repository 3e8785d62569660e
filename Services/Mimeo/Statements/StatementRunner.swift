import CRDT
import DittoSwift
import Foundation

/// Runs statements on a local store or a server.
protocol StatementRunner: Sendable {
    /// Runs one statement. The error of a wrong statement is an answer too.
    /// - Throws: `MimeoError` if no further statement can run either.
    func run(_ statement: String, arguments: ObjectValue) async throws -> Answer
    /// Called after the last statement.
    func close() async
}

/// Runs statements on a local store.
struct LocalRunner: StatementRunner {
    let ditto: Ditto

    /// A store that is open.
    init(ditto: Ditto) { self.ditto = ditto }

    /// Opens the store in a directory, like `persistenceDirectory` in DittoSwift.
    /// - Parameter database: the database that it has to be of; nil for any.
    /// - Throws: `CLI-0201`, `CLI-0202`.
    init(store: String, database: String? = nil) async throws {
        try StoreFolder.check(store)
        let directory = URL(fileURLWithPath: store, isDirectory: true)
        do {
            guard let database else {
                ditto = try await Ditto.open(store: directory)
                return
            }
            ditto = try await Ditto.openAlone(
                config: DittoConfig(
                    databaseID: database, connect: .smallPeersOnly(), persistenceDirectory: directory))
        } catch {
            throw MimeoError(opening: error)
        }
    }

    func run(_ statement: String, arguments: ObjectValue) async -> Answer {
        do {
            return Answer(try await ditto.store.run(statement, arguments: arguments))
        } catch {
            return Answer(error)
        }
    }

    func close() async { await ditto.close() }
}
