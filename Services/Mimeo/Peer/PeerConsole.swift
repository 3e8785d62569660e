import CRDT
import DittoSwift
import Foundation
import Synchronization

/// Answers the input lines of a peer, one at a time. Events of observers and logins come between answers,
/// from other threads, through the same writer.
final class PeerConsole: Sendable {
    let ditto: Ditto
    let output: LineWriter
    private let observers = Mutex<Int64>(0)
    /// The observer of presence, from `.presence observe` on.
    private let presenceObserver = Mutex<DittoObserver?>(nil)
    private let lastLoginFailure = Mutex<String?>(nil)

    init(ditto: Ditto, output: LineWriter) {
        self.ditto = ditto
        self.output = output
    }

    /// Logs in whenever the session needs it. A failure becomes an event, once until its reason changes.
    func logIn(token: String, provider: String) {
        ditto.auth?.expirationHandler = { [weak self] ditto, _ in
            do {
                try await ditto.auth?.login(
                    token: token, provider: DittoAuthenticationProvider(stringLiteral: provider))
                self?.lastLoginFailure.withLock { $0 = nil }
            } catch is CancellationError {
                // Sync was stopped, or the input ended.
            } catch {
                if let failure = ditto.auth?.lastFailure { self?.tell(failure) }
            }
        }
    }

    /// Joins with a code whenever the session needs a login and the device has no credential yet. The code is
    /// an event, and on a terminal a sentence.
    func join(deviceName: String, tellsPerson: Bool) {
        let output = output
        ditto.auth?.expirationHandler = { [weak self] ditto, _ in
            do {
                try await ditto.auth?.join(deviceName) { code in
                    output.write([
                        "event": "join", "code": .string(code.userCode), "url": .string(code.url),
                        "qrText": .string(code.qrText), "expiresIn": .int(Int64(code.expiresIn)),
                    ])
                    guard tellsPerson else { return }
                    LineWriter.standardError.write(
                        text: "To let this device join, open \(code.qrText) and approve \(code.userCode)")
                }
                self?.lastLoginFailure.withLock { $0 = nil }
            } catch is CancellationError {
                // Sync was stopped, or the input ended.
            } catch {
                if let failure = ditto.auth?.lastFailure { self?.tell(failure) }
            }
        }
    }

    /// The JSON object that answers a line.
    func answer(_ line: String) async -> Value {
        let text = line.trimmingCharacters(in: .whitespaces)
        guard text.hasPrefix(".") else { return await statement(text).json }
        do throws(MimeoError) {
            return try await command(text)
        } catch {
            return Answer.failure(Answer.Problem(error)).json
        }
    }

    private func statement(_ text: String) async -> Answer {
        do {
            return Answer(try await ditto.store.run(text, arguments: ObjectValue()))
        } catch {
            return Answer(error)
        }
    }

    private func command(_ text: String) async throws(MimeoError) -> Value {
        let words = text.split(separator: " ", omittingEmptySubsequences: true).map(String.init)
        switch words.first {
        case ".sync" where words.count == 2 && words[1] == "start":
            do {
                try ditto.sync.start()
            } catch {
                throw MimeoError(.dotCommandInvalid, error.localizedDescription)
            }
            return ["sync": "started"]
        case ".sync" where words.count == 2 && words[1] == "stop":
            await ditto.sync.stopAndWait()
            return ["sync": "stopped"]
        case ".wait": return try await wait(words)
        case ".observe" where words.count > 1:
            return observe(String(text.dropFirst(".observe".count)).trimmingCharacters(in: .whitespaces))
        case ".links" where words.count == 1: return links()
        case ".attach" where words.count > 1:
            return try await attach(text.dropFirst(".attach".count).trimmingCharacters(in: .whitespaces))
        case ".fetch": return try fetch(words)
        case ".presence" where words.count == 1: return Self.value(ditto.presence.graph)
        case ".presence" where words.count == 2 && words[1] == "observe": return observePresence()
        case ".presence" where words.count > 2 && words[1] == "metadata":
            return try setMetadata(String(text.drop { $0 != "{" }))
        case ".status" where words.count == 1: return try status()
        default:
            throw MimeoError(
                .dotCommandInvalid,
                "unknown command; use .sync start, .sync stop, .wait N [SECONDS], .observe SELECT, .links,"
                    + " .presence, .presence observe, .presence metadata JSON, .attach FILE,"
                    + " .fetch ID LEN FILE or .status")
        }
    }

    private func wait(_ words: [String]) async throws(MimeoError) -> Value {
        guard words.count == 2 || words.count == 3, let commit = UInt64(words[1]),
            let seconds = words.count == 3 ? Double(words[2]) : Limits.waitSeconds,
            (0...1e9).contains(seconds)
        else { throw MimeoError(.dotCommandInvalid, ".wait takes a commit number and, optionally, seconds") }
        guard await ditto.sync.waitForAcknowledgement(of: commit, timeout: .seconds(seconds)) else {
            if let refusal = ditto.sync.refusal(of: commit) {
                throw MimeoError(.waitTimedOut, "the server refused commit \(commit): \(refusal)")
            }
            throw MimeoError(
                .waitTimedOut, "the server has not acknowledged commit \(commit) within \(seconds) s")
        }
        return ["acknowledged": .int(Int64(clamping: commit))]
    }

    private func observe(_ query: String) -> Value {
        let number = observers.withLock { count in
            count += 1
            return count
        }
        let output = output
        do {
            // Calls may come before the answer is written. Each is an event and names its observer.
            try ditto.store.observe(query) { result in
                output.write([
                    "event": "observe", "observer": .int(number), "query": .string(query),
                    "items": .array(result.items.map(\.row)),
                ])
            }
            return ["observer": .int(number)]
        } catch {
            return Answer(error).json
        }
    }

    private static func value(_ graph: DittoPresenceGraph) -> Value {
        guard let data = try? JSONEncoder().encode(graph),
            let value = try? JSONText.parse(Array(data))
        else { preconditionFailure("a graph is encoded as JSON") }
        return value
    }

    /// Each change of the graph becomes an event, the present one too.
    private func observePresence() -> Value {
        let output = output
        let observer = ditto.presence.observe { graph in
            output.write(["event": "presence", "graph": Self.value(graph)])
        }
        // Only one: a second request ends the first.
        let before = presenceObserver.withLock { kept in
            defer { kept = observer }
            return kept
        }
        before?.stop()
        return ["presence": "observed"]
    }

    private func setMetadata(_ json: String) throws(MimeoError) -> Value {
        do {
            try ditto.presence.setPeerMetadataJSONData(Data(json.utf8))
        } catch {
            throw MimeoError(.dotCommandInvalid, error.localizedDescription)
        }
        return ["metadata": "set"]
    }

    private func links() -> Value {
        let report = ditto.sync.linkReport
        return [
            "links": .array(
                (report?.links ?? []).map { link in
                    [
                        "peer": .string(link.peerKey), "type": .string(link.kind),
                        "dialed": .bool(link.isDialer),
                    ]
                }),
            "listening": .array(
                (report?.listening ?? []).map { listener in
                    ["address": .string(listener.address), "port": .int(Int64(listener.port))]
                }),
            "failures": .array(
                (report?.failures ?? []).map { failure in
                    ["address": .string(failure.address), "reason": .string(failure.reason)]
                }),
            "found": .array((report?.found ?? []).map { .string($0) }),
            "notFinding": .array((report?.findingFailures ?? []).map { .string($0) }),
        ]
    }

    private func status() throws(MimeoError) -> Value {
        let commits: (last: UInt64, acknowledged: UInt64)
        let refusedCommits: [DittoRefusedCommit]
        do {
            commits = try ditto.sync.commits()
            refusedCommits = try ditto.sync.latestRefusedCommits()
        } catch {
            throw MimeoError(.storeUnusable, "\(error)")
        }
        let status = ditto.sync.status
        let login = ditto.auth?.status
        let refusals = status.problems.sorted { $0.key < $1.key }.map { what, failure in
            ["of": .string(what), "error": Answer.Problem(failure).json] as Value
        }
        let refusedWrites = refusedCommits.map { refused in
            [
                "of": "write", "commitID": .int(Int64(clamping: refused.commitID)),
                "error": Answer.Problem(code: refused.code, message: refused.message).json,
            ] as Value
        }
        return [
            "status": .string(status.text), "connected": .bool(status.text == "connected"),
            "lastError": status.lastError.map { .string($0) } ?? .null,
            "authenticated": .bool(login?.isAuthenticated ?? false),
            "userID": login?.userID.map { .string($0) } ?? .null,
            "loginError": ditto.auth?.lastFailure.map { Answer.Problem($0).json } ?? .null,
            "commitID": .int(Int64(clamping: commits.last)),
            "acknowledgedCommitID": .int(Int64(clamping: commits.acknowledged)),
            "subscriptions": .array(ditto.sync.subscriptions.map(\.queryString).sorted().map { .string($0) }),
            "refused": .array(refusals + refusedWrites),
        ]
    }

    private func tell(_ loginFailure: Failure) {
        let problem = Answer.Problem(loginFailure)
        let isNew = lastLoginFailure.withLock { last in
            defer { last = problem.text }
            return last != problem.text
        }
        if isNew { output.write(["event": "login", "error": problem.json]) }
    }
}
