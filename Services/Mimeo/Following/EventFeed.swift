import AsyncHTTPClient
import CRDT
import DittoSwift
import Foundation
import Synchronization

/// A stream of JSON lines from a server, opened again where it was cut.
///
/// The first connection must succeed; after that the server may be away for any time. A server that says
/// nothing for `Limits.streamSilence`, although it says that it is alive four times in a minute, counts as
/// away.
struct EventFeed: Sendable {
    /// The reader's word on a line.
    enum Verdict: Sendable {
        case goOn
        case done
        /// The stream ended with an error of the server's.
        case closed(Value)
    }

    let runner: RemoteRunner
    /// True if the server ends the stream when it has told all; else an end without a reason is a cut.
    var endsByItself = false
    /// Called at such an end with the offset that the server has told of; nil where it says none.
    var ended: @Sendable (_ offset: String?) throws -> Void = { _ in }
    /// The request for the stream; called for each connection, since it names the place to go on.
    let request: @Sendable () -> RemoteRunner.StreamRequest

    /// Reads until `read` is done, or the server ends the stream by itself.
    /// - Throws: `CLI-0301`, `CLI-0302`; `Refusal` if the server refuses the request.
    func run(_ read: @escaping @Sendable (Value) throws -> Verdict) async throws {
        let reader = Task { try await OutputPipe.watchReader() }
        defer { reader.cancel() }
        var pause = Limits.reconnectPause
        var isFirst = true
        while true {
            do {
                let response = try await runner.open(request())
                isFirst = false
                switch try await lines(of: response, read) {
                case .done: return
                case .closed(let error):
                    let code = error["code"]?.stringValue ?? ""
                    // The token is over, or the service stops: both are passing.
                    guard code.hasPrefix("AUTH-") || code == "QUERY-0304" else {
                        throw Refusal(error: error)
                    }
                case .goOn where endsByItself:
                    return try ended(response.headers.first(name: "X-DITTO-TXN-ID"))
                case .goOn: throw StreamCut()
                }
                pause = Limits.reconnectPause
            } catch let error as MimeoError where error.code == .serverUnreachable && !isFirst {
                LineWriter.standardError.write(text: "mimeo: \(error); trying again")
            } catch is StreamCut {
                pause = Limits.reconnectPause
            }
            try await Task.sleep(for: pause)
            pause = min(pause * 2, Limits.longestReconnectPause)
        }
    }

    /// The connection ended before the stream did.
    private struct StreamCut: Error {}

    /// Hands out lines until the reader is done; `goOn` if the server ended the stream.
    private func lines(
        of response: HTTPClientResponse, _ read: @escaping @Sendable (Value) throws -> Verdict
    ) async throws -> Verdict {
        let held = SilenceWatch(lastByte: .now)
        let reading = Task { () throws -> Verdict in
            var rest: [UInt8] = []
            do {
                for try await buffer in response.body {
                    held.note()
                    rest += Array(buffer.readableBytesView)
                    while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                        let line = Array(rest[..<end])
                        rest.removeFirst(end + 1)
                        guard !line.isEmpty else { continue }
                        let value = try JSONText.parse(line)
                        if let error = value["error"], value["method"] == nil { return .closed(error) }
                        let verdict = try read(value)
                        if case .goOn = verdict { continue }
                        return verdict
                    }
                }
            } catch let error where !(error is MimeoError || error is CRDTError) {
                // The network's errors have many types.
                throw StreamCut()
            }
            return .goOn
        }
        let watch = Task {
            while true {
                try await Task.sleep(for: Limits.silenceLook)
                if held.silence > Limits.streamSilence { reading.cancel() }
            }
        }
        defer { watch.cancel() }
        return try await reading.value
    }
}

/// The time since the last byte; the lock guards it.
private final class SilenceWatch: Sendable {
    private let lastByte: Mutex<ContinuousClock.Instant>
    init(lastByte: ContinuousClock.Instant) { self.lastByte = Mutex(lastByte) }
    func note() { lastByte.withLock { $0 = .now } }
    var silence: Duration { lastByte.withLock { .now - $0 } }
}

/// The server refuses a request; its own code and message.
struct Refusal: Error {
    let error: Value
}
