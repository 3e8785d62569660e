import Foundation
import Logging
import ServiceKit
import Synchronization

/// Seals and opens the secrets of the system database, and reseals them when the key is changed (decision
/// 0028).
///
/// Another gateway on the same files may change the keys. So they are read again when a secret does not open,
/// and within each write that seals one; any write between, also a resealing, makes that write run again.
/// `known` guards the keys read last.
final class Sealer: Sendable {
    private let system: SystemDatabase
    private let key: SealingKey
    private let logger: Logger
    /// Nil before the start, until the keys have opened all sealed secrets.
    private let known = Mutex<SecretBox?>(nil)

    init(system: SystemDatabase, key: SealingKey, logger: Logger) {
        self.system = system
        self.key = key
        self.logger = logger
    }

    /// The place that a record's secret is bound to.
    static func place(_ id: String) -> String { SecretBox.place(id) }

    /// Reads the keys and checks that they open every sealed secret, before anything is written. Then reseals
    /// secrets of an earlier key.
    /// - Throws: `AUTH-0501`, `AUTH-0504`, `AUTH-0505`, and the log's errors.
    func begin() async throws {
        let all = Self.sealed(system.directory)
        guard all.isEmpty || key.exists else {
            throw AuthGatewayError(
                .secretSealed,
                "the log holds sealed secrets, but their key is not in \(key.path); restore that file")
        }
        let box = try key.box(logger: logger)
        for item in all { _ = try box.open(item.text, at: Self.place(item.id)) }
        known.withLock { $0 = box }
        _ = try await sealAnew()
    }

    /// Reads the current keys, to seal with.
    /// - Throws: `AUTH-0501`, `AUTH-0504`.
    func box() throws(AuthGatewayError) -> SecretBox {
        let box = try key.box(logger: logger)
        known.withLock { $0 = box }
        return box
    }

    /// True while the file of the key is there.
    var isKeyThere: Bool { key.exists }

    /// The keys read last.
    private var begun: SecretBox {
        guard let box = known.withLock({ $0 }) else {
            preconditionFailure("a gateway opens secrets after its start")
        }
        return box
    }

    /// Opens a secret with the keys read last, or else with the current ones.
    /// - Throws: `AUTH-0505`, and as `box`.
    func open(_ sealed: String, at place: String) throws(AuthGatewayError) -> String {
        do {
            return try begun.open(sealed, at: place)
        } catch {
            return try self.box().open(sealed, at: place)
        }
    }

    /// A digest that only holders of the key can make; another one after a change of the key.
    @Sendable func digest(_ text: String) -> [UInt8] { begun.digest(text) }

    /// Tells whether the key is being changed, and the number of records not sealed under the newest one.
    func status() throws(AuthGatewayError) -> (isChanging: Bool, outdated: Int) {
        (key.isChanging, outdated(try box()).count)
    }

    /// Makes a new key and reseals everything under it. The previous key still opens secrets, here and in
    /// other gateways on these files, until `removePrevious`.
    /// - Returns: the number of resealed records.
    /// - Throws: `AUTH-0412`, `AUTH-0501`, and the log's errors.
    func change() async throws -> Int {
        let lock = try key.lock()
        defer { withExtendedLifetime(lock) {} }
        try key.replace(logger: logger)
        _ = try box()
        return try await sealAnew()
    }

    /// Removes the previous key.
    /// - Throws: `AUTH-0411` if there is none, `AUTH-0412` while a secret is sealed under it.
    func removePrevious() async throws {
        let lock = try key.lock()
        defer { withExtendedLifetime(lock) {} }
        guard key.isChanging else {
            throw AuthGatewayError(.recordUnknown, "there is no previous key")
        }
        try await system.refresh()
        _ = try await sealAnew()
        guard outdated(try box()).isEmpty else {
            throw AuthGatewayError(
                .notPossible, "a secret is still sealed under the previous key; try again shortly")
        }
        try key.removePrevious()
        _ = try box()
    }

    // MARK: Sealed records

    private struct Sealed: Sendable {
        let id: String
        let text: String
        /// Reseals the secret in its record, as the log has the record at that time.
        let put: @Sendable (SystemWriter, (String) throws -> String) throws -> Void
    }

    private static func sealed(_ directory: SystemDirectory) -> [Sealed] {
        var found: [Sealed] = []
        for record in directory.databases.values {
            guard let text = record.sealedDevelopmentToken else { continue }
            found.append(
                Sealed(id: record.id, text: text) { writer, seal in
                    guard var record = try writer.get(record.id, as: DatabaseRecord.self),
                        let text = record.sealedDevelopmentToken
                    else { return }
                    record.sealedDevelopmentToken = try seal(text)
                    try writer.put(record)
                })
        }
        for record in directory.signingKeys.values {
            found.append(
                Sealed(id: record.id, text: record.sealedPEM) { writer, seal in
                    guard var record = try writer.get(record.id, as: SigningKeyRecord.self) else { return }
                    record.sealedPEM = try seal(record.sealedPEM)
                    try writer.put(record)
                })
        }
        for record in directory.providers.values {
            found.append(
                Sealed(id: record.id, text: record.sealedConfiguration) { writer, seal in
                    guard var record = try writer.get(record.id, as: ProviderRecord.self) else { return }
                    record.sealedConfiguration = try seal(record.sealedConfiguration)
                    try writer.put(record)
                })
        }
        for record in directory.accounts.values {
            guard let text = record.sealedSecondFactor else { continue }
            found.append(
                Sealed(id: record.id, text: text) { writer, seal in
                    guard var record = try writer.get(record.id, as: AccountRecord.self),
                        let text = record.sealedSecondFactor
                    else { return }
                    record.sealedSecondFactor = try seal(text)
                    try writer.put(record)
                })
        }
        for record in directory.webhooks.values {
            found.append(
                Sealed(id: record.id, text: record.sealedSecret) { writer, seal in
                    guard var record = try writer.get(record.id, as: WebhookRecord.self) else { return }
                    record.sealedSecret = try seal(record.sealedSecret)
                    try writer.put(record)
                })
        }
        return found
    }

    /// The secrets that are not sealed under the current key.
    private func outdated(_ box: SecretBox) -> [Sealed] {
        Self.sealed(system.directory).filter { !box.isCurrent($0.text, at: Self.place($0.id)) }
    }

    /// Reseals outdated secrets, `Limits.recordsPerWrite` records per operation. After a crash the next start
    /// reseals the rest.
    private func sealAnew() async throws -> Int {
        let box = try box()
        let all = outdated(box)
        var rest = all[...]
        while !rest.isEmpty {
            let part = Array(rest.prefix(Limits.recordsPerWrite))
            try await system.write { writer in
                for item in part {
                    let place = Self.place(item.id)
                    try item.put(writer) { box.seal(try box.open($0, at: place), at: place) }
                }
            }
            rest = rest.dropFirst(part.count)
        }
        return all.count
    }
}

extension SecretBox {
    /// Opens a text that was sealed for this place.
    /// - Throws: `AUTH-0505` if it was sealed under another key, or for another place.
    func open(_ sealed: String, at place: String) throws(AuthGatewayError) -> String {
        guard let text = opened(sealed, at: place) else {
            throw AuthGatewayError(
                .secretSealed, "\(place) was sealed under a key that this gateway lacks; check secrets.key")
        }
        return text
    }
}
