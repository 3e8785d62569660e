import CRDT
import DittoSwift
import Foundation
import Logging
import ServiceKit
import Synchronization

/// The rounds of a canary: a write of this peer, its sight over HTTP, and the way back.
///
/// One round runs at a time. `state` guards what other threads read meanwhile.
final class CanaryRounds: Sendable {
    /// The login of the canary, as a peer and over HTTP.
    struct Login: Sendable {
        var origin: String
        var databaseID: String
        var provider: String
        var token: String
    }

    /// The part of a round that is waited for; the raw value is a label.
    enum Stage: String, CaseIterable, Sendable {
        /// The login over HTTP.
        case login
        /// The peer's write, until the server shows it.
        case sync
        /// The write over HTTP.
        case write
        /// The same, until the peer has it.
        case echo
    }

    private struct State {
        var round: Int64 = 0
        var stage = Stage.login
        /// The beginning of the round that runs; nil between two.
        var began: ContinuousClock.Instant?
        var last = Duration.zero
        var failure = ""
    }

    private static let collection = "mimeo_canary"
    private let ditto: Ditto
    private let login: Login
    private let patience: Duration
    private let logger: Logger
    /// One document for each machine that has a canary.
    private let id = ProcessInfo.processInfo.hostName
    /// Tells the values of this process from those of an earlier one.
    private let run = Int64(Date().timeIntervalSince1970 * 1_000)
    private let state = Mutex(State())

    /// Starts to sync the document of this machine.
    init(ditto: Ditto, login: Login, patience: Duration, logger: Logger) throws {
        (self.ditto, self.login) = (ditto, login)
        (self.patience, self.logger) = (patience, logger)
        ditto.deviceName = "canary"
        ditto.auth?.expirationHandler = { ditto, _ in
            // A refused login shows as a round that fails.
            _ = try? await ditto.auth?.login(
                token: login.token, provider: DittoAuthenticationProvider(stringLiteral: login.provider))
        }
        try ditto.sync.registerSubscription(
            query: "SELECT * FROM \(Self.collection) WHERE _id = :id", arguments: ["id": id])
        try ditto.sync.start()
        for stage in Stage.allCases { Self.count(stage, by: 0) }
    }

    /// The reason of the last round's failure; empty after one that went well.
    var lastFailure: String { state.withLock { $0.failure } }

    /// Stops to sync, and closes the store.
    func close() async { await ditto.close() }

    /// Sets the time of the last round, or of the one that runs if that has already taken longer.
    func measure() {
        let time = state.withLock { state in
            max(state.last, state.began.map { ContinuousClock.now - $0 } ?? .zero)
        }
        Measured.set("mimeo_canary_seconds", time / .seconds(1))
    }

    /// Runs one round.
    /// - Returns: the time that it took; nil if it failed.
    func once() async -> Duration? {
        let began = ContinuousClock.now
        let value = state.withLock { state in
            state.round += 1
            (state.began, state.stage) = (began, .login)
            return "\(run)-\(state.round)"
        }
        var failure = ""
        do {
            try await limited { try await self.walk(value) }
        } catch {
            let stage = state.withLock { $0.stage }
            failure = "\(stage.rawValue): \(error)"
            Self.count(stage, by: 1)
        }
        let time = ContinuousClock.now - began
        let before = state.withLock { state in
            defer { state.failure = failure }
            // A failed round counts as one that took all the patience there was.
            state.last = failure.isEmpty ? time : max(time, patience)
            state.began = nil
            return state.failure
        }
        // One line for an outage, not one for each round.
        if !failure.isEmpty, before.isEmpty {
            logger.warning("a round failed", metadata: ["reason": "\(failure)"])
        } else if failure.isEmpty, !before.isEmpty {
            logger.info("a round went well again")
        }
        return failure.isEmpty ? time : nil
    }

    private func walk(_ value: String) async throws {
        // Each round logs in, or a gateway that is gone would show when the token ends.
        let runner = try await RemoteRunner(
            origin: login.origin, databaseID: login.databaseID, provider: login.provider, token: login.token)
        enter(.sync)
        _ = try await ditto.store.run(
            "INSERT INTO \(Self.collection) DOCUMENTS (:document) ON ID CONFLICT DO UPDATE",
            arguments: ObjectValue(unique: [
                (key: "document", value: ["_id": .string(id), "out": .string(value)])
            ]))
        try await see(value, in: "out") { try await runner.run($0, arguments: $1) }
        enter(.write)
        _ = try await Self.items(
            of: runner.run(
                "UPDATE \(Self.collection) SET back = :value WHERE _id = :id",
                arguments: ObjectValue(unique: [
                    (key: "id", value: .string(id)), (key: "value", value: .string(value)),
                ])))
        enter(.echo)
        try await see(value, in: "back") {
            Answer(try await self.ditto.store.run($0, arguments: $1))
        }
    }

    /// Asks until a field of the document is the value.
    private func see(
        _ value: String, in field: String, ask: (String, ObjectValue) async throws -> Answer
    ) async throws {
        let select = "SELECT \(field) FROM \(Self.collection) WHERE _id = :id"
        let arguments = ObjectValue(unique: [(key: "id", value: .string(id))])
        while try await Self.items(of: ask(select, arguments)).first?[field]?.stringValue != value {
            try await Task.sleep(for: Limits.canaryLook)
        }
    }

    private static func items(of answer: Answer) throws(MimeoError) -> [Value] {
        switch answer {
        case .result(let result): return result.items
        case .failure(let problem):
            throw MimeoError(.serverUnreachable, "\(problem.code): \(problem.message)")
        }
    }

    private func enter(_ stage: Stage) { state.withLock { $0.stage = stage } }

    /// Runs the body, and cancels it when the patience ends.
    private func limited(_ body: @escaping @Sendable () async throws -> Void) async throws {
        let patience = patience
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask(operation: body)
            tasks.addTask {
                try await Task.sleep(for: patience)
                throw MimeoError(.waitTimedOut, "not within \(patience.components.seconds) s")
            }
            defer { tasks.cancelAll() }
            try await tasks.next()
        }
    }

    private static func count(_ stage: Stage, by amount: Int64) {
        Measured.count("mimeo_canary_failures_total", [("stage", stage.rawValue)], by: amount)
    }
}
