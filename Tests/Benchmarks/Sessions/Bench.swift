import CRDT
import DQL
import Exchange
import Foundation
import Identity
import Logging
import OperationLog
import Replica
import Replicator
import Sync
import Transport

/// The three directions, each beside two bulk inserts.
struct Bench {
    let run: Run
    let rounds: Int
    let count: Int
    let only: String?
    let samples: Samples
    let texts: MadeTexts

    init(folder: URL) throws {
        var logger = Logger(label: "bench")
        logger.logLevel = .error
        run = Run(logger: logger, folder: folder)
        rounds = option("--rounds").flatMap { Int($0) } ?? 3
        count = option("--documents").flatMap { Int($0) } ?? 100_000
        only = option("--only")
        samples = try Samples(count)
        texts = try MadeTexts(count, folder: folder)
    }

    private func isMeant(_ name: String) -> Bool { only == nil || only == name }

    /// Rounds of both loops and of one direction, one after the other; medians.
    private func compare(
        _ name: String, _ rows: [(id: [UInt8], bytes: [UInt8])], _ measure: (Int) async throws -> Duration
    ) async throws {
        var rates: (bare: [Double], made: [Double], session: [Double]) = ([], [], [])
        for number in 0..<rounds {
            let path = run.folder.appendingPathComponent("bare-\(name)-\(number).sqlite").path
            rates.bare.append(bareRate(path, rows, pageBytes: Sync.Limits.batchBytes))
            rates.made.append(try texts.rate())
            rates.session.append(Double(count) / (try await measure(number) / .seconds(1)))
        }
        let size = rows.reduce(0) { $0 + $1.bytes.count } / count
        func beside(_ reference: [Double]) -> String {
            "\(text(median(reference)))/s: " + text(median(zip(rates.session, reference).map { $0 / $1 }), 2)
        }
        print(
            "\(name), \(count) of \(size) bytes: session \(text(median(rates.session)))/s; bulk insert that "
                + "makes each text \(beside(rates.made)) x (goal 0.6); bytes that are ready, from C "
                + "\(beside(rates.bare)) x")
    }

    private func log(_ name: String) async throws -> SQLiteOperationLog {
        let path = run.folder.appendingPathComponent("\(name).sqlite").path
        let log = try SQLiteOperationLog(path: path, logger: run.logger)
        try await log.createDatabase(database)
        return log
    }

    private func hub(_ log: SQLiteOperationLog, _ name: String) async throws -> DatabaseHub {
        try await DatabaseHub.open(
            database, log: log, folder: run.folder.appendingPathComponent("\(name)-fold").path,
            logger: run.logger, environment: run.environment())
    }

    private func store(_ hub: DatabaseHub, _ log: SQLiteOperationLog) async throws -> ServerStore {
        guard let session = await hub.enter() else { fatalError("a hub takes sessions") }
        return ServerStore(
            hub: hub, log: log, database: database, session: session,
            identity: Identity(
                userID: "u", databaseID: database, peerKey: "peer", grant: .everything, expiresAtSeconds: .max
            ))
    }

    /// A new peer gets everything that the server has: pages of current states, staged, visible at the end.
    func catchUp() async throws {
        guard isMeant("catch-up") else { return }
        let log = try await log("full")
        try await samples.append(to: log, database)
        let hub = try await hub(log, "full")
        try await compare("catch-up", samples.states) { number in
            let replica = try run.replica("catch-up-\(number)")
            let store = try await store(hub, log)
            let duration = try await run.converse(replica, with: store, origin: store.session) {
                if case .report(.subscriptionIsLive) = $0 { true } else { false }
            }
            await hub.leave(store.session)
            try replica.close()
            return duration
        }
        await hub.close()
        await log.close()
    }

    /// A peer that is up to date gets operations as they are folded.
    func live() async throws {
        guard isMeant("live") else { return }
        guard let logID = LogID(bytes: [UInt8](repeating: 7, count: LogID.byteCount)) else {
            fatalError("16 bytes")
        }
        let operations = zip(samples.operations, samples.states).enumerated().map { place, pair in
            let (operation, state) = pair
            return FoldedOperation(
                position: LogPosition(
                    logID: logID, offset: Offset(UInt64(place + 1)), hash: UInt64(place + 1)),
                stamp: operation.stamp, origin: nil,
                changes: operation.changes.map {
                    FoldedOperation.Change(
                        key: DocumentKey(collection: $0.collection, id: $0.id), delta: $0.delta, before: nil,
                        after: EncodedState(state.bytes))
                })
        }
        let start = LogPosition(logID: logID, offset: 0, hash: 0)
        let last = Offset(UInt64(count))
        try await compare("live", samples.states) { number in
            let feed = LiveFeed(start: start, operations: operations)
            let replica = try run.replica("live-\(number)")
            // Before the feed begins there is nothing but the greetings.
            let duration = try await run.converse(replica, with: feed, origin: 1) {
                if case .report(.subscriptionIsLive) = $0 { feed.open() }
                guard case .store(let batch) = $0 else { return false }
                return batch.streamed == last
            }
            try replica.close()
            return duration
        }
    }

    /// A peer sends what it has written while it was away: judged, durable in the log, acknowledged.
    func upload() async throws {
        guard isMeant("upload") else { return }
        let rows = zip(samples.states, samples.bytes).map { (id: $0.id, bytes: $1) }
        try await compare("upload", rows) { number in
            let replica = try run.replica("upload-\(number)")
            for place in 0..<count {
                _ = try replica.write { transaction in
                    try transaction.edit("orders", Samples.id(place)) { editor in
                        editor.create()
                        for (key, value) in Samples.fields(place).entries { try editor.set([key], value) }
                    }
                }
            }
            let log = try await log("upload-\(number)-log")
            let hub = try await hub(log, "upload-\(number)")
            let store = try await store(hub, log)
            let last = SequenceNumber(UInt64(count))
            let duration = try await run.converse(
                replica, with: store, origin: store.session
            ) {
                switch $0 {
                case .acknowledge(_, let through, _): through == last
                case .store(let batch): batch.acknowledges.contains { $0.through == last }
                default: false
                }
            }
            await hub.leave(store.session)
            await hub.close()
            await log.close()
            try replica.close()
            return duration
        }
    }
}

func option(_ name: String) -> String? {
    guard let place = CommandLine.arguments.firstIndex(of: name) else { return nil }
    return CommandLine.arguments.dropFirst(place + 1).first
}

func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

func text(_ number: Double, _ digits: Int = 0) -> String { String(format: "%.\(digits)f", number) }
