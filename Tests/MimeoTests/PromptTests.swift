import CRDT
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Mimeo

@Suite("The prompt", .timeLimit(.minutes(5)))
struct PromptTests {
    /// Lines as if typed; each is there when it is asked for.
    private final class Script: LineSource {
        private let left: Mutex<[TypedLine]>
        let prompts = Mutex<[String]>([])
        let remembered = Mutex<[String]>([])
        private let isPasted: Bool

        init(_ lines: [TypedLine], isPasted: Bool = false) {
            left = Mutex(lines)
            self.isPasted = isPasted
        }

        func line(prompt: String, after before: String) async -> TypedLine {
            prompts.withLock { $0.append(prompt) }
            return left.withLock { $0.isEmpty ? .end : $0.removeFirst() }
        }
        var isMoreWaiting: Bool { get async { isPasted && left.withLock { !$0.isEmpty } } }
        func remember(_ text: String) async { remembered.withLock { $0.append(text) } }
    }

    private final class Output: Sendable {
        let text = Mutex("")
        var writer: LineWriter {
            LineWriter { data in self.text.withLock { $0 += String(decoding: data, as: UTF8.self) } }
        }
    }

    /// What the prompt wrote, answers and remarks in one.
    private func session(
        _ script: Script, format: OutputFormat = .json, arguments: ObjectValue = ObjectValue()
    ) async throws -> String {
        try await withTemporaryDirectory { directory in
            let runner = try await LocalRunner(store: directory.path)
            let output = Output()
            let prompt = Prompt(
                runner: runner, arguments: arguments, format: format, lines: script, output: output.writer,
                remarks: output.writer, changed: {})
            await prompt.run()
            await runner.close()
            return output.text.withLock { $0 }
        }
    }

    private func items(_ text: String) -> [Value] {
        text.split(separator: "\n").compactMap { try? JSONText.parse(String($0))["items"] }
    }

    @Test("a SELECT of one line runs at once, a statement of several with its semicolon")
    func lines() async throws {
        let script = Script([
            .text("INSERT INTO c DOCUMENTS"), .text("({'_id': 1})"), .text(";"), .text("SELECT * FROM c"),
            .text("SELECT"), .text("COUNT(*) AS n"), .text("FROM c;"), .text(".quit"),
            .text("SELECT 7 AS x FROM system:dual"),
        ])
        #expect(items(try await session(script)) == [[], [["_id": 1]], [["n": 1]]])
        #expect(
            script.prompts.withLock { $0 } == [
                "mimeo> ", "  ...> ", "  ...> ", "mimeo> ", "mimeo> ", "  ...> ", "  ...> ", "mimeo> ",
            ])
        #expect(script.remembered.withLock { $0 }.count == 4)
    }

    @Test("a whole DELETE waits for its semicolon, because a WHERE may follow")
    func writes() async throws {
        let script = Script([
            .text("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2});"), .text("DELETE FROM c"),
            .text("WHERE _id = 1;"), .text("SELECT * FROM c"), .text("DELETE FROM c"), .interrupted,
            .text("SELECT * FROM c"), .text("DELETE FROM c"), .text(""), .text("SELECT * FROM c"),
        ])
        let left: Value = [["_id": 2]]
        #expect(items(try await session(script)) == [[], [], left, left, [], []])
    }

    @Test("a pasted SELECT is taken whole, and several statements of one line each run")
    func pasted() async throws {
        let script = Script(
            [
                .text("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2}); SELECT 3 AS x FROM system:dual;"),
                .text("SELECT * FROM c"), .text("WHERE _id = 2"), .text("-- the end"), .text(";"),
            ], isPasted: true)
        #expect(items(try await session(script)) == [[], [["x": 3]], [["_id": 2]]])
    }

    @Test("a wrong statement is answered at once with its place, and the prompt goes on")
    func wrong() async throws {
        let script = Script([.text("SELEKT * FROM c"), .text("SELECT 1 AS x FROM system:dual")])
        let text = try await session(script, format: .table)
        #expect(text.hasPrefix("DQL-0105 at 1:1: "))
        #expect(text.hasSuffix("x\n-\n1\n1 row\n"))
    }

    @Test("a quote that is open goes on in the next line; a semicolon in it ends nothing")
    func literals() async throws {
        let script = Script([.text("SELECT 'a;"), .text("b' AS x FROM system:dual;")])
        #expect(items(try await session(script)) == [[["x": "a;\nb"]]])
        let comment = Script([.text("/* ; */ -- ;"), .text("SELECT 2 AS x FROM system:dual")])
        #expect(items(try await session(comment)) == [[["x": 2]]])
    }

    @Test("commands list, explain, time, and change the mode")
    func commands() async throws {
        let script = Script([
            .text(".tables"), .text(".indexes"), .text("CREATE INDEX by_n ON cars (n DESC);"),
            .text("INSERT INTO cars DOCUMENTS ({'_id': 1});"), .text(".tables"), .text(".indexes"),
            .text(".explain SELECT * FROM cars"), .text(".mode vertical"), .text("\\timing"),
            .text("SELECT 5 AS five FROM system:dual"), .text(".timing off"), .text(".mode"), .text(".help"),
        ])
        let text = try await session(script, format: .table)
        #expect(text.hasPrefix("no collections\nno indexes\ndone\n1 document written, commit 1\n"))
        #expect(text.contains("\ncars\nby_n on cars (n DESC)\n"))
        #expect(text.contains("\n└─ projection  *\n   └─ scan  cars\n"))
        #expect(text.contains("\ntiming: on\n-- row 1 --\nfive  5\n1 row\ntime: "))
        #expect(text.contains("\ntiming: off\nmode: vertical\nStatements end with ;"))
        #expect(PromptCommand.list.allSatisfy { text.contains("\n\($0.name)") })
    }

    @Test(
        "a command that is none is an error with the nearest name, and a statement may be explained",
        arguments: [
            (".tabels", "did you mean .tables?"), (".mode fancy", "json, table, csv, markdown, vertical"),
            (".quit now", "is used as"), (".explain", "is used as"), ("\\x", ".mode vertical"),
            ("\\y", ".help lists them"),
            ("DESCRIBE cars", "no schema"), ("desc cars;", ".tables"), (".schema", ".tables"),
            ("use garage;", "--database"),
        ])
    func unknown(line: String, message: String) async throws {
        let error = #expect(throws: MimeoError.self) { try PromptCommand(line) }
        #expect(error?.code == .dotCommandInvalid)
        #expect(error?.message.contains(message) == true)
        #expect(
            try await session(Script([.text(line), .text("SELECT 1 AS x FROM system:dual")])).contains(
                "CLI-0501"))
    }

    @Test(
        "words of other prompts leave, help and list",
        arguments: [
            ("exit", PromptCommand.quit), ("QUIT;", .quit), ("help", .help), (" Show Tables ;", .tables),
            ("show collections", .tables), ("SHOW INDEXES", .indexes), ("\\dt", .tables),
        ])
    func habits(line: String, command: PromptCommand) throws {
        #expect(try PromptCommand(line) == command)
    }

    @Test("a statement that begins like such a word is one", arguments: ["SHOW ALL", "SELECT 1", "exit now"])
    func noHabits(line: String) throws {
        #expect(try PromptCommand(line) == nil)
    }

    @Test("rows that are wider than the terminal propose another mode, once")
    func wide() async throws {
        try await withTemporaryDirectory { directory in
            let runner = try await LocalRunner(store: directory.path)
            let output = Output()
            let wide = "SELECT '0123456789' AS a, '0123456789' AS b FROM system:dual"
            let script = Script([.text("SELECT 1 AS x FROM system:dual"), .text(wide), .text(wide)])
            let prompt = Prompt(
                runner: runner, arguments: ObjectValue(), format: .table, lines: script,
                output: output.writer, remarks: output.writer, changed: {})
            prompt.width = { 20 }
            await prompt.run()
            await runner.close()
            let text = output.text.withLock { $0 }
            #expect(text.components(separatedBy: ".mode vertical").count == 2)
            #expect(text.hasPrefix("x\n-\n1\n1 row\na "))
        }
    }

    private struct Extension: PromptExtension {
        func answer(toCommand line: String) async -> Value? { line == ".status" ? ["connected": true] : nil }
        let helpText = "and .status"
    }

    @Test("a prompt may have a name and commands beside its own, which its help lists")
    func extended() async throws {
        try await withTemporaryDirectory { directory in
            let runner = try await LocalRunner(store: directory.path)
            let output = Output()
            let script = Script([.text(".status"), .text("help"), .text("SELECT 1 AS x FROM system:dual")])
            let prompt = Prompt(
                runner: runner, arguments: ObjectValue(), format: .table, lines: script,
                output: output.writer, remarks: output.writer, changed: {})
            prompt.name = { "offline" }
            prompt.more = Extension()
            await prompt.run()
            await runner.close()
            let text = output.text.withLock { $0 }
            #expect(text.contains("connected  true") && text.contains("\nand .status\n"))
            #expect(text.hasSuffix("x\n-\n1\n1 row\n"))
            #expect(script.prompts.withLock { $0 }.allSatisfy { $0 == "offline> " })
        }
    }

    @Test("a text beyond the longest statement is abandoned with an error, and the next one runs")
    func tooLong() async throws {
        let long = "SELECT '" + String(repeating: "x", count: 1_048_576)
        let text = try await session(Script([.text(long), .text("SELECT 1 AS x FROM system:dual")]))
        #expect(text.contains("CLI-0503"))
        #expect(items(text) == [[["x": 1]]])
    }

    @Test("arguments of the command line hold for every statement")
    func arguments() async throws {
        let text = try await session(
            Script([.text("SELECT :n AS n FROM system:dual")]), arguments: ObjectValue([(key: "n", value: 9)])
        )
        #expect(items(text) == [[["n": 9]]])
    }

    @Test("history has a line per statement, keeps its meaning, and leaves out what begins with a space")
    func history() throws {
        #expect(HistoryFile.entry("SELECT *\nFROM c;") == "SELECT * FROM c;")
        #expect(HistoryFile.entry("SELECT * -- all\nFROM c") == "SELECT * FROM c")
        #expect(HistoryFile.entry("SELECT 'a\n b'\nAS x") == "SELECT 'a\\n b' AS x")
        #expect(HistoryFile.entry(" SELECT 1") == nil)
        try withTemporaryDirectory { directory in
            let path = directory.appendingPathComponent("history").path
            let file = try #require(HistoryFile(["MIMEO_HISTORY": path]))
            #expect(file.load() == [])
            let other = try #require(HistoryFile(["MIMEO_HISTORY": path]))
            #expect(file.append("SELECT 1;") == "SELECT 1;")
            #expect(other.append("SELECT 2;") == "SELECT 2;")
            #expect(file.load() == ["SELECT 1;", "SELECT 2;"])
            let attributes = try FileManager.default.attributesOfItem(atPath: path)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
            let many = (0...2 * Limits.historyStatements).map { "SELECT \($0)\n" }.joined()
            try Data(many.utf8).write(to: URL(fileURLWithPath: path))
            #expect(file.load().count == Limits.historyStatements)
            let kept = try String(contentsOfFile: path, encoding: .utf8)
            #expect(kept.split(separator: "\n").count == Limits.historyStatements)
        }
        #expect(HistoryFile(["MIMEO_HISTORY": ""]) == nil)
        #expect(HistoryFile(["HOME": "/h"])?.path == "/h/.mimeo_history")
    }

    private struct Names: KnownNames {
        func collections() -> [String] { ["cars", "carts", "order lines"] }
        func fields(of collection: String) -> [String] {
            collection == "cars" ? ["colour", "make", "make.year", "two words"] : []
        }
    }

    private func choices(_ line: String, after before: String = "", rest: String = "") -> [String]? {
        Completion(before: before, line: line + rest, cursor: line.utf8.count, names: Names())?.choices
    }

    @Test("completion offers what may stand at the cursor")
    func completion() {
        #expect(choices("SEL") == ["SELECT"])
        #expect(choices("SELECT * FROM ca") == ["cars", "carts"])
        #expect(choices("SELECT * FROM car", after: "x") == ["cars", "carts"])
        #expect(choices("DELETE FROM ")?.contains("`order lines`") == true)
        #expect(choices("SELECT * FROM system:ind") == ["system:indexes"])
        #expect(choices("CREATE INDEX i ON car") == ["cars", "carts"])
        #expect(choices("SELECT mak", rest: " FROM cars") == ["make", "make.year"])
        #expect(choices("WHERE c.ma", after: "SELECT * FROM cars AS c") == ["c.make", "c.make.year"])
        #expect(choices("SELECT * FROM cars WHERE tw") == ["`two words`"].filter { $0.hasPrefix("tw") })
        #expect(choices("SELECT * FROM cars whe") == ["when", "where"])
        #expect(choices("SELECT * FROM cars WHERE uppe") == ["upper("])
        #expect(choices("SELECT 'FROM ca") == nil)
        #expect(choices("SELECT 1 -- SEL")?.isEmpty ?? true)
        #expect(choices(".ta") == [".tables"] && choices(".mode ma") == ["markdown"])
        #expect(choices(".explain SELECT * FROM carts WHERE x = ")?.isEmpty == true)
        #expect(choices("WHERE n = :n", after: "SELECT * FROM cars") == [])
    }

    @Test("a single choice ends with a space, several grow to what they share, then they are listed")
    func replacement() {
        #expect(Completion(word: "S", choices: ["SELECT"]).replacement == "SELECT ")
        #expect(Completion(word: "up", choices: ["upper("]).replacement == "upper(")
        #expect(Completion(word: "c", choices: ["cars", "carts"]).replacement == "car")
        #expect(Completion(word: "car", choices: ["cars", "carts"]).replacement == "car")
        #expect(Completion(word: "CAR", choices: ["cars", "carts"]).replacement == "car")
        #expect(Completion(word: "", choices: ["a", "bcd", "e"]).list(columns: 11) == "a    bcd\ne")
        let many = Completion(word: "", choices: (1...250).map { "n\($0)" })
        #expect(many.list().hasSuffix("… and 50 more"))
    }

    @Test("the names come from the store, and are read again after a statement")
    func names() async throws {
        try await withTemporaryDirectory { directory in
            let runner = try await LocalRunner(store: directory.path)
            let names = NameCatalog(runner)
            let ask: @Sendable () async -> [String] = {
                await withCheckedContinuation { continuation in
                    Thread.detachNewThread {
                        continuation.resume(returning: names.collections() + names.fields(of: "c"))
                    }
                }
            }
            #expect(await ask() == [])
            _ = await runner.run(
                "INSERT INTO c DOCUMENTS ({'_id': 1, 'a': {'b': 2}})", arguments: ObjectValue())
            names.forget()
            #expect(await ask() == ["c", "_id", "a", "a.b"])
            await runner.close()
        }
    }
}
