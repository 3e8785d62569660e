import CRDT
import FaultDisk
import Foundation
import GRDB
import TestSupport
import Testing

@testable import Replica

/// Every way through a store with its first call failing, then its second, and so on until it passes
/// untouched: what it throws, that the store goes on, and what the file holds after a cut right then.
@Suite("A store: every call fails once")
struct StoreFailureSweepTests {
    enum Way: CaseIterable, Sendable {
        case create, open, recover, insert, insertLarge, several, receive, stage, publish, evict, repair
        case acknowledge, read, checkpoint, close, fold
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let way: Way
        let fault: FaultDisk.Fault
        let persists: Bool
        /// The store writes once more before the cut.
        let goesOn: Bool
        /// The store is opened again before the cut, and what it shows then has to stay.
        let reopens: Bool
        var testDescription: String {
            let rest = goesOn ? ", then another write" : reopens ? ", then opened again" : ""
            return "\(way), \(fault)\(persists ? ", for good" : "")\(rest)"
        }
        var isPlain: Bool { !persists && !goesOn && !reopens }
        var isPeer: Bool { way != .fold }

        /// Opens what the way is taken with.
        func open(_ folder: URL, _ environment: TestEnvironment = TestEnvironment()) throws -> any Replica {
            isPeer ? try ReplicaTests.open(folder, environment) : try openFold(folder, environment)
        }
        var isOpening: Bool { [.create, .open, .recover, .close].contains(way) }
    }

    static let cases = Way.allCases.flatMap { way in
        FaultDisk.Fault.allCases.flatMap { fault in
            [(false, false, false), (true, false, false), (false, true, false), (false, false, true)].map {
                Case(way: way, fault: fault, persists: $0.0, goesOn: $0.1, reopens: $0.2)
            }
        }
    }.enumerated().filter { FaultRun.takes($0.offset, isPlain: $0.element.isPlain) }.map(\.element)

    @Test("a failing call is a typed error, nothing is half, and what returned stays", arguments: cases)
    func sweep(_ sweep: Case) throws {
        try withTemporaryDirectory { folder in
            let original = folder.appendingPathComponent("original")
            try prepare(original, sweep)
            // What the store may hold: nothing of it, what a commit in between leaves, all of it; and each
            // with what is written then.
            var allowed: [StoreDump] = []
            for stop in 0...Self.stops {
                let place = folder.appendingPathComponent("reference-\(stop)")
                try Self.copy(original, to: place)
                let store = try sweep.open(place, TestEnvironment(seed: 3))
                if !sweep.isOpening, stop > 0 {
                    var commits = 0
                    do {
                        try sweep.take(store) {
                            commits += 1
                            if commits == stop { throw Stopped() }
                        }
                    } catch is Stopped {}
                }
                allowed.append(try StoreDump(store))
                if sweep.goesOn, !sweep.isOpening { try sweep.takeMore(store) }
                allowed.append(try StoreDump(store))
                try store.close()
            }
            var call = 1
            while try passes(sweep, original, call, allowed) == false {
                call = FaultRun.call(after: call)
                try #require(call < 100_000)
            }
        }
    }

    /// More than the commits that the longest way has.
    private static let stops = 4
    private struct Stopped: Error {}

    private func prepare(_ folder: URL, _ sweep: Case) throws {
        let place = sweep.way == .recover ? folder.appendingPathComponent("open") : folder
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        guard sweep.way != .create else { return }
        let store = try sweep.open(place)
        if sweep.isPeer {
            for id in 1...3 as ClosedRange<Int64> { try store.perform(.insert(id, size: 300)) }
            try store.perform(.stage(2, time: 50))
        } else {
            try store.foldMore(through: 3)
        }
        if sweep.way == .recover {
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(
                    at: place.appendingPathComponent(DocumentStore.fileName + suffix),
                    to: folder.appendingPathComponent(DocumentStore.fileName + suffix))
            }
        }
        try store.close()
    }

    static func log(_ count: UInt64) throws -> TestLog {
        var log = TestLog()
        var load = StoreLoad(seed: 8)
        while log.head.offset.rawValue < count { log.append(try load.operation(after: log.head.offset)) }
        return log
    }

    private static func copy(_ source: URL, to destination: URL) throws {
        try FileManager.default.createDirectory(at: destination, withIntermediateDirectories: true)
        for name in [DocumentStore.fileName, DocumentStore.fileName + "-wal"] {
            let file = source.appendingPathComponent(name)
            guard FileManager.default.fileExists(atPath: file.path) else { continue }
            try FileManager.default.copyItem(at: file, to: destination.appendingPathComponent(name))
        }
    }

    /// Takes the way once with the n-th call failing.
    /// - Returns: whether nothing failed any more.
    private func passes(_ sweep: Case, _ original: URL, _ call: Int, _ allowed: [StoreDump]) throws -> Bool {
        try withFaultDisk(seed: UInt64(call)) { disk, folder in
            let note = Comment(rawValue: "\(sweep.testDescription), call \(call)")
            try Self.copy(original, to: folder)
            let environment = TestEnvironment(seed: 3)
            let faults: UInt64
            var last: StoreDump?
            if sweep.isOpening, sweep.way != .close {
                disk.fail(sweep.fault, atCall: call, persistently: sweep.persists)
                let failure = code { try sweep.open(folder, environment).close() }
                #expect([nil, .directoryUnusable, .storageFailed].contains(failure), note)
                faults = disk.counts.faults
            } else {
                let store = try sweep.open(folder, environment)
                disk.fail(sweep.fault, atCall: call, persistently: sweep.persists)
                let failure = code { try sweep.take(store) {} }
                faults = disk.counts.faults
                disk.heal()
                if sweep.way != .close {
                    #expect([nil, .storageFailed].contains(failure), note)
                    // The store shows all or nothing of it, and goes on.
                    #expect(allowed.contains(try StoreDump(store)), note)
                    if sweep.goesOn { try sweep.takeMore(store) }
                    last = failure == nil || sweep.goesOn ? try StoreDump(store) : nil
                    try store.close()
                }
            }
            disk.heal()
            if sweep.reopens {
                let again = try sweep.open(folder, TestEnvironment(seed: 3))
                last = try StoreDump(again)
                try again.close()
            }
            disk.restart()
            let survivor = try sweep.open(folder, TestEnvironment(seed: 3))
            let found = try StoreDump(survivor)
            #expect(allowed.contains(found), note)
            if let last, sweep.isPeer { #expect(found == last, note) }
            let check = try survivor.store.pool.read {
                try String.fetchOne($0, sql: "PRAGMA integrity_check")
            }
            #expect(check == "ok", note)
            try survivor.close()
            return faults == 0
        }
    }
}

extension StoreFailureSweepTests.Case {
    /// `afterCommit` is called between those of its commits that a failure may separate.
    func take(_ store: any Replica, _ afterCommit: () throws -> Void) throws {
        switch way {
        case .create, .open, .recover: break
        case .insert: try store.perform(.insert(7, size: 200))
        case .insertLarge: try store.perform(.insert(7, size: 2_500_000))
        case .several: try store.perform(.several(5))
        case .receive: try store.perform(.receive(2, time: 60))
        case .stage: try store.perform(.stage(5, time: 60))
        case .publish: try store.perform(.publish)
        case .evict: try store.perform(.evict(2))
        case .repair: try store.perform(.repair, afterCommit: afterCommit)
        case .acknowledge: try store.perform(.acknowledge)
        case .read: _ = try store.rows("SELECT * FROM c")
        case .checkpoint: try store.perform(.checkpoint(truncates: true))
        case .close: try store.close()
        case .fold: try store.foldMore(through: 6)
        }
    }

    func takeMore(_ store: any Replica) throws {
        guard isPeer else { return try store.foldMore(through: 7) }
        try store.perform(.insert(9, size: 100))
    }
}

extension Replica {
    /// Performs a step of a peer's load.
    fileprivate func perform(_ step: StoreLoad.Step, afterCommit: () throws -> Void = {}) throws {
        guard let peer = self as? PeerReplica else { preconditionFailure("only a peer's store writes") }
        try peer.perform(step, log: TestLog(), afterCommit: afterCommit)
    }

    /// Folds the log from the checkpoint to an offset.
    fileprivate func foldMore(through offset: UInt64) throws {
        guard let fold = self as? Materialization else { preconditionFailure("a peer's store folds nothing") }
        _ = try fold.fold(try StoreFailureSweepTests.log(offset).items(after: fold.foldedThrough))
    }
}
