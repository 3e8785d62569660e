import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Mimeo

@Suite("The token of a command")
struct ServerTargetTests {
    private let server = ["--url", "http://127.0.0.1:1", "--database", "d"]

    private func token(
        _ arguments: [String], environment: [String: String] = [:], typed: [String] = []
    ) async throws -> String {
        let lines = Mutex(typed)
        let input = StandardInput { lines.withLock { $0.isEmpty ? nil : $0.removeFirst() } }
        return try await ServerTarget.parse(server + arguments).login(
            environment, keys: APIKeyOptions.parse([]), input: input
        ).token
    }

    private func code(
        _ arguments: [String], environment: [String: String] = [:], typed: [String] = []
    ) async -> MimeoErrorCode? {
        do {
            _ = try await token(arguments, environment: environment, typed: typed)
            return nil
        } catch {
            #expect(!"\(error)".contains("hush"))
            return (error as? MimeoError)?.code
        }
    }

    @Test("it comes from the flag, a file, standard input or the environment, in this order")
    func places() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory.appendingPathComponent("token").path
            try Data("from a file\r\n".utf8).write(to: URL(fileURLWithPath: path))
            let environment = ["MIMEO_TOKEN": "from outside"]
            #expect(try await token(["--token", "-dash"], environment: environment) == "-dash")
            #expect(try await token(["--token-file", path], environment: environment) == "from a file")
            #expect(try await token(["--token-file", "-"], typed: ["typed", "SELECT 1"]) == "typed")
            #expect(try await token([], environment: environment) == "from outside")
        }
    }

    @Test("a token that is missing, empty, given twice or in several lines is an error that does not show it")
    func wrong() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory.appendingPathComponent("token").path
            #expect(await code(["--token-file", path]) == .fileUnreadable)
            try Data("hush\nhush\n".utf8).write(to: URL(fileURLWithPath: path))
            #expect(await code(["--token-file", path]) == .usage)
            #expect(await code(["--token-file", path, "--token", "hush"]) == .usage)
            try Data(repeating: 0x61, count: Limits.secretBytes + 1).write(to: URL(fileURLWithPath: path))
            #expect(await code(["--token-file", path]) == .fileUnreadable)
        }
        #expect(await code([]) == .usage)
        #expect(await code(["--token", ""]) == .usage)
        #expect(await code([], environment: ["MIMEO_TOKEN": "x", "MIMEO_TOKEN_FILE": "y"]) == .usage)
        #expect(await code(["--token-file", "-"]) == .usage)
    }

    @Test("server, database, provider and the token's file come from the file of --config too")
    func configured() async throws {
        try await withTemporaryDirectory { directory in
            let secret = directory.appendingPathComponent("token").path
            try Data("quiet\n".utf8).write(to: URL(fileURLWithPath: secret))
            let config = directory.appendingPathComponent("config.json").path
            try Data(
                """
                {"url":"http://a:1/","database":"d","provider":"p","tokenFile":"\(secret)","data":"/x"}
                """.utf8
            ).write(to: URL(fileURLWithPath: config))
            let server = try ServerTarget.parse(["--config", config])
            let none = try APIKeyOptions.parse([])
            let login = try await server.login([:], keys: none)
            #expect([login.databaseID, login.provider, login.token] == ["d", "p", "quiet"])
            let environment = ["MIMEO_TOKEN": "louder", "MIMEO_DATABASE": "e", "MIMEO_CONFIG": config]
            let other = try await ServerTarget.parse([]).login(environment, keys: none)
            #expect([other.databaseID, other.provider, other.token] == ["e", "p", "louder"])
            // An API key is the token of the provider for keys, whichever provider is named.
            let key = try await ServerTarget.parse([]).login(
                ["MIMEO_CONFIG": config], keys: APIKeyOptions.parse(["--api-key", "mimeo_k"]))
            #expect([key.provider, key.token] == ["api-key", "mimeo_k"])
        }
    }

    @Test("the command line's store or server wins over the environment's; two of one place are an error")
    func targets() throws {
        func target(_ arguments: [String], _ environment: [String: String]) throws -> TargetOptions.Target? {
            let options = try TargetOptions.parse(arguments)
            return try options.target(options.server.sources(environment))
        }
        #expect(try target([], [:]) == nil)
        #expect(try target(["--store", "s"], ["MIMEO_URL": "http://a"]) == .store("s"))
        #expect(try target(["--url", "http://b"], ["MIMEO_STORE": "s"]) == .server("http://b"))
        #expect(try target([], ["MIMEO_STORE": "s"]) == .store("s"))
        #expect(throws: MimeoError.self) { try target(["--store", "s", "--url", "http://a"], [:]) }
        #expect(throws: MimeoError.self) { try target([], ["MIMEO_STORE": "s", "MIMEO_URL": "http://a"]) }
    }

    @Test("where nothing names a server, the one that runs on the data folder is used, while it runs")
    func running() async throws {
        try await withTemporaryDirectory { directory in
            let token = directory.appendingPathComponent("token").path
            try Data("quiet\n".utf8).write(to: URL(fileURLWithPath: token))
            func begin() -> RunningServer? {
                RunningServer(
                    folder: directory.path, url: "http://127.0.0.1:1", database: "d", tokenFile: token)
            }
            let note = try #require(begin())
            let environment = ["MIMEO_DATA": directory.path]
            func target(_ arguments: [String], _ more: [String: String] = [:]) throws -> TargetOptions.Target?
            {
                let options = try TargetOptions.parse(arguments)
                return try options.target(options.server.sources(environment.merging(more) { $1 }))
            }
            #expect(try target([]) == .server("http://127.0.0.1:1"))
            #expect(try target(["--store", "s"]) == .store("s"))
            #expect(try target([], ["MIMEO_STORE": "s"]) == .store("s"))
            #expect(try target([], ["MIMEO_URL": "http://a"]) == .server("http://a"))
            let login = try await ServerTarget.parse([]).login(environment, keys: APIKeyOptions.parse([]))
            #expect(login.databaseID == "d" && login.token == "quiet")
            let named = try await ServerTarget.parse(["--database", "e", "--token", "t"]).login(
                environment, keys: APIKeyOptions.parse([]))
            #expect(named.databaseID == "e" && named.token == "t")
            // Nobody else serves from the folder, and nobody else may write the note.
            #expect(begin() == nil)
            let file = directory.appendingPathComponent("server.json").path
            let text = try Data(contentsOf: URL(fileURLWithPath: file))
            chmod(file, 0o644)
            #expect(try target([]) == nil)
            chmod(file, 0o600)
            note.end()
            #expect(try target([]) == nil)
            try text.write(to: URL(fileURLWithPath: file))
            chmod(file, 0o600)
            #expect(try target([]) == nil)
            // A server that starts replaces what a killed one left, in one step.
            let next = try #require(begin())
            #expect(try target([]) == .server("http://127.0.0.1:1"))
            #expect(begin() == nil)
            let names = try FileManager.default.contentsOfDirectory(atPath: directory.path)
            #expect(names.sorted() == ["server.json", "token"])
            // The end of a server leaves the note of another one.
            unlink(file)
            let other = try #require(begin())
            next.end()
            #expect(try target([]) == .server("http://127.0.0.1:1"))
            other.end()
            #expect(try target([]) == nil)
        }
    }

    @Test("a store has to be of the database that the command line names, or that the same place names")
    func databaseOfStore() throws {
        func database(_ arguments: [String], _ environment: [String: String]) throws -> String? {
            let options = try TargetOptions.parse(arguments)
            return options.databaseOfStore(try options.server.sources(environment))
        }
        let environment = ["MIMEO_STORE": "s", "MIMEO_DATABASE": "e"]
        #expect(try database(["--store", "s"], [:]) == nil)
        #expect(try database(["--store", "s", "--database", "d"], environment) == "d")
        // The variable is of a server that other commands use.
        #expect(try database(["--store", "s"], environment) == nil)
        #expect(try database([], environment) == "e")
        #expect(try database(["--database", "d"], environment) == "d")
    }

    @Test(
        "the data folder of a server and the copies in it are no peer's store; a folder beside them is one",
        arguments: [("log.sqlite", "system"), ("log.sqlite", "replicator/d"), ("server.json", "query/d")])
    func folderOfServer(file: String, copy: String) throws {
        try withTemporaryDirectory { folder in
            try Data().write(to: folder.appendingPathComponent(file))
            for path in [folder.path, "\(folder.path)/", "\(folder.path)/\(copy)"] {
                #expect { try StoreFolder.check(path) } throws: { error in
                    (error as? MimeoError)?.code == .storeUnusable && "\(error)".contains("a server keeps")
                }
            }
            try StoreFolder.check("\(folder.path)/peer-a")
            try StoreFolder.check("\(folder.path)/stores/system")
        }
    }

    @Test("the command line's key or token wins over the environment's, and two of one rank are an error")
    func keys() async throws {
        let server = try ServerTarget.parse(server)
        let both = ["MIMEO_TOKEN": "t", "MIMEO_API_KEY": "k"]
        await #expect { try await RemoteRunner.open(server, APIKeyOptions.parse([]), both) } throws: {
            ($0 as? MimeoError)?.code == .usage
        }
        _ = try await RemoteRunner.open(server, APIKeyOptions.parse(["--api-key", "k"]), both)
        _ = try await RemoteRunner.open(server, APIKeyOptions.parse([]), ["MIMEO_API_KEY": "k"])
        // Nobody serves there: that the login is tried shows that the token was chosen.
        let named = try ServerTarget.parse(self.server + ["--token", "t"])
        await #expect { try await RemoteRunner.open(named, APIKeyOptions.parse([]), both) } throws: {
            ($0 as? MimeoError)?.code == .serverUnreachable
        }
        await #expect {
            try await RemoteRunner.open(named, APIKeyOptions.parse(["--api-key", "k"]), [:])
        } throws: { ($0 as? MimeoError)?.code == .usage }
    }

    @Test("an argument that would become another value is refused")
    func arguments() throws {
        for args in [#"{"a":1,"a":2}"#, #"{"a":{"b":1,"b":1}}"#, #"{"a":9223372036854775808}"#, "[1]", "{"] {
            #expect(throws: (any Error).self, "\(args)") {
                try DQLCommand.parse(["--store", "s", "--args", args, "SELECT 1"])
            }
        }
        for args in [#"{"a":9223372036854775807}"#, #"{"a":1e30,"b":{"a":1}}"#, #"{"a":"2024-02-30T00:00"}"#]
        {
            _ = try DQLCommand.parse(["--store", "s", "--args", args, "SELECT 1"])
        }
    }
}
