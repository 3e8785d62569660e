import AsyncHTTPClient
import CRDT
import Identity
import QueryService
import Testing

@Suite("Calls from before DQL")
struct LegacyCallTests {
    private func call(
        _ client: QueryClient, _ name: String, _ body: Value
    ) async throws -> (status: Int, body: Value) {
        let response = try await client.open("/api/v4/store/\(name)", method: "POST", body: body)
        let bytes = Array(buffer: try await response.body.collect(upTo: 1_000_000))
        return (Int(response.status.code), try JSONText.parse(bytes))
    }

    @Test("find, findbyid and count read by the legacy language, with arguments, order and bounds")
    func reads() async throws {
        try await QueryBench.run { _, client async throws in
            for (id, n) in [("a", 1), ("b", 2), ("c", 3)] {
                _ = try await client.execute(
                    "INSERT INTO `my cars` DOCUMENTS ({'_id': '\(id)', 'n': \(n), 'm': {'k': \(-n)}})")
            }
            let found = try await call(
                client, "find",
                [
                    "collection": "my cars", "query": "n > $args.least", "args": ["least": 1],
                    "sort": [["property": "m.k", "direction": "asc"]], "limit": 1,
                ])
            #expect(found.status == 200)
            #expect(
                found.body == [
                    "documents": [["id": "c", "fields": ["_id": "c", "n": 3, "m": ["k": -3]]]], "txnId": 3,
                ])
            let rest = try await call(
                client, "find",
                ["collection": "my cars", "sort": [["property": "n", "direction": "desc"]], "offset": 2])
            #expect(rest.body["documents"]?.arrayValue?.map { $0["id"] } == ["a"])
            let one = try await call(client, "findbyid", ["collection": "my cars", "id": "b"])
            #expect(one.body["documents"]?.arrayValue?.map { $0["fields"]?["n"] } == [2])
            let count = try await call(client, "count", ["collection": "my cars", "query": "n >= 2"])
            #expect(count.body == ["count": 2, "txnId": 3])
        }
    }

    @Test("an answer has the warnings of its statements, each once, and the one of a number that became null")
    func warnings() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute(
                "INSERT INTO c DOCUMENTS ({'_id': 'a', 'zip': '0816', 'n': 1e308 * 10})")
            let change: Value = ["method": "set", "path": "seen", "value": true]
            let update: Value = [
                "method": "update", "collection": "c", "query": "zip == 816", "commands": [change],
            ]
            for (name, body) in [
                ("find", ["collection": "c", "query": "zip == 816"] as Value),
                ("find", ["collection": "c", "query": "zip == 816", "describe": true]),
                ("count", ["collection": "c", "query": "zip == 816"]), ("write", ["commands": [update]]),
            ] {
                let answer = try await call(client, name, body)
                let codes = answer.body["warnings"]?.arrayValue?.map { $0["code"] }
                #expect(answer.status == 200 && codes == ["DQL-W106"], "\(name): \(answer.body)")
            }
            let found = try await call(client, "find", ["collection": "c", "query": "zip == '0816'"])
            #expect(found.body["documents"]?.arrayValue?.map { $0["fields"]?["n"] } == [.null])
            let told = found.body["warnings"]?.arrayValue?.first?["description"]?.stringValue
            #expect(told?.contains("inf, which JSON cannot hold") == true, "\(found.body)")
        }
    }

    @Test("latestValuesAndTypes has each field's type, and describe the statement with its plan")
    func types() async throws {
        try await QueryBench.run { _, client async throws in
            let upsert: Value = [
                "method": "upsert", "collection": "people", "id": "123abc",
                "value": [
                    "name": "Grace", "friends": ["Susan"], "orderCount": 5,
                    "home": ["city": "Ulm", "visits": 2],
                ],
                "valueTypeOverrides": ["orderCount": "counter", "home.visits": "counter"],
            ]
            #expect(try await call(client, "write", ["commands": [upsert]]).status == 200)
            _ = try await client.execute("INSERT INTO people DOCUMENTS ({'_id': 7, 'name': 'Grace'})")
            let typed: Value = [
                "id": "123abc",
                "fields": [
                    "name": ["register": ["value": "Grace"]],
                    "friends": ["register": ["value": ["Susan"]]],
                    "orderCount": ["counter": ["value": 5]],
                    "home": [
                        "map": [
                            "value": [
                                "city": ["register": ["value": "Ulm"]], "visits": ["counter": ["value": 2]],
                            ]
                        ]
                    ],
                ],
            ]
            let other: Value = ["id": 7, "fields": ["name": ["register": ["value": "Grace"]]]]
            var found: Value = [
                "collection": "people", "query": "name == 'Grace'", "serializedAs": "latestValuesAndTypes",
            ]
            let documents = try await call(client, "find", found).body["documents"]?.arrayValue ?? []
            #expect(documents.count == 2 && documents.contains(typed) && documents.contains(other))
            found = [
                "collection": "people", "sort": [["property": "orderCount", "direction": "asc"]],
                "limit": 1, "describe": true, "serializedAs": "latestValuesAndTypes",
            ]
            let described = try await call(client, "find", found)
            #expect(described.status == 200 && described.body["documents"] == [typed], "\(described.body)")
            let statement = "SELECT * FROM `people` ORDER BY `orderCount` LIMIT 1"
            #expect(described.body["describe"]?["statement"] == .string(statement))
            let plan = try await client.execute("EXPLAIN " + statement).items.first
            #expect(plan != nil && described.body["describe"]?["plan"] == plan)
            let one = try await call(
                client, "findbyid",
                ["collection": "people", "id": "123abc", "serializedAs": "latestValuesAndTypes"])
            #expect(one.body["documents"] == [typed])
            let limited = try await call(client, "find", ["collection": "people", "describe": false])
            #expect(limited.body["describe"] == nil)
        }
    }

    @Test("write does all its commands in one operation, with the types that they name")
    func write() async throws {
        try await QueryBench.run { _, client async throws in
            let done = try await call(
                client, "write",
                [
                    "commands": [
                        [
                            "method": "upsert", "collection": "my cars", "id": "a",
                            "value": ["n": 1, "m": ["hits": 2]],
                            "valueTypeOverrides": ["m.hits": "counter"],
                        ],
                        ["method": "upsert", "collection": "my cars", "value": ["_id": 2, "n": 5]],
                        [
                            "method": "update", "collection": "my cars", "query": "n < $args.most",
                            "args": ["most": 3],
                            "commands": [
                                ["method": "set", "path": "['n']", "value": 9],
                                ["method": "set", "path": "m[\"a.b\"]['c']", "value": 1],
                                ["method": "increment", "path": "m.hits", "value": 3],
                                ["method": "replaceWithCounter", "path": "seen"],
                            ],
                        ],
                        ["method": "remove", "collection": "my cars", "query": "n == 5"],
                    ]
                ])
            #expect(done.status == 200, "\(done.body)")
            #expect(
                done.body["results"] == [
                    ["method": "upsert", "transactionId": 1, "updated": ["a"]],
                    ["method": "upsert", "transactionId": 1, "updated": [2]],
                    ["method": "update", "transactionId": 1, "updated": ["a"]],
                    ["method": "remove", "transactionId": 1, "deleted": [2]],
                ])
            _ = try await client.execute("UPDATE `my cars` APPLY seen PN_INCREMENT BY 4")
            let rows = try await client.execute("SELECT * FROM `my cars`").rows
            #expect(rows == [#"{"_id":"a","m":{"a.b":{"c":1},"hits":5},"n":9,"seen":4}"#])
        }
    }

    /// An update that sets a field.
    private static func setting(_ path: String, _ rest: String = #","value":1"#) -> String {
        let change = #"{"method":"set","path":"\#(path)"\#(rest)}"#
        return #"{"method":"update","collection":"c","query":"n","commands":[\#(change)]}"#
    }

    @Test(
        "a write with a command that cannot be meant writes nothing and names it",
        arguments: [
            (#"{"method":"insert","collection":"c"}"#, "QUERY-0101"), ("5", "QUERY-0101"),
            (#"{"method":"remove","collection":"c","query":"n =="}"#, "DQL-0107"),
            (#"{"method":"remove","collection":"c","ids":[]}"#, "QUERY-0101"),
            (#"{"method":"remove","collection":"c","args":{"id":1}}"#, "QUERY-0101"),
            (#"{"method":"remove","collection":"c","query":" "}"#, "QUERY-0101"),
            (
                #"{"method":"update","collection":"c","commands":[{"method":"set","path":"a","value":1}]}"#,
                "QUERY-0101"
            ),
            (Self.setting("a[0]"), "QUERY-0101"), (Self.setting("a['b"), "QUERY-0101"),
            (Self.setting("a."), "QUERY-0101"), (Self.setting("['a']b"), "QUERY-0101"),
            (Self.setting("a", ""), "QUERY-0101"), (Self.setting("a", #","val":1"#), "QUERY-0101"),
            (Self.setting("a", #","value":1,"if":2"#), "QUERY-0101"),
            (#"{"method":"upsert","collection":"c","id":3,"value":{"_id":4}}"#, "QUERY-0101"),
            (#"{"method":"update","collection":"c","commands":[{"method":"set"}]}"#, "QUERY-0101"),
            (#"{"method":"update","collection":"c","commands":[{"method":"cut","path":"a"}]}"#, "QUERY-0101"),
            (
                #"{"method":"upsert","collection":"c","value":{"_id":1},"valueTypeOverrides":{"a":"x"}}"#,
                "QUERY-0101"
            ),
            (#"{"method":"upsert","collection":"c","id":null,"value":{}}"#, "DQL-0"),
        ])
    func refusedWrite(_ command: String, _ code: String) async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            let good: Value = ["method": "upsert", "collection": "c", "value": ["_id": 1]]
            let answer = try await call(client, "write", ["commands": [good, try JSONText.parse(command)]])
            #expect(answer.status == 400, "\(answer.body)")
            #expect(answer.body["error"]?["code"]?.stringValue?.hasPrefix(code) == true, "\(answer.body)")
            #expect(answer.body["error"]?["index"] == 1)
            #expect(try await client.execute("SELECT * FROM c").items.isEmpty)
        }
        await log.close()
    }

    @Test("the DELETE of version 1 deletes the document of its path, and says so")
    func delete() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute("INSERT INTO people DOCUMENTS ({'_id': 'a/b'}), ({'_id': 7})")
            let headers = ["X-DITTO-CLIENT-ID": "AAAAAAAAAAAAAAAAAAAABQ=="]
            for (id, deleted) in [("a%2Fb", 1), ("7", 1), ("7", 0)] {
                let answer = try await client.get(
                    "/api/v1/collections/people/documents/\(id)", headers: headers, method: "DELETE")
                #expect(answer.status == 200)
                #expect(try answer.lines[0]["deleted"] == .int(Int64(deleted)))
            }
            #expect(try await client.execute("SELECT * FROM people").items.isEmpty)
        }
    }

    @Test("an id in a path is JSON or a text: of both documents the first DELETE takes the number or true")
    func doubtfulIDs() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute(
                "INSERT INTO c DOCUMENTS (:docs)",
                [
                    "docs": [
                        ["_id": "777"], ["_id": 7, "n": 1], ["_id": "7"], ["_id": "true"], ["_id": "1.5"],
                    ]
                ])
            for (id, left) in [
                ("777", 4), ("777", 4), ("7", 3), ("7", 2), ("true", 1), ("%221.5%22", 0),
            ] {
                let path = "/api/v1/collections/c/documents/\(id)"
                #expect(try await client.get(path, method: "DELETE").status == 200)
                #expect(try await client.execute("SELECT * FROM c").items.count == left, "\(id)")
            }
            let history = try JSONText.parse(await client.get("/api/v5/history/c/777").text)
            #expect(history["id"] == "777" && history["entries"]?.arrayValue?.count == 2)
            let number = try JSONText.parse(await client.get("/api/v5/history/c/7").text)
            #expect(number["id"] == 7)
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': '12'})")
            let conflicts = try JSONText.parse(await client.get("/api/v5/conflicts/c/12").text)
            #expect(conflicts["id"] == "12" && conflicts["exists"] == true)
        }
    }

    @Test("the commands of a write under an Idempotency-Key are done once, and answered as the first time")
    func writeOnce() async throws {
        try await QueryBench.run { _, client async throws in
            let begin: Value = [
                "method": "upsert", "collection": "c", "id": "a", "value": ["n": 0],
                "valueTypeOverrides": ["n": "counter"],
            ]
            #expect(try await call(client, "write", ["commands": [begin]]).status == 200)
            func write(_ amount: Int64) async throws -> (status: Int, text: String, isAgain: Bool) {
                let update: Value = [
                    "method": "update", "collection": "c", "query": "true",
                    "commands": [["method": "increment", "path": "n", "value": .int(amount)]],
                ]
                let response = try await client.open(
                    "/api/v4/store/write", headers: ["Idempotency-Key": "w1"], method: "POST",
                    body: ["commands": [update, update]])
                return (
                    Int(response.status.code),
                    String(buffer: try await response.body.collect(upTo: 1_000_000)),
                    response.headers.first(name: "Idempotency-Replayed") == "true"
                )
            }
            let first = try await write(1)
            #expect(first.status == 200 && !first.isAgain)
            _ = try await client.execute("INSERT INTO other DOCUMENTS ({'_id': 1})")
            let again = try await write(1)
            #expect(again.isAgain && again.text == first.text)
            #expect(try await write(2).status == 422)
            let found = try await call(client, "findbyid", ["collection": "c", "id": "a"])
            #expect(found.body["documents"]?.arrayValue?.map { $0["fields"]?["n"] } == [2])
        }
    }

    @Test("a DELETE of version 1 under an Idempotency-Key is done once, and answered as the first time")
    func deleteOnce() async throws {
        try await QueryBench.run { _, client async throws in
            func delete(_ id: String) async throws -> (status: Int, deleted: Value?, again: String?) {
                let answer = try await client.get(
                    "/api/v1/collections/people/documents/\(id)", headers: ["Idempotency-Key": "leave-1"],
                    method: "DELETE")
                return (
                    answer.status, try answer.lines.first?["deleted"], answer.headers["idempotency-replayed"]
                )
            }
            _ = try await client.execute("INSERT INTO people DOCUMENTS ({'_id': 'a'}), ({'_id': 'b'})")
            let first = try await delete("a")
            #expect(first.deleted == 1 && first.again == nil)
            _ = try await client.execute("INSERT INTO people DOCUMENTS ({'_id': 'a'})")
            let again = try await delete("a")
            #expect(again.deleted == 1 && again.again == "true")
            #expect(try await client.execute("SELECT * FROM people").items.count == 2)
            #expect(try await delete("b").status == 422)
        }
    }

    @Test(
        "a call that cannot be meant is refused with a reason",
        arguments: [
            ("find", "{}", "QUERY-0101"), ("find", #"{"collection":"c","limit":-1}"#, "QUERY-0101"),
            ("find", #"{"collection":"c","query":"n =="}"#, "DQL-0107"),
            ("find", #"{"collection":"c","query":"n == $args.x"}"#, "DQL-0501"),
            ("find", #"{"collection":"c","sort":"n"}"#, "QUERY-0101"),
            ("find", #"{"collection":"c","sort":["n"]}"#, "QUERY-0101"),
            ("find", #"{"collection":"c","sort":[{"property":"n","dir":"desc"}]}"#, "QUERY-0101"),
            ("find", #"{"collection":"c","sort":[{"property":"n","direction":1}]}"#, "QUERY-0101"),
            ("find", #"{"collection":"c","describe":"yes"}"#, "QUERY-0101"),
            ("find", #"{"collection":"c","formatAttachment":true}"#, "QUERY-0101"),
            ("find", #"{"collection":"c","serializedAs":"latestTypes"}"#, "QUERY-0101"),
            ("findbyid", #"{"collection":"c"}"#, "QUERY-0101"),
            ("count", #"{"collection":"c","args":[]}"#, "QUERY-0101"),
        ])
    func refused(_ name: String, _ body: String, _ code: String) async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            let answer = try await call(client, name, try JSONText.parse(body))
            #expect(answer.status == 400)
            #expect(answer.body["error"]?["code"] == .string(code), "\(answer.body)")
        }
        await log.close()
    }

    @Test("CBOR goes in and out, errors too; what JSON cannot hold is refused")
    func cbor() async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            func post(_ body: [UInt8]) async throws -> (status: Int, type: String?, value: Value) {
                var request = HTTPClientRequest(url: "\(client.origin)/api/v5/store/execute")
                request.method = .POST
                request.headers.add(name: "Authorization", value: "Bearer \(client.token ?? "")")
                request.headers.add(name: "Content-Type", value: "application/cbor")
                request.headers.add(name: "Accept", value: "application/json;q=0.5, application/cbor")
                request.body = .bytes(body)
                let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
                let bytes = Array(buffer: try await response.body.collect(upTo: 1_000_000))
                return (
                    Int(response.status.code), response.headers.first(name: "content-type"),
                    try CBOR.decode(bytes)
                )
            }
            let insert = try await post(
                CBOR.encode([
                    "statement": "INSERT INTO c DOCUMENTS (:d)", "args": ["d": ["_id": 1, "x": 1.0]],
                ]))
            #expect(insert.status == 200 && insert.type == "application/cbor")
            let select = try await post(CBOR.encode(["statement": "SELECT * FROM c"]))
            #expect(select.value["items"] == [["_id": 1, "x": 1.0]])
            let broken = try await post([0xFF])
            #expect(broken.status == 400 && broken.value["error"]?["code"] == "QUERY-0101")
            let bytes = try await post(
                CBOR.encode(["statement": "SELECT * FROM c", "args": ["b": .binary([1])]]))
            #expect(bytes.status == 400 && bytes.value["error"]?["code"] == "QUERY-0101")
            let twice =
                [0xA2] + CBOR.encode("statement") + CBOR.encode("SELECT * FROM c") + CBOR.encode("args")
                + [0xA1] + CBOR.encode("deep") + [0x81, 0xA2] + CBOR.encode("same") + [0x01]
                + CBOR.encode("same") + CBOR.encode([1.5, "x"])
            let refused = try await post(twice)
            #expect(refused.status == 400 && refused.value["error"]?["code"] == "QUERY-0101")
            #expect(
                refused.value["error"]?["message"]?.stringValue?.contains("\"same\" appears twice") == true)
            #expect(try await client.get("/openapi.json", headers: ["Accept": "image/png"]).status == 200)
            let image = try await client.get(
                "/api/v5/history/c/1", headers: ["Accept": "image/png, text/*;q=0.3"])
            #expect(image.status == 406 && image.code == "SRV-0406")
            let any = try await client.get("/api/v5/history/c/1", headers: ["Accept": "text/html, */*;q=0.1"])
            #expect(any.status == 200)
        }
        await log.close()
    }
}
