import CRDT
import Foundation
import Identity
import Logging
import ServiceKit
import Synchronization

/// The id of a database and the token to log in to it, for a developer.
public struct DevelopmentDatabase: Sendable, Equatable {
    /// The database's id, a UUID in lower case.
    public let id: String
    /// The development provider's secret: 32 random bytes in base64url.
    public let token: String
    /// Path of a file with the token, which only its owner can read.
    public let tokenFile: String
    /// False if no login with the token is accepted, unless the file of providers says so.
    public let isAccepted: Bool
}

/// The databases of this server with their secrets. They are documents of the system database, and only a
/// gateway can open their secrets. The log is the truth; this object only caches opened secrets, and an entry
/// counts only while its record is unchanged.
final class GatewayState: Sendable {
    private struct Opened: Sendable {
        /// By sealed text.
        var keys: [String: DatabaseSigningKey] = [:]
        /// The latest end of a session issued by this gateway, by database: seconds since 1970.
        var latestEnd: [DatabaseID: Int64] = [:]
        /// By sealed text.
        var tokens: [String: String] = [:]
        var providers: [String: (record: ProviderRecord, provider: Provider)] = [:]
    }

    let system: SystemDatabase
    let sealer: Sealer
    private let logger: Logger
    private let nowSeconds: @Sendable () -> Int64
    private let opened = Mutex(Opened())

    init(
        system: SystemDatabase, sealingKey: SealingKey, logger: Logger,
        nowSeconds: @escaping @Sendable () -> Int64
    ) {
        sealer = Sealer(system: system, key: sealingKey, logger: logger)
        self.system = system
        self.logger = logger
        self.nowSeconds = nowSeconds
    }

    /// Returns whether the system database holds all state of an earlier version, and this gateway opens it.
    func hasTakenOver(_ legacy: LegacyStateFile.State) -> Bool {
        legacy.databases.allSatisfy { database in
            guard let record = system.directory.databases[DatabaseID(database.id)] else { return false }
            if record.deletedAtSeconds != nil { return true }
            return (try? developmentToken(of: DatabaseID(database.id))) != nil
                && database.keys.allSatisfy {
                    system.directory.signingKeys["\(database.id).\($0.number)"] != nil
                }
        }
    }

    /// The ids of all databases that are not deleted, sorted.
    var databaseIDs: [DatabaseID] {
        system.directory.databases.values.filter { $0.deletedAtSeconds == nil }.map(\.databaseID).sorted()
    }

    /// Imports the state of the first version, and makes missing databases: the one of the first start, and
    /// the configured ones.
    func prepare(_ legacy: LegacyStateFile.State?, configured: [DatabaseID]) async throws {
        let now = nowSeconds()
        try await system.write { writer in
            let box = try self.sealer.box()
            var hasFirst = self.first != nil
            for database in legacy?.databases ?? [] {
                guard try writer.get(database.id, as: DatabaseRecord.self) == nil else { continue }
                let isFirst = !hasFirst && legacy?.development == database.id
                hasFirst = hasFirst || isFirst
                try writer.put(
                    Self.record(database.id, database.developmentToken, box, now, isFirst: isFirst))
                for key in database.keys {
                    let signing = try Self.signingKey(DatabaseID(database.id), key)
                    try writer.put(Self.record(signing, box, now))
                }
            }
            if !hasFirst {
                let id = UUID().uuidString.lowercased()
                try writer.put(Self.record(id, SecretFile.random(), box, now, isFirst: true))
            }
            for id in configured where try writer.get(id.text, as: DatabaseRecord.self) == nil {
                try writer.put(Self.record(id.text, SecretFile.random(), box, now))
            }
        }
    }

    /// The database of the first start.
    var first: DatabaseRecord? {
        system.directory.databases.values.first { $0.isFirst && $0.deletedAtSeconds == nil }
    }

    /// Makes a database.
    /// - Returns: the development provider's secret; nil without that provider.
    /// - Throws: `AUTH-0409` if a database of the id exists or existed.
    func createDatabase(_ id: DatabaseID, allowsDevelopment: Bool) async throws -> String? {
        let token = allowsDevelopment ? SecretFile.random() : nil
        let now = nowSeconds()
        try await system.write { writer in
            guard try writer.get(id.text, as: DatabaseRecord.self) == nil else {
                throw AuthGatewayError(
                    .exists, "a database with this id exists or existed; choose another id")
            }
            try writer.put(Self.record(id.text, token, try self.sealer.box(), now))
        }
        return token
    }

    /// Deletes a database with its providers, keys and revocations: all its tokens and logins are refused.
    /// Every service then erases what it keeps of it (`Eraser`). Its id stays in use.
    ///
    /// A database that an earlier version deleted, which kept its data, is erased too.
    func deleteDatabase(_ id: DatabaseID) async throws {
        let now = nowSeconds()
        let directory = system.directory
        try await system.write { writer in
            guard var record = try writer.get(id.text, as: DatabaseRecord.self), !record.isErased else {
                throw AuthGatewayError(.databaseUnknown, "the database does not exist")
            }
            record.deletedAtSeconds = record.deletedAtSeconds ?? now
            record.sealedDevelopmentToken = nil
            record.erases = true
            try writer.put(record)
            for key in directory.signingKeys.keys where KeyID(key)?.databaseID == id {
                try writer.remove(key, SigningKeyRecord.self)
            }
            for provider in directory.providers.values where provider.databaseID == id {
                try writer.remove(provider.id, ProviderRecord.self)
            }
            for key in directory.apiKeys.values where key.databaseID == id {
                try writer.remove(key.id, APIKeyRecord.self)
            }
            for set in directory.permissionSets.values where set.databaseID == id {
                try writer.remove(set.id, PermissionSetRecord.self)
            }
            for join in directory.joins.values where join.databaseID == id {
                try writer.remove(join.id, JoinRecord.self)
            }
            try writer.remove(id.text, DatabaseLimits.self)
            for revocation in directory.revocations.values where revocation.databaseID == id {
                try writer.remove(revocation.id, Revocation.self)
            }
        }
        try await removeAll(directory.accounts.values.filter { $0.databaseID == id })
        try await removeAll(directory.accountLinks.values.filter { $0.databaseID == id })
    }

    /// Removes records of which there may be very many, in parts. Records that a crash leaves open nothing,
    /// because their database is deleted.
    private func removeAll<Record: SystemRecord>(_ records: [Record]) async throws {
        var rest = records[...]
        while !rest.isEmpty {
            let part = Array(rest.prefix(Limits.recordsPerWrite))
            try await system.write { writer in
                for record in part { try writer.remove(record.id, Record.self) }
            }
            rest = rest.dropFirst(part.count)
        }
    }

    /// The development provider's secret of a database; nil if it has none.
    /// - Throws: `AUTH-0402`, `AUTH-0505`.
    func developmentToken(of databaseID: DatabaseID) throws(AuthGatewayError) -> String? {
        guard let record = system.directory.database(databaseID) else {
            throw AuthGatewayError(.databaseUnknown, "the database does not exist")
        }
        guard let sealed = record.sealedDevelopmentToken else { return nil }
        if let known = opened.withLock({ $0.tokens[sealed] }) { return known }
        let token = try sealer.open(sealed, at: Sealer.place(databaseID.text))
        opened.withLock { $0.tokens[sealed] = token }
        return token
    }

    // MARK: Keys

    /// The key that signs a database's tokens, made on first use.
    /// - Throws: `AUTH-0402`, `AUTH-0505`, and the log's errors.
    func signingKey(of databaseID: DatabaseID) async throws -> DatabaseSigningKey {
        if let key = try currentKey(of: databaseID) { return key }
        _ = try await addKey(to: databaseID, after: nil)
        guard let key = try currentKey(of: databaseID) else {
            throw AuthGatewayError(.databaseUnknown, "the database does not exist")
        }
        return key
    }

    /// The certificates of a database's authorities: the key that signs now, and earlier keys that are still
    /// valid.
    func authorities(of databaseID: DatabaseID, nowSeconds: Int64) throws(AuthGatewayError) -> [String] {
        var certificates: [String] = []
        for record in keys(of: databaseID).reversed() where nowSeconds < record.retiresAtSeconds ?? .max {
            certificates.append(
                CertificateAuthority.certificate(
                    of: try open(record), createdAtSeconds: record.createdAtSeconds))
        }
        return certificates
    }

    /// The newest key in the system database, opened.
    private func currentKey(of databaseID: DatabaseID) throws(AuthGatewayError) -> DatabaseSigningKey? {
        guard let record = keys(of: databaseID).last else { return nil }
        return try open(record)
    }

    private func open(_ record: SigningKeyRecord) throws(AuthGatewayError) -> DatabaseSigningKey {
        if let known = opened.withLock({ $0.keys[record.sealedPEM] }) { return known }
        let pem = try sealer.open(record.sealedPEM, at: Sealer.place(record.id))
        guard let id = KeyID(record.id), let key = try? DatabaseSigningKey(keyID: id, pem: pem) else {
            throw AuthGatewayError(
                .stateUnreadable, "the signing key \(record.id) in the system database is damaged")
        }
        opened.withLock { $0.keys[record.sealedPEM] = key }
        return key
    }

    /// A database's keys, oldest first; they are numbered without gaps.
    func keys(of databaseID: DatabaseID) -> [SigningKeyRecord] {
        let known = system.directory.signingKeys
        var found: [SigningKeyRecord] = []
        while let record = known["\(databaseID).\(found.count + 1)"] { found.append(record) }
        return found
    }

    /// The currently valid keys of all databases that are not deleted.
    func keySet(nowSeconds: Int64) -> KeySet {
        let directory = system.directory
        var keys = KeySet()
        for record in directory.signingKeys.values where nowSeconds < record.retiresAtSeconds ?? .max {
            guard let id = KeyID(record.id), directory.database(id.databaseID) != nil,
                let key = directory.keys[id]
            else { continue }
            keys.insert(key)
        }
        return keys
    }

    /// Records the end of a session that was issued.
    func noteEnd(_ seconds: Int64, in databaseID: DatabaseID) {
        opened.withLock { $0.latestEnd[databaseID] = max($0.latestEnd[databaseID] ?? 0, seconds) }
    }

    /// Default overlap of a key rotation, in seconds: the lifetime of a certificate, or the longest session
    /// that this gateway has issued if that is longer.
    func overlapSeconds(in databaseID: DatabaseID) -> Int64 {
        let latest = opened.withLock { $0.latestEnd[databaseID] } ?? 0
        return max(PeerCertificate.life.components.seconds, latest - nowSeconds())
    }

    /// Makes a new key that signs from now on; tokens of earlier keys stay valid for `overlap` more seconds.
    /// - Parameter overlap: nil makes a key only if there is none.
    /// - Returns: the number of the new key; 0 if none was made.
    func addKey(to databaseID: DatabaseID, after overlap: Int64?) async throws -> Int {
        guard system.directory.database(databaseID) != nil else {
            throw AuthGatewayError(.databaseUnknown, "the database does not exist")
        }
        let now = nowSeconds()
        let made = Mutex(0)
        try await system.write { writer in
            var number = 1
            while var earlier = try writer.get("\(databaseID).\(number)", as: SigningKeyRecord.self) {
                if let overlap {
                    earlier.retiresAtSeconds = min(earlier.retiresAtSeconds ?? .max, now + overlap)
                    try writer.put(earlier)
                } else {
                    return
                }
                number += 1
            }
            let key = try DatabaseSigningKey(databaseID: databaseID, number: number)
            try writer.put(Self.record(key, try self.sealer.box(), now))
            made.withLock { $0 = number }
        }
        return made.withLock { $0 }
    }

    // MARK: Providers

    /// The provider with this name that the admin API made; nil if there is none.
    /// - Throws: `AUTH-0505`.
    func provider(_ name: String, of databaseID: DatabaseID) throws(AuthGatewayError) -> Provider? {
        let id = "\(databaseID)/\(name)"
        guard let record = system.directory.providers[id] else { return nil }
        if let known = opened.withLock({ $0.providers[id] }), known.record == record {
            return known.provider
        }
        let text = try sealer.open(record.sealedConfiguration, at: Sealer.place(id))
        let provider = try ProvidersFile.provider(
            name: name, json: Array(text.utf8), isStored: true, logger: logger)
        // Two logins may have made it at once. The first one is kept, since its breaker counts failures.
        return opened.withLock { opened in
            if let known = opened.providers[id], known.record == record { return known.provider }
            opened.providers[id] = (record, provider)
            return provider
        }
    }

    /// Configuration and record of a provider that the admin API made; nil if there is none.
    /// - Throws: `AUTH-0505`.
    func configuration(
        of name: String, in databaseID: DatabaseID
    ) throws(AuthGatewayError) -> (value: Value, record: ProviderRecord)? {
        let id = "\(databaseID)/\(name)"
        guard let record = system.directory.providers[id] else { return nil }
        let text = try sealer.open(record.sealedConfiguration, at: Sealer.place(id))
        guard let value = try? JSONText.parse(Array(text.utf8)) else { return nil }
        return (value, record)
    }

    /// Makes a provider, or replaces the configuration of an existing one.
    /// - Parameter known: the record to replace; nil replaces any.
    /// - Throws: `AUTH-0402`, `AUTH-0401` for an invalid configuration, `AUTH-0409` if the existing record is
    ///   not `known`.
    func putProvider(
        _ name: String, of databaseID: DatabaseID, configuration: Value,
        inPlaceOf known: ProviderRecord? = nil
    ) async throws {
        let text = JSONText.print(configuration)
        let provider = try ProvidersFile.provider(name: name, json: Array(text.utf8), logger: logger)
        let (kind, summary) = provider.summary
        let id = "\(databaseID)/\(name)"
        try await system.write { writer in
            guard let database = try writer.get(databaseID.text, as: DatabaseRecord.self),
                database.deletedAtSeconds == nil
            else { throw AuthGatewayError(.databaseUnknown, "the database does not exist") }
            if let known, try writer.get(known.id, as: ProviderRecord.self) != known {
                throw AuthGatewayError(.exists, "somebody has changed the provider meanwhile; try again")
            }
            try writer.put(
                ProviderRecord(
                    database: databaseID, name: name, kind: kind, summary: summary,
                    sealedConfiguration: try self.sealer.box().seal(text, at: Sealer.place(id))))
        }
    }

    // MARK: Records

    private static func record(
        _ id: String, _ token: String?, _ box: SecretBox, _ now: Int64, isFirst: Bool = false
    ) -> DatabaseRecord {
        DatabaseRecord(
            id: id, createdAtSeconds: now,
            sealedDevelopmentToken: token.map { box.seal($0, at: Sealer.place(id)) },
            isFirst: isFirst)
    }

    private static func record(_ key: DatabaseSigningKey, _ box: SecretBox, _ now: Int64) -> SigningKeyRecord
    {
        let id = key.keyID.description
        return SigningKeyRecord(
            id: id, publicKey: key.publicKey.compressedPoint,
            sealedPEM: box.seal(key.pem, at: Sealer.place(id)),
            createdAtSeconds: now)
    }

    private static func signingKey(
        _ databaseID: DatabaseID, _ key: LegacyStateFile.Key
    ) throws(AuthGatewayError) -> DatabaseSigningKey {
        do {
            return try DatabaseSigningKey(
                keyID: try KeyID(databaseID: databaseID, number: key.number), pem: key.pem)
        } catch {
            throw AuthGatewayError(
                .stateUnreadable, "state.json: key \(key.number) of \(databaseID): \(error.message)")
        }
    }

    /// Checks that all keys of a state file can be read, before anything is written.
    static func validate(_ state: LegacyStateFile.State) throws(AuthGatewayError) {
        for database in state.databases {
            for key in database.keys { _ = try signingKey(DatabaseID(database.id), key) }
        }
    }
}
