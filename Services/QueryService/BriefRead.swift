import CRDT
import DQL
import Identity
import Machine
import NIOCore
import ServiceKit
import Synchronization

/// Answers statements that read few documents where they arrive, on the event loop of their connection.
///
/// An answer is given if everything it needs is at hand: the identity of the credential, the statement, the
/// log's head and a projection that stands exactly there, so that it sees every operation that was in the
/// log. Its work is bounded by a budget of steps, documents and bytes. Everything else is nil, and takes the
/// way of all requests from the beginning: errors, writes, statements that go on.
///
/// - A text that spent its budget goes that way at once for a while, by credential (`OverrunTexts`).
/// - While the disk is read for documents, all do: a loop that waits for a disk holds its connections
///   (`DiskRest`).
/// - Time is charged to the credential, and its running statements count (`EvaluationPool.briefly`).
struct BriefRead: Sendable {
    let authenticator: Authenticator
    let projections: OpenDatabases<Projection>
    let statements: PreparedStatements
    let pool: EvaluationPool
    let slow: SlowStatementLog
    let bounds: QueryServicePart.Bounds
    private let overrun = OverrunTexts()
    private let rest = DiskRest()

    init(
        _ authenticator: Authenticator, _ projections: OpenDatabases<Projection>,
        _ statements: PreparedStatements, _ pool: EvaluationPool, _ slow: SlowStatementLog,
        _ bounds: QueryServicePart.Bounds
    ) {
        (self.authenticator, self.projections, self.statements) = (authenticator, projections, statements)
        (self.pool, self.slow, self.bounds) = (pool, slow, bounds)
    }

    /// The way to answer requests of a credential; nil where its identity cannot be told at once.
    func route(_ authorization: String, _ host: String?, isStrict: Bool) -> BriefAnswer? {
        guard !rest.isOn,
            let identity = authenticator.identityNow(authorization: authorization, host: host),
            let projection = projections[identity.databaseID], projection.store.readsAtOnce
        else { return nil }
        return { answer($0, atMost: $1, identity, projection, isStrict: isStrict) }
    }

    /// The bytes of the answer; nil for a request that must go the other way.
    private func answer(
        _ body: ByteBuffer, atMost most: Int, _ identity: Identity, _ projection: Projection, isStrict: Bool
    ) -> [UInt8]? {
        guard !Self.isWrite(body), let parsed = try? ExecuteRequest(brief: body),
            parsed.transaction == nil, parsed.asOf == nil,
            let statement = statements.known(parsed.statement), statement.readsFew,
            identity.rights.coversWhole(statement)
        else { return nil }
        let credential = identity.credential
        guard !overrun.contains(parsed.statement, credential) else { return nil }
        let begin = ContinuousClock.now
        let outcome = pool.briefly(of: credential, in: identity.databaseID) {
            read(statement, parsed.arguments, of: projection, isStrict: isStrict)
        }
        defer { rest.note(ContinuousClock.now - begin) }
        guard let outcome else { return nil }
        let bytes = outcome.answer?.bytes
        guard let answer = outcome.answer, let bytes, bytes.count <= most else {
            if outcome.isOverrun || bytes != nil { overrun.note(parsed.statement, credential) }
            return nil
        }
        measure(answer.items.count, parsed.statement, identity, since: begin)
        return bytes
    }

    /// An answer, or the reason why there is none.
    private struct Outcome {
        var answer: ExecuteAnswer?
        var isOverrun = false
    }

    private func read(
        _ statement: PreparedStatement, _ arguments: ObjectValue, of projection: Projection, isStrict: Bool
    ) -> Outcome {
        do {
            return Outcome(answer: try projection.readNow(statement, arguments, isStrict: isStrict))
        } catch let error as DQLError {
            return Outcome(isOverrun: error.code == .timeout)
        } catch {
            // It is worded and counted where it is met again.
            return Outcome()
        }
    }

    private func measure(
        _ rows: Int, _ text: String, _ identity: Identity, since begin: ContinuousClock.Instant
    ) {
        let elapsed = ContinuousClock.now - begin
        slow.note(elapsed, text, rows: rows, of: identity)
        Measured.time("mimeo_query_duration_seconds", [("kind", StatementKind.select.rawValue)], elapsed)
        Measured.count("mimeo_query_rows_total", by: Int64(rows))
    }

    /// Returns whether a body plainly has a statement that is no SELECT: parsing a large one here, and again
    /// where it is executed, would be for nothing.
    private static func isWrite(_ body: ByteBuffer) -> Bool {
        let name = Array("\"statement\"".utf8)
        var view = body.readableBytesView[...]
        func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }
        guard view.first == UInt8(ascii: "{") else { return false }
        view = view.dropFirst().drop(while: isSpace)
        guard view.starts(with: name) else { return false }
        view = view.dropFirst(name.count).drop { isSpace($0) || $0 == UInt8(ascii: ":") }
        guard view.first == UInt8(ascii: "\"") else { return false }
        view = view.dropFirst().drop(while: isSpace)
        return view.first.map { $0 | 0x20 != UInt8(ascii: "s") && $0 != UInt8(ascii: "\\") } ?? false
    }
}

/// The texts that spent their budget of late, by credential. The lock guards the table.
final class OverrunTexts: Sendable {
    private let known = Mutex<[Int: ContinuousClock.Instant]>([:])

    /// Returns whether a text goes another way at once.
    func contains(_ text: String, _ credential: String) -> Bool {
        known.withLock { known in
            guard !known.isEmpty, let end = known[Self.key(text, credential)] else { return false }
            return ContinuousClock.now < end
        }
    }

    /// Notes a text.
    func note(_ text: String, _ credential: String) {
        known.withLock { known in
            let now = ContinuousClock.now
            if known.count >= Limits.overrunTexts { known = known.filter { now < $0.value } }
            if known.count >= Limits.overrunTexts { known.removeAll() }
            known[Self.key(text, credential)] = now + Limits.overrunTime
        }
    }

    /// Two texts with one key both go the other way, which gives the same answers.
    private static func key(_ text: String, _ credential: String) -> Int {
        var hasher = Hasher()
        hasher.combine(text)
        hasher.combine(credential)
        return hasher.finalize()
    }
}

/// Notices when answers wait for the disk.
///
/// A slow answer alone tells nothing: on a busy machine others had the processor. So a thread is asked
/// whether it has read the disk since its last slow answer. The lock guards the counts.
final class DiskRest: Sendable {
    private struct State {
        var end: ContinuousClock.Instant?
        /// The reads of each thread, by its identity.
        var reads: [UInt: Int] = [:]
    }

    private let state = Mutex(State())
    private let isResting = Atomic<Bool>(false)

    /// True while answers go the other way.
    var isOn: Bool {
        guard isResting.load(ordering: .relaxed) else { return false }
        return state.withLock { state in
            guard let end = state.end, ContinuousClock.now < end else {
                isResting.store(false, ordering: .relaxed)
                return false
            }
            return true
        }
    }

    /// Notes how long an answer took.
    func note(_ elapsed: Duration, reads: () -> (thread: UInt, count: Int) = WorkerThread.diskReads) {
        guard elapsed > Limits.briefPatience else { return }
        let (thread, count) = reads()
        state.withLock { state in
            if state.reads.count >= Limits.restingThreads { state.reads.removeAll() }
            guard count > state.reads.updateValue(count, forKey: thread) ?? 0 else { return }
            state.end = .now + Limits.diskRest
            isResting.store(true, ordering: .relaxed)
        }
    }
}
