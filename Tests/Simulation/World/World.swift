import CRDT
import FaultDisk
import Logging
import Machine
import OperationLog
import Replica
import Replicator
import Sync
import TestSupport

/// What happens at one moment of virtual time.
enum Happening {
    /// An application does something.
    case act(Int)
    /// An application writes one document, which somebody has evicted.
    case write(Int, DocumentKey)
    case connect(Int)
    /// A frame arrives at one end.
    case frame(Link, atServer: Bool)
    /// A store does what its session asked for.
    case perform(Link, atServer: Bool, Action)
    /// A session hears of something: an answer, a commit, a wish of the application.
    case tell(Link, atServer: Bool, Event, isAnswer: Bool)
    /// One end learns that the connection is gone.
    case lost(Link, atServer: Bool)
    case misfortune
    /// A replicator starts.
    case start(Instance)
    /// A replicator writes a snapshot and truncates the log.
    case housekeep(Instance)
    /// The log's writer commits a group.
    case commit(Int)
    /// The caller of an append hears of it.
    case appended(
        CheckedContinuation<[AppendOutcome], any Error>, Result<[AppendOutcome], OperationLogError>, Int)
    /// A read of the log goes on.
    case resume(CheckedContinuation<Void, Never>)
    /// A follower of the log hears of appends.
    case wake(Int, LogChange, Int)
}

/// Peers, replicators and one log in virtual time: chaos from a seed, then healing, then everything must
/// agree.
///
/// The stores, sessions, hubs and the log are the shipped ones. What is simulated is time, the network, the
/// applications and the misfortunes. Everything that is drawn comes from `generator`, in the order of
/// events, so that a seed is a history.
///
/// `@unchecked Sendable`: a simulation has one thread.
final class World: @unchecked Sendable {
    /// An event counts as a step, and so does a job of Swift's concurrency (`Jobs.count`).
    private(set) var events = 0
    var steps: Int { events + Int(Jobs.count) }
    let seed: UInt64
    let profile: Profile
    let folder: String
    var generator: SplitMix64
    /// True time, in Unix milliseconds.
    private(set) var now: UInt64 = 1_700_000_000_000
    /// How far the servers' clock is ahead of true time, in milliseconds.
    var serverSkew: UInt64 = 0
    let beginning: UInt64 = 1_700_000_000_000
    private var queue = EventQueue<Happening>()
    var trace: Trace
    private(set) var failure: Violation?
    var actsLeft: Int
    private(set) var isHealing = false

    private(set) var logStorage: SimulatedLog?
    var instances: [Instance] = []
    var peers: [Peer] = []
    var links: [Int: Link] = [:]
    var nextLink = 0
    var book = WriteBook()
    var reference: Reference
    var restores = 0
    var statistics = Statistics()
    /// Nobody uses an application before.
    var quietUntil: UInt64 = 0
    /// Whether anybody ever lost the right to write `Collections.kept`.
    var haveWritersBeenBarred = false
    /// Documents that somebody has named to a restored log in a state that no log takes.
    var spoilt: Set<DocumentKey> = []
    /// What the log once was: its files, and its entries.
    var logBackup: (folder: String, archive: [LogEntry])?
    /// The log's entries, also those that it has truncated.
    var archive: [LogEntry] = []
    /// Which connections have brought an operation to a server.
    var uploads: [Stamp: Set<Int>] = [:]
    /// What was written under each stamp.
    var stamps: [Stamp: UInt64] = [:]
    /// Checksums of states, by checksums of key and vector.
    var vectors: [UInt64: UInt64] = [:]

    var readings = Readings()

    static let logger = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }

    init(seed: UInt64, options: Options, folder: String, keepsLines: Bool) throws {
        self.seed = seed
        self.folder = folder
        generator = SplitMix64(seed: seed)
        trace = Trace(keepsLines: keepsLines, keepsAll: keepsLines && options.isVerbose)
        profile = Profile(&generator, seed: seed, options)
        actsLeft = profile.acts
        reference = Reference()
        Jobs.reseed(generator.next())
        guard let id = LogID(bytes: generator.bytes(count: LogID.byteCount)) else {
            throw Violation("a log id has 16 bytes")
        }
        try Files.create(folder)
        let logDisk = try disk("log")
        logStorage = try SimulatedLog(world: self, folder: "\(folder)/log", disk: logDisk, id: id)
        for number in 0..<profile.instances {
            let name = "instance-\(number)"
            instances.append(
                Instance(number: number, folder: "\(folder)/\(name)", disk: try disk(name)))
            schedule(.start(instances[number]), in: 0)
            if !profile.faults.isDisjoint(with: [.truncations, .reaping]) {
                let first = profile.reapsSoon ? delay(200, 1_000, slow: 0) : delay(2_000, 5_000, slow: 0)
                schedule(.housekeep(instances[number]), in: first)
            }
        }
        for number in 0..<profile.peers { try addPeer(number) }
        schedule(.misfortune, in: delay(200, 2_000, slow: 0))
    }

    var log: SimulatedLog {
        guard let logStorage else { preconditionFailure("a world has a log") }
        return logStorage
    }

    /// A disk of its own for a machine's folder, which is made for it.
    func disk(_ name: String) throws -> Machine {
        try Files.create("\(folder)/\(name)")
        let seed = generator.next()
        guard profile.faults.contains(.powerCuts) else { return Machine(disk: nil) }
        return Machine(disk: FaultDisk(folder: Files.url("\(folder)/\(name)"), seed: seed))
    }

    // MARK: Time

    func schedule(_ happening: Happening, in milliseconds: UInt64) {
        queue.add(happening, at: now + milliseconds)
    }

    func schedule(_ happening: Happening, at time: UInt64) { queue.add(happening, at: max(now, time)) }

    /// Between two bounds, and now and then up to `slow`.
    func delay(_ low: Int, _ high: Int, slow: Int) -> UInt64 {
        if slow > 0, generator.chance(4) { return UInt64(high + generator.below(slow)) }
        return UInt64(low + generator.below(high - low + 1))
    }

    /// What a peer's clock shows.
    func wall(of peer: Int) -> UInt64 {
        guard peer < peers.count else { return now }
        let drifted = Int64(now - beginning) / 1_000_000 * peers[peer].drift
        return UInt64(max(0, Int64(now) + peers[peer].skew + drifted))
    }

    func environment(of peer: Int) -> Environment {
        Environment(
            wallMilliseconds: { [unowned self] in wall(of: peer) },
            random: { [unowned self] in generator.next() }, pause: { _ in })
    }

    var serverEnvironment: Environment {
        Environment(
            wallMilliseconds: { [unowned self] in now + serverSkew },
            random: { [unowned self] in generator.next() },
            pause: { _ in })
    }

    // MARK: Running

    /// Chaos, healing, checks.
    func run() throws {
        while actsLeft > 0 { try step() }
        isHealing = true
        heal()
        let limit = events + 400_000
        repeat {
            while !queue.isEmpty {
                try step()
                guard events < limit else { throw Violation("no rest after healing") }
            }
            // What a replicator does every few seconds: those that nothing concerned learn where the log is.
            for instance in instances {
                guard let hub = instance.hub else { continue }
                hub.tellProgress()
            }
            Jobs.drain()
        } while !queue.isEmpty
        try checkConvergence()
    }

    private func step() throws {
        guard let next = queue.next() else { throw Violation("nothing happens any more") }
        now = next.time
        events += 1
        trace.note(now)
        try happen(next.happening)
        Jobs.drain()
        if let failure { throw failure }
        for peer in peers where peer.disk.isOff { try bootAgain(peer) }
    }

    /// Remembers what was found where nothing can be thrown.
    func fail(_ violation: Violation) { failure = failure ?? violation }

    func attempt(_ body: () throws -> Void) {
        do {
            try body()
        } catch {
            fail(error as? Violation ?? Violation("\(error)"))
        }
    }

    private func happen(_ happening: Happening) throws {
        switch happening {
        case .act(let peer): try act(peers[peer])
        case .write(let peer, let key): try act(peers[peer], on: key)
        case .connect(let peer): try connect(peers[peer])
        case .frame(let link, let atServer): try arrive(link, atServer)
        case .perform(let link, let atServer, let action): perform(action, link, atServer)
        case .tell(let link, let atServer, let event, let isAnswer):
            if isAnswer { note(7, link, atServer) { "hears of \(event.name)" } }
            tell(event, link, atServer)
        case .lost(let link, let atServer): lose(link, atServer)
        case .misfortune: try misfortune()
        case .start(let instance): start(instance)
        case .housekeep(let instance): housekeep(instance)
        case .commit(let lifetime):
            note(1) { "log commits" }
            try log.commitGroup(lifetime)
        case .appended(let continuation, let result, let lifetime):
            log.answer(continuation, result, lifetime)
        case .resume(let continuation): continuation.resume()
        case .wake(let follower, let change, let lifetime): log.wake(follower, change, lifetime)
        }
    }

    /// Lets go of everything, also of what still waits.
    func end() {
        isHealing = true
        attempt { try log.end() }
        for link in links.values { for task in link.tasks { task.cancel() } }
        for instance in instances {
            guard let hub = instance.hub else { continue }
            Task { await hub.close() }
        }
        repeat {
            Jobs.drain()
            while let next = queue.next() {
                switch next.happening {
                case .resume(let continuation): continuation.resume()
                case .appended(let continuation, let result, let lifetime):
                    log.answer(continuation, result, lifetime)
                default: break
                }
            }
            Jobs.drain()
        } while !queue.isEmpty
        for peer in peers {
            try? peer.replica.close()
            peer.link = nil
        }
        links = [:]
    }

    // MARK: The trace

    func note(_ code: UInt64, _ text: () -> String) {
        trace.note(code)
        trace.say(events, now - beginning, text)
    }

    func note(_ code: UInt64, _ link: Link, _ atServer: Bool, _ text: () -> String) {
        trace.note(code << 32 | UInt64(link.number) << 1 | (atServer ? 1 : 0))
        trace.say(events, now - beginning) {
            "link \(link.number) (peer \(link.peer.number), replicator \(link.instance.number)) "
                + (atServer ? "server " : "peer ") + text()
        }
    }
}

/// What a run did, to see that it did something.
struct Statistics {
    var writes = 0
    var frames = 0
    var sessions = 0
    var repairs = 0
    var refusals = 0
    var reconciles = 0
    var evictions = 0
    var rollBacks = 0
    var restarts = 0
    var cuts = 0
    var clones = 0
    var truncations = 0
    var reaped = 0
    var absences = 0
    var grants = 0
    var photos = 0
    var endings: [String: Int] = [:]
}
