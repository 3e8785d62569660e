import CRDT
import Foundation
import ServiceKit
import TestSupport
import Testing

@testable import Mimeo

@Suite("mimeo admin")
struct AdminCommandTests {
    @Test("every admin route of every service has a command of its own")
    func complete() {
        for route in Surface.routes
        where route.path.hasPrefix("/admin/") && route.path != "/admin/console/session" {
            #expect(route.command?.count == 2, "\(route.method) \(route.path)")
        }
        let titles = AdminCall.routes.map { $0.words.joined(separator: " ") }
        #expect(
            Set(titles).count == titles.count,
            "\(titles.filter { one in titles.filter { $0 == one }.count > 1 })")
        for word in titles.flatMap({ $0.split(separator: " ") }) {
            #expect(word.allSatisfy { $0.isLowercase || $0 == "-" }, "\(word)")
        }
        for known in ["databases list", "api-keys create", "sessions drain", "replicator set-log-level"] {
            #expect(titles.contains(known), "\(known)")
        }
        let groups = Set(titles.compactMap { $0.split(separator: " ").first.map(String.init) })
        #expect(groups.isDisjoint(with: ["login", "logout", "profiles", "help"]))
    }

    @Test("only what an operator changes for good is asked about")
    func destroying() {
        func destroys(_ title: String) -> Bool? {
            AdminCall.routes.first { $0.words.joined(separator: " ") == title }?.route.destroys
        }
        for title in ["databases delete", "log truncate", "erasures create", "keys rotate", "sessions drain"]
        {
            #expect(destroys(title) == true, "\(title)")
        }
        for title in ["databases list", "sessions undrain", "databases create", "projections rebuild"] {
            #expect(destroys(title) == false, "\(title)")
        }
    }

    @Test("words become a request: path, query and body by the table's types")
    func requests() async throws {
        let deleted = try await AdminCall(["databases", "delete", "a/b c"], database: nil)
        #expect(deleted.path == "/admin/auth/databases/a%2Fb%20c" && deleted.body == nil)
        let key = try await AdminCall(
            ["api-keys", "create", "--name", "n", "--permissions={\"read\":{}}", "--expires-at", "7"],
            database: "fleet")
        #expect(key.path == "/admin/auth/databases/fleet/api-keys")
        #expect(key.body == ["name": "n", "permissions": ["read": [:]], "expiresAt": 7])
        let log = try await AdminCall(["log", "read", "fleet", "--after", "3"], database: nil)
        #expect(log.path == "/admin/replicator/databases/fleet/log?after=3")
        let empty = try await AdminCall(["databases", "create"], database: nil)
        #expect(empty.body == [:])
        let session = try await AdminCall(["sessions", "disconnect", "17"], database: "fleet")
        #expect(session.path == "/admin/replicator/databases/fleet/sessions/17")
    }

    @Test("a time is written as people write it, or in seconds; an id needs no quotes of JSON")
    func times() async throws {
        func expiry(_ text: String) async throws -> Value? {
            let words = ["api-keys", "create", "--name", "n", "--permissions", "{}", "--expires-at", text]
            return try await AdminCall(words, database: "d").body?["expiresAt"]
        }
        #expect(try await expiry("2027-01-31T12:00:00Z") == 1_801_396_800)
        #expect(try await expiry("2027-01-31") == 1_801_353_600)
        #expect(try await expiry("1801396800") == 1_801_396_800)
        await #expect(throws: MimeoError.self) { try await expiry("tomorrow") }
        for (text, id) in [("b", "b" as Value), ("7", 7), ("\"7\"", "7"), ("{\"a\":1}", ["a": 1])] {
            let words = [
                "subscriptions", "explain", "--subscription", "SELECT * FROM c", "--collection", "c", "--id",
                text,
            ]
            #expect(try await AdminCall(words, database: "d").body?["id"] == id, "\(text)")
        }
    }

    @Test("times in an answer are readable but for programs")
    func readableTimes() {
        let body: Value = [
            "keys": [["id": "k", "createdAt": 1_795_869_833, "endedAt": 1_795_869_833_000, "n": 3]]
        ]
        let text = AdminTable(body).text(.table)
        #expect(text.contains("2026-11-28T12:43:53Z  2026-11-28T12:43:53Z"))
        #expect(AdminTable(body).text(.json).contains("1795869833,"))
        #expect(AdminTable(["at": ["expiresAt": 0]]).text(.vertical).contains("{\"expiresAt\":0}"))
    }

    @Test("no option of a route has a name that mimeo admin keeps for itself")
    func taken() throws {
        let own = Set(try CommandOptions.of(AdminCommand.self).flatMap(\.flags))
        #expect(own.subtracting(AdminCall.taken) == [])
        let flags = AdminCall.routes.flatMap { entry in
            let names = entry.route.parameters.filter { $0.place == .query }.map(\.name)
            return (names + AdminCall.members(of: entry.route).map(\.name)).map {
                AdminCall.flag($0, of: entry.route)
            }
        }
        #expect(flags.filter { AdminCall.taken.contains($0) } == [])
        #expect(flags.contains("webhook-url"))
    }

    @Test("a value comes from a file, so that a secret is not on the command line")
    func files() async throws {
        try await withTemporaryDirectory { folder in
            let file = folder.appendingPathComponent("s")
            try Data("hidden\n".utf8).write(to: file)
            let call = try await AdminCall(
                ["webhooks", "create", "--webhook-url", "https://a", "--secret", "@\(file.path)"],
                database: "d")
            #expect(call.body == ["url": "https://a", "secret": "hidden"])
        }
    }

    @Test(
        "a wrong line is an error that says what there is",
        arguments: [
            (["nothing", "list"], "no group 'nothing'"), (["databases", "burn"], "list, create"),
            (["databases", "delete"], "takes DATABASE"), (["databases", "list", "x"], "takes no arguments"),
            (["databases", "list", "--limit", "1"], "no options"),
            (["databases", "create", "--id"], "needs a value"),
            (["revocations", "create", "d", "--kind", "user"], "needs --value"),
            (["api-keys", "create", "d", "--name", "n", "--permissions", "{"], "must be JSON"),
            (["log", "read", "d", "--before", "1"], "it has --after, --limit"),
        ])
    func wrong(words: [String], told: String) async throws {
        let error = await #expect(throws: MimeoError.self) { try await AdminCall(words, database: nil) }
        #expect(error?.message.contains(told) == true, "\(error?.message ?? "")")
        #expect(error?.exitCode == 2)
    }

    @Test("help tells every command")
    func help() throws {
        let overview = try AdminHelp.text([])
        for (words, _) in AdminCall.routes { #expect(overview.contains(words[1])) }
        let one = try AdminHelp.text(["api-keys", "create"])
        #expect(one.contains("DATABASE") && one.contains("--expires-at") && one.contains("Role: own."))
        #expect(throws: MimeoError.self) { try AdminHelp.text(["burn"]) }
    }

    @Test("a table has the rows of the answer's list, and an answer without one is a row")
    func tables() {
        let list = AdminTable(["databases": [["id": "a", "head": 7]], "more": false, "instance": "i"])
        #expect(list.rows == [["id": "a", "head": 7]])
        #expect(list.text(.json) == #"{"databases":[{"id":"a","head":7}],"more":false,"instance":"i"}"#)
        #expect(list.text(.table).hasPrefix("id  head\n--  ----\na      7"))
        let one: Value = ["id": "a", "receipts": [["holder": "log"]]]
        #expect(AdminTable(one).rows == [one])
        #expect(AdminTable(["lines": ["a", "b"]]).rows == [["value": "a"], ["value": "b"]])
    }

    @Test("profiles are in a file of their owner's only; the last login is the usual one")
    func profiles() throws {
        try withTemporaryDirectory { folder in
            let path = folder.appendingPathComponent("new/profiles.json").path
            let file = ProfileFile(path: path)
            #expect(try file.profile(nil) == nil)
            try file.keep(.init(url: "http://a", credential: "1"), as: "a")
            try file.keep(.init(url: "http://b", credential: "2"), as: "b")
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            #expect(try file.profile(nil)?.url == "http://b" && file.profile("a")?.credential == "1")
            #expect(throws: MimeoError.self) { try file.profile("c") }
            #expect(try file.forget("b") && !file.forget("b"))
            #expect(try file.profile(nil)?.url == "http://a")
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
            let error = #expect(throws: MimeoError.self) { try file.profile(nil) }
            #expect(error?.message.contains("0600") == true)
        }
    }

    @Test("log lines of a bundle have marks in place of users and addresses, the same one for the same")
    func people() {
        let lines = [
            "T info mimeo: action=GET /x address=10.0.0.7 result=done user=ann smith [ServiceKit] audit",
            "T info mimeo: action=GET /y address=::1 user=ann smith zone=1 [ServiceKit] audit",
            #"{"message":"audit","user":"ann smith","address":"10.0.0.7","path":"/user"}"#,
            #"{"user":"say \"ann smith\"","status":200}"#,
        ].map(SupportBundleCommand.anonymous)
        for line in lines {
            #expect(!line.contains("smith") && !line.contains("10.0.0.7") && !line.contains("::1"), "\(line)")
        }
        #expect(lines[0].contains("action=GET /x address=~") && lines[0].hasSuffix(" [ServiceKit] audit"))
        #expect(lines[1].contains(" zone=1 [ServiceKit] audit"))
        #expect(lines[2].contains(#""path":"/user"}"#) && lines[3].contains(#"","status":200}"#))
        let marks = lines[..<3].map { $0.matches(of: /~[0-9a-z]+/).map { String($0.output) } }
        #expect(marks.map(\.count) == [2, 2, 2])
        #expect(marks[0][1] == marks[1][1] && marks[0][1] == marks[2][0] && marks[0][0] == marks[2][1])
        #expect(marks[0][0] != marks[0][1])
    }

    @Test("a bundle in which a secret is found is not written; its archive is one that tar reads")
    func bundles() {
        let key = "mimeo_0123456789abcdef_" + String(repeating: "a", count: 43)
        func found(_ text: String) -> String? {
            SupportBundleCommand.secret(in: [("f", text)], credential: "the-credential")
        }
        #expect(found("x the-credential y") != nil && found(key) != nil)
        #expect(found("postgres://me:secret@db/x") != nil && found("postgres://me:***@db/x") == nil)
        #expect(found("-----BEGIN PRIVATE KEY-----") != nil && found("http://127.0.0.1:4000") == nil)
        let archive = Tar.archive(of: [("a.txt", "hello"), ("b.txt", "")])
        #expect(archive.count == 512 * 5)
        #expect(String(decoding: archive[257..<262], as: UTF8.self) == "ustar")
        #expect(String(decoding: archive[512..<517], as: UTF8.self) == "hello")
    }
}
