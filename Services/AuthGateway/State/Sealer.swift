import Foundation
import Logging
import ServiceKit
import Synchronization

/// Seals and opens the secrets of the system database, and seals them anew when the key is changed
/// (decision 0028).
///
/// The keys are read from their files when something does not open, and when something is sealed, within the
/// write that it is for: what comes in between, a resealing too, makes the write run again. Another gateway
/// of the same files may have changed them. `known` guards what was read last.
final class Sealer: Sendable {
    private let system: SystemDatabase
    private let key: SealingKey
    private let logger: Logger
    /// Nil before the start, when the keys have not been tried on what is sealed.
    private let known = Mutex<SecretBox?>(nil)

    init(system: SystemDatabase, key: SealingKey, logger: Logger) {
        self.system = system
        self.key = key
        self.logger = logger
    }

    /// What a record's secret is bound to.
    static func place(_ id: String) -> String { "mimeo:\(id)" }

    /// Begins to seal and open with the keys of the files, if they open all that is sealed; nothing is
    /// written before. What is sealed under an earlier key is sealed anew.
    /// - Throws: `AUTH-0501`, `AUTH-0504`, `AUTH-0505`; what the log throws.
    func begin() async throws {
        let all = Self.sealed(system.directory)
        guard all.isEmpty || key.exists else {
            throw AuthGatewayError(
                .secretSealed,
                "the log holds secrets, and the key they are sealed under is not in \(key.path)")
        }
        let box = try key.box(logger: logger)
        for item in all { _ = try box.open(item.text, at: Self.place(item.id)) }
        known.withLock { $0 = box }
        _ = try await sealAnew()
    }

    /// The keys of this moment, to seal with.
    /// - Throws: `AUTH-0501`, `AUTH-0504`.
    func box() throws(AuthGatewayError) -> SecretBox {
        let box = try key.box(logger: logger)
        known.withLock { $0 = box }
        return box
    }

    /// Opens with the keys that are known, or else with those of this moment.
    /// - Throws: `AUTH-0505`, and as `box`.
    func open(_ sealed: String, at place: String) throws(AuthGatewayError) -> String {
        guard let box = known.withLock({ $0 }) else {
            preconditionFailure("a gateway opens secrets after its start")
        }
        do {
            return try box.open(sealed, at: place)
        } catch {
            return try self.box().open(sealed, at: place)
        }
    }

    /// Whether the key is being changed, and how many records are not sealed under the newest one.
    func status() throws(AuthGatewayError) -> (isChanging: Bool, outdated: Int) {
        (key.isChanging, outdated(try box()).count)
    }

    /// Makes a new key and seals everything under it. The one before still opens, here and in other gateways
    /// of these files, until `removePrevious`.
    /// - Returns: how many records were sealed anew.
    /// - Throws: `AUTH-0412`, `AUTH-0501`; what the log throws.
    func change() async throws -> Int {
        let lock = try key.lock()
        defer { withExtendedLifetime(lock) {} }
        try key.replace(logger: logger)
        _ = try box()
        return try await sealAnew()
    }

    /// Forgets the previous key.
    /// - Throws: `AUTH-0411` where there is none, `AUTH-0412` while something is sealed under it.
    func removePrevious() async throws {
        let lock = try key.lock()
        defer { withExtendedLifetime(lock) {} }
        guard key.isChanging else {
            throw AuthGatewayError(.recordUnknown, "there is no previous key")
        }
        try await system.refresh()
        _ = try await sealAnew()
        guard outdated(try box()).isEmpty else {
            throw AuthGatewayError(.notPossible, "something is still sealed under the previous key")
        }
        try key.removePrevious()
        _ = try box()
    }

    // MARK: What is sealed

    private struct Sealed: Sendable {
        let id: String
        let text: String
        /// Puts it into its record otherwise sealed, as the record stands in the log then.
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
        return found
    }

    /// What is not sealed under the key that seals now.
    private func outdated(_ box: SecretBox) -> [Sealed] {
        Self.sealed(system.directory).filter { !box.isCurrent($0.text, at: Self.place($0.id)) }
    }

    /// Some records at a time, in one operation each: what a crash leaves is sealed anew by the next start.
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
