import CRDT
import Crypto
import Foundation
import Identity
import ServiceKit
import Synchronization

/// Devices that join with a code, after RFC 8628.
///
/// A device asks for two codes: a long secret one, with which it asks again and again, and a short one that
/// it shows. A person who is signed in names the short one, sees the device, and approves it with a name and
/// permissions. With its next question the device gets an API key of its own, once.
///
/// The codes are in the system database, so any gateway on the log may answer. They are bounded, and nobody
/// keeps others out by asking for many: where there is no room for another device, one that nobody has
/// answered goes (`surplus`). Only the times of questions are in memory; the locks guard them.
final class Joins: Sendable {
    private struct Asking {
        var last: Int64
        var interval: Int64
    }

    private let state: GatewayState
    private let nowSeconds: @Sendable () -> Int64
    private let asking = Mutex<[String: Asking]>([:])
    /// The codes that each network asked for in this minute.
    private let begun = Mutex<[String: (sinceSeconds: Int64, count: Int)]>([:])

    init(state: GatewayState, nowSeconds: @escaping @Sendable () -> Int64) {
        (self.state, self.nowSeconds) = (state, nowSeconds)
    }

    /// Letters of a short code: no vowels, so that it is no word, and none that look alike (RFC 8628, 6.1).
    static let letters = Array("BCDFGHJKLMNPQRSTVWXZ")

    /// A code as a person types it, in its one form; nil for a text that is none.
    static func code(_ text: String) -> String? {
        guard text.utf8.count <= 64 else { return nil }
        let plain = text.uppercased().filter { !" -–_".contains($0) }
        guard plain.count == 8, plain.allSatisfy(letters.contains) else { return nil }
        return "\(plain.prefix(4))-\(plain.suffix(4))"
    }

    /// Begins to join.
    /// - Throws: `AUTH-0402`, `AUTH-0410` if too many devices of this network wait for an answer, or ask.
    func begin(
        in database: DatabaseID, name: String, peerKey: String?, from address: String
    ) async throws -> (record: JoinRecord, deviceCode: String) {
        guard state.system.directory.database(database) != nil else {
            throw AuthGatewayError(.databaseUnknown, "the database does not exist")
        }
        let (key, now) = (APIKey(), nowSeconds())
        var generator = SystemRandomNumberGenerator()
        let letters = (0..<8).map { _ in Self.letters.randomElement(using: &generator) ?? "B" }
        let code = "\(String(letters[..<4]))-\(String(letters[4...]))"
        let record = JoinRecord(
            id: "\(database)/\(code)", database: database, secretHash: key.secretHash, name: name,
            peerKey: peerKey, address: address, createdAtSeconds: now,
            expiresAtSeconds: now + Limits.joinSeconds)
        let all = state.system.directory.joins.values
        let over = all.filter { $0.expiresAtSeconds <= now }
        let waiting = all.filter { $0.expiresAtSeconds > now }
        let network = AttemptLimiter.network(of: address)
        let own = waiting.count { AttemptLimiter.network(of: $0.address) == network }
        let surplus = Self.surplus(of: waiting)
        guard own < Limits.joinsOfOneNetwork, waiting.count - surplus.count < Limits.joins,
            mayBegin(network, now)
        else {
            throw AuthGatewayError(
                .tooManyAttempts, "too many devices of this network ask to join; try again in a minute",
                retryAfterSeconds: 60)
        }
        try await state.system.write { writer in
            for old in over.prefix(Limits.recordsPerWrite) { try writer.remove(old.id, JoinRecord.self) }
            for old in surplus where try writer.get(old.id, as: JoinRecord.self)?.answer == nil {
                try writer.remove(old.id, JoinRecord.self)
            }
            guard try writer.get(record.id, as: JoinRecord.self) == nil else {
                throw AuthGatewayError(.exists, "the code is in use; ask again")
            }
            try writer.put(record)
        }
        return (record, "\(database):\(code):\(key.text)")
    }

    /// The devices that make room for another one: of the widest network that asks most, of the network in it
    /// that asks most, the oldest that nobody has answered. So whoever fills the list loses the own ones.
    private static func surplus(of waiting: [JoinRecord]) -> [JoinRecord] {
        var left = waiting.filter { $0.answer == nil }
        var surplus: [JoinRecord] = []
        func largest(_ joins: [JoinRecord], _ key: (JoinRecord) -> String) -> [JoinRecord] {
            Dictionary(grouping: joins, by: key).max {
                ($0.value.count, $0.key) < ($1.value.count, $1.key)
            }?.value ?? []
        }
        while waiting.count - surplus.count >= Limits.joins, !left.isEmpty {
            let wide = largest(left) { AttemptLimiter.wideNetwork(of: $0.address) }
            let network = largest(wide) { AttemptLimiter.network(of: $0.address) }
            guard
                let oldest = network.min(by: {
                    ($0.createdAtSeconds, $0.id) < ($1.createdAtSeconds, $1.id)
                })
            else { break }
            surplus.append(oldest)
            left.removeAll { utf8Equal($0.id, oldest.id) }
        }
        return surplus
    }

    /// Counts a code that a network asks for; false if it has asked for too many within a minute.
    private func mayBegin(_ network: String, _ now: Int64) -> Bool {
        begun.withLock { begun in
            let isOver = { (since: Int64) in abs(now - since) >= 60 }
            if begun.count >= Limits.countedSources {
                begun = begun.filter { !isOver($0.value.sinceSeconds) }
            }
            var own = begun[network] ?? (now, 0)
            if isOver(own.sinceSeconds) { own = (now, 0) }
            guard own.count < Limits.joinsOfOneNetwork else { return false }
            own.count += 1
            if begun[network] != nil || begun.count < Limits.countedSources { begun[network] = own }
            return true
        }
    }

    /// Answers a device that asks whether a person has approved it.
    /// - Throws: `AUTH-0420` to `AUTH-0423`.
    func key(for deviceCode: String) async throws -> (key: APIKey, record: APIKeyRecord) {
        let parts = deviceCode.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 3, let key = APIKey(String(parts[2])) else { throw Self.ended }
        let id = "\(parts[0])/\(parts[1])"
        let isHurried = hurries(key.id)
        guard var join = state.system.directory.joins[id] ?? nil, isOf(join, key) else { throw Self.ended }
        if join.answer == nil {
            // Another gateway may have heard the answer a moment ago.
            try? await state.system.refresh()
            guard let now = state.system.directory.joins[id], isOf(now, key) else { throw Self.ended }
            join = now
        }
        guard let answer = join.answer else {
            if isHurried {
                throw AuthGatewayError(
                    .joinTooFast, "nobody has answered yet; the device asks too often",
                    retryAfterSeconds: interval(key.id))
            }
            throw AuthGatewayError(
                .joinPending, "nobody has answered yet", retryAfterSeconds: interval(key.id))
        }
        let (made, now) = (APIKey(), nowSeconds())
        let end = KeyLogin.accountEnd(of: answer.user, in: join.databaseID, state)
        let record = APIKeyRecord(
            id: made.id, database: join.databaseID, name: answer.name, secretHash: made.secretHash,
            permissions: answer.permissions, createdAtSeconds: now,
            expiresAtSeconds: min(now + Limits.apiKeyLifeSeconds, end),
            device: DeviceFacts(approvedBy: answer.by, user: answer.user, peerKey: join.peerKey))
        try await state.system.write { writer in
            // The second of two questions at once finds the code used.
            guard try writer.get(id, as: JoinRecord.self)?.answer != nil else { throw Self.ended }
            try writer.remove(id, JoinRecord.self)
            if answer.isApproved { try writer.put(record) }
        }
        asking.withLock { _ = $0.removeValue(forKey: key.id) }
        guard answer.isApproved else {
            throw AuthGatewayError(.joinDenied, "a person has denied this device")
        }
        return (made, record)
    }

    /// A device that waits for an answer.
    /// - Throws: `AUTH-0423`.
    func waiting(_ code: String, in database: DatabaseID) throws(AuthGatewayError) -> JoinRecord {
        guard let code = Self.code(code), let join = state.system.directory.joins["\(database)/\(code)"],
            nowSeconds() < join.expiresAtSeconds
        else { throw Self.ended }
        return join
    }

    /// Answers for a device. The first of two answers at once counts.
    /// - Throws: `AUTH-0412` if somebody has answered, `AUTH-0423`.
    func answer(_ code: String, in database: DatabaseID, _ answer: JoinAnswer) async throws {
        let id = try waiting(code, in: database).id
        try await state.system.write { writer in
            guard var join = try writer.get(id, as: JoinRecord.self) else { throw Self.ended }
            guard join.answer == nil else {
                throw AuthGatewayError(.notPossible, "somebody has answered this device already")
            }
            join.answer = answer
            try writer.put(join)
        }
    }

    private func isOf(_ join: JoinRecord, _ key: APIKey) -> Bool {
        ConstantTime.equal(key.secretHash, join.secretHash) && nowSeconds() < join.expiresAtSeconds
    }

    /// Notes a question; returns whether it came too early, which makes the interval longer.
    private func hurries(_ id: String) -> Bool {
        let now = nowSeconds()
        return asking.withLock { asking in
            if asking.count >= 4 * Limits.joins {
                asking = asking.filter { now - $0.value.last < Limits.joinSeconds }
            }
            guard let known = asking[id] else {
                if asking.count < 4 * Limits.joins {
                    asking[id] = Asking(last: now, interval: Limits.joinInterval)
                }
                return false
            }
            let isEarly = now - known.last < known.interval
            asking[id] = Asking(
                last: now, interval: known.interval + (isEarly ? Limits.joinSlowDown : 0))
            return isEarly
        }
    }

    private func interval(_ id: String) -> Int64 {
        asking.withLock { $0[id]?.interval } ?? Limits.joinInterval
    }

    static let ended = AuthGatewayError(
        .joinEnded, "the code was used, has ended, or was never made; the device asks for another one")
}
