import CRDT
import Foundation
import Identity
import ServiceKit
import Synchronization

/// A database as a developer needs it: what to name and what to log in with.
public struct DevelopmentDatabase: Sendable, Equatable {
    /// The database's id, a UUID in lower case.
    public let id: String
    /// The development provider's secret: 32 random bytes in base64url.
    public let token: String
}

/// The databases of this server with their secrets. The file is the truth; `state` is what it says, and
/// guards every change of it, so that two first uses make one key.
final class DatabaseRegistry: Sendable {
    private struct Loaded: Sendable {
        var state: StateFile.State
        var keys: [String: [DatabaseSigningKey]]
    }

    private let file: StateFile
    private let loaded: Mutex<Loaded>
    /// The public keys, for whoever verifies tokens.
    let publicKeys = InMemoryKeySource()

    /// - Throws: `AUTH-0501`, `AUTH-0502`.
    init(folder: String) throws(AuthGatewayError) {
        file = try StateFile(folder: folder)
        let state = try file.read()
        var keys: [String: [DatabaseSigningKey]] = [:]
        for database in state.databases {
            for key in database.keys {
                do {
                    let id = try KeyID(databaseID: database.id, number: key.number)
                    let signing = try DatabaseSigningKey(keyID: id, pem: key.pem)
                    keys[database.id, default: []].append(signing)
                    publicKeys.insert(signing.publicKey)
                } catch {
                    throw AuthGatewayError(
                        .stateUnreadable, "key \(key.number) of \(database.id): \(error.message)")
                }
            }
        }
        loaded = Mutex(Loaded(state: state, keys: keys))
    }

    /// All databases, by id.
    var databaseIDs: [String] { loaded.withLock { $0.state.databases.map(\.id) } }

    /// The database of the first start, made on the first call ever.
    /// - Throws: `AUTH-0501`.
    func loadOrCreateDevelopment() throws(AuthGatewayError) -> DevelopmentDatabase {
        try loaded.withLock { loaded throws(AuthGatewayError) in
            if let id = loaded.state.development,
                let database = loaded.state.databases.first(where: { utf8Equal($0.id, id) })
            {
                return DevelopmentDatabase(id: database.id, token: database.developmentToken)
            }
            let database = Self.fresh(UUID().uuidString.lowercased())
            var state = loaded.state
            state.databases.append(database)
            state.development = database.id
            try file.write(state)
            loaded.state = state
            return DevelopmentDatabase(id: database.id, token: database.developmentToken)
        }
    }

    /// Makes the databases that there are not yet.
    /// - Throws: `AUTH-0501`.
    func ensure(_ ids: [String]) throws(AuthGatewayError) {
        try loaded.withLock { loaded throws(AuthGatewayError) in
            let missing = ids.filter { id in !loaded.state.databases.contains { utf8Equal($0.id, id) } }
            guard !missing.isEmpty else { return }
            var state = loaded.state
            state.databases += missing.map { Self.fresh($0) }
            try file.write(state)
            loaded.state = state
        }
    }

    private static func fresh(_ id: String) -> StateFile.Database {
        var generator = SystemRandomNumberGenerator()
        let secret = (0..<Limits.developmentTokenBytes).map { _ in
            UInt8.random(in: .min ... .max, using: &generator)
        }
        return StateFile.Database(id: id, developmentToken: Base64URL.encode(secret))
    }

    /// The development provider's secret of a database, or nil when there is no such database.
    func developmentToken(of databaseID: String) -> String? {
        loaded.withLock { $0.state.databases.first { utf8Equal($0.id, databaseID) }?.developmentToken }
    }

    /// The key that signs a database's tokens, made on first use.
    /// - Throws: `AUTH-0402`, `AUTH-0501`.
    func signingKey(of databaseID: String) throws(AuthGatewayError) -> DatabaseSigningKey {
        try loaded.withLock { loaded throws(AuthGatewayError) in
            if let key = loaded.keys[databaseID]?.last { return key }
            guard let index = loaded.state.databases.firstIndex(where: { utf8Equal($0.id, databaseID) })
            else {
                throw AuthGatewayError(.databaseUnknown, "there is no such database")
            }
            let made: DatabaseSigningKey
            do {
                made = try DatabaseSigningKey(databaseID: databaseID, number: 1)
            } catch {
                throw AuthGatewayError(.stateUnreadable, "the id of database \(index) is none")
            }
            var state = loaded.state
            state.databases[index].keys.append(StateFile.Key(number: 1, pem: made.pem))
            try file.write(state)
            loaded.state = state
            loaded.keys[databaseID] = [made]
            publicKeys.insert(made.publicKey)
            return made
        }
    }
}
