import CRDT
import Foundation
import Testing

@testable import DittoSwift

/// The file of calls that Swift, C and Python share: here the SDK runs it.
@Suite("Calls that all languages share", .timeLimit(.minutes(5)))
struct NativeCallsTests {
    private static let file = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Native/calls.txt")

    @Test("the SDK finds what the file says")
    func calls() async throws {
        let lines = try String(contentsOf: Self.file, encoding: .utf8).split(
            separator: "\n", omittingEmptySubsequences: false)
        try await withDitto { ditto in
            let run = CallRun(ditto)
            for (index, line) in lines.enumerated() {
                let found = try await run.line(line.prefix(1), String(line.dropFirst(2)))
                #expect(found == nil || found == String(line.dropFirst(2)), "line \(index + 1)")
            }
            #expect(run.compared > 30)
        }
    }

    @Test("a call of another language leaves out nothing of an error's code, and ends its transaction once")
    func foreign() async throws {
        try await withDitto { ditto in
            let transaction = try ditto.store.beginBlocking(isReadOnly: false)
            let written = try transaction.execute("INSERT INTO c DOCUMENTS ({'_id': 1})", ObjectValue())
            try transaction.end(.commit)
            #expect(written.commitID == 1)
            #expect(written.mutatedValues == [.int(1)])
            #expect(throws: Failure.self) { try transaction.end(.commit) }
            let error = DittoSwiftError.storeError(reason: .queryInvalid(message: "DQL-0105 at 1:8: no"))
            #expect(Failure(foreign: error).code == "DQL-0105")
            #expect(Failure(foreign: error).message == "no")
            #expect(Failure(foreign: CancellationError()).code == "SDK-0901")
        }
    }
}

/// The state of a run: the statement that waits for its result, the observer, the transaction.
private final class CallRun {
    private let ditto: Ditto
    private var (statement, arguments, code) = ("", ObjectValue(), "")
    private var observer: DittoStoreObserver?
    private var results = Collected<String>()
    private var (told, transaction) = (0, OpenTransaction?.none)
    private(set) var compared = 0

    init(_ ditto: Ditto) { self.ditto = ditto }

    /// Runs one line. Returns what it found where the line says what is expected.
    func line(_ verb: Substring, _ rest: String) async throws -> String? {
        switch verb {
        case "?": arguments = try JSONText.parse(rest).objectValue ?? ObjectValue()
        case ">": statement = rest
        case "=", "x", "!":
            compared += 1
            return await result(isHex: verb == "x")
        case "@": observe(rest)
        case "~":
            compared += 1
            told += 1
            let wanted = told
            let all = await results.wait { $0.count >= wanted }
            return all.count >= wanted ? all[wanted - 1] : "nothing"
        case "(": transaction = try ditto.store.beginBlocking(isReadOnly: false)
        case ")":
            try transaction?.end(rest.isEmpty ? .commit : .rollback)
            transaction = nil
        default: break
        }
        return nil
    }

    private func result(isHex: Bool) async -> String {
        defer { (statement, arguments) = ("", ObjectValue()) }
        guard !statement.isEmpty else { return code }
        do {
            let result =
                if let transaction { try transaction.execute(statement, arguments) } else {
                    try await ditto.store.execute(query: statement, arguments: arguments.plain)
                }
            guard isHex else { return Self.text(result) }
            let bytes = CBOR.encode(.array(result.items.map(\.row)))
            return bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        } catch {
            return Failure(foreign: error).code
        }
    }

    private func observe(_ query: String) {
        observer?.cancel()
        (observer, results, told, statement, code) = (nil, Collected<String>(), 0, "", "")
        let results = results
        do {
            observer = try ditto.store.registerObserver(query: query) { results.add(Self.text($0)) }
        } catch {
            code = Failure(foreign: error).code
        }
    }

    private static func text(_ result: DittoQueryResult) -> String {
        let values = result.isWrite ? result.mutatedValues : result.items.map(\.row)
        return JSONText.print(.array(values))
    }
}
