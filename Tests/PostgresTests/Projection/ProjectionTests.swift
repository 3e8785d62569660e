import CRDT
import DQL
import Foundation
import Logging
import OperationLog
import TestSupport
import Testing

@testable import Postgres

@Suite(
    "A projection in PostgreSQL",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct ProjectionPostgresTests {
    @Test("writes become rows that people read in SQL, in a view under the collection's name")
    func readable() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await bench.execute(
                    "INSERT INTO Cars DOCUMENTS ({'_id': 'fiat', 'm': {'seats': 4}}), ({'_id': [1, true]})",
                    on: projection)
                try await bench.execute("UPDATE Cars SET m.color = 'red' WHERE _id = 'fiat'", on: projection)
                try await bench.execute("DELETE FROM Cars WHERE _id = [1, true]", on: projection)
                let view = #"SELECT _id || ' ' || document::text || ' ' || "offset" FROM db_cars."Cars""#
                #expect(
                    try bench.sql(view) == [
                        #"fiat {"m": {"color": "red", "seats": 4}, "_id": "fiat"} 2"#
                    ])
                #expect(
                    try await bench.rows("SELECT * FROM Cars", on: projection) == [
                        #"{"_id":"fiat","m":{"color":"red","seats":4}}"#
                    ])
                #expect(try bench.stored() == (try await bench.fold()))
            }
        }
    }

    @Test("every kind of value is there for people, and comes back to statements as it was")
    func values() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                let values: ObjectValue = [
                    "null": .null, "yes": true, "int": .int(.max), "double": 1.0,
                    "tiny": .double(.leastNonzeroMagnitude),
                    "large": .double(.greatestFiniteMagnitude), "minus": -0.0, "nan": .double(.nan),
                    "far": .double(-.infinity),
                    "text": "a\u{0}é👩‍👩‍👧\"\\\n", "bytes": .binary([0, 255]),
                    "list": [1, [.binary([1])], ["k\u{0}": .null]], "\u{1F697}": "emoji", "": "empty",
                ]
                try await bench.execute(
                    "INSERT INTO c DOCUMENTS (:d)",
                    ["d": .object(ObjectValue(values.entries + [("_id", "v")]))],
                    on: projection)
                try await bench.execute("UPDATE c APPLY hits INCREMENT BY 3 WHERE _id = 'v'", on: projection)
                let back = try await projection.read { snapshot in
                    try PreparedStatement("SELECT * FROM c").rows(in: snapshot)[0]
                }
                for (key, value) in values.entries { #expect(back[key] == value, "\(key)") }
                // PostgreSQL prints a large double with all its digits.
                let printed = try bench.sql("SELECT document::text FROM db_cars.c")[0]
                let body = try JSONText.parse(Array(printed.utf8), roundsIntegers: true)
                #expect(body["nan"] == "NaN" && body["far"] == "-Infinity" && body["hits"] == 3)
                #expect(body["text"] == "a\u{2400}é👩‍👩‍👧\"\\\n" && body["double"] == 1.0)
                #expect(body["bytes"]?["~binary"] == "AP8=" && body["int"] == .int(.max))
                #expect(
                    body["tiny"] == .double(.leastNonzeroMagnitude) && body["large"] != nil
                        && body["\u{1F697}"] == "emoji")
                #expect(
                    try bench.sql("SELECT unnest(rough) AS key FROM mimeo_g1.c1 ORDER BY key COLLATE \"C\"")
                        == ["bytes", "far", "large", "list", "minus", "nan", "text"])
                #expect(try bench.stored() == (try await bench.fold()))
            }
        }
    }

    @Test("ids of any length are rows of their own, found, changed, scanned and removed")
    func longIDs() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                // Texts that no compression makes short, alike in their beginnings.
                var random = SplitMix64(seed: 1)
                let letters = Array("abcdefghijklmnopqrstuvwxyz0123456789")
                let start = String((0..<1_500).map { _ in random.pick(letters) })
                let lengths = [10, 1_020, 1_021, 1_022, 1_023, 1_024, 1_025, 1_400, 1_499]
                let longest = ["x", "y", "z"].map { start + start + $0 }
                let ids = lengths.map { String(start.prefix($0)) } + longest
                for (number, id) in ids.enumerated() {
                    try await bench.execute(
                        "INSERT INTO c DOCUMENTS (:d)",
                        ["d": ["_id": .string(id), "n": .int(Int64(number))]],
                        on: projection)
                }
                for (number, id) in ids.enumerated() {
                    let update = "UPDATE c SET m = :n WHERE _id = :id"
                    try await bench.execute(
                        update, ["id": .string(id), "n": .int(Int64(number))], on: projection)
                }
                let removal = "DELETE FROM c WHERE _id = :id"
                try await bench.execute(removal, ["id": .string(ids[10])], on: projection)
                let rows = try await bench.rows("SELECT RAW m FROM c WHERE m = n ORDER BY n", on: projection)
                #expect(rows == ids.indices.filter { $0 != 10 }.map { "\($0)" })
                #expect(try bench.stored() == (try await bench.fold()))
            }
        }
    }

    @Test("collections of any name get tables and views of their own, and keep them through a rebuild")
    func names() async throws {
        let long = String(repeating: "long ", count: 60)
        let names = [
            "Cars", "cars", "CARS", #"a"b"#, "a'b; DROP TABLE x; --", "a.b", "\\", " ", "pg_class", "select",
            "\u{1F697}\u{1F3CE}", "e\u{301}", "é", "nul\u{0}l", "nul\u{2400}l", long, long + "!",
            String(repeating: "é", count: 31) + "x", String(repeating: "é", count: 32),
        ]
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                for (number, name) in names.enumerated() {
                    try await bench.append(Self.insert(into: CollectionName(name), number))
                }
                try await projection.advance()
                try await bench.catchUp(projection)
                for round in 0..<2 {
                    for (number, name) in names.enumerated() {
                        let found = try await projection.read { snapshot in
                            var found: [Value?] = []
                            try snapshot.scan(CollectionName(name)) { record in
                                found.append(try record.document.root.field("n")?.value())
                                return true
                            }
                            return found
                        }
                        #expect(found == [.int(Int64(number))], "\(name)")
                        let view = try bench.sql(
                            """
                            SELECT view_name FROM mimeo_projection.collections c
                            JOIN mimeo_projection.databases d USING (generation)
                            WHERE c.name = decode('\(Self.hexadecimal(name))', 'hex')
                            """)[0]
                        #expect(view.utf8.count <= 63)
                        let quoted = ProjectionNames.quoted(view)
                        #expect(
                            try bench.sql("SELECT document ->> 'n' FROM db_cars.\(quoted)") == ["\(number)"])
                    }
                    let listed = try await projection.read { try $0.collectionNames() }
                    #expect(Set(listed) == Set(names.map { CollectionName($0) }))
                    guard round == 0 else { break }
                    #expect(try bench.sql("SELECT mimeo_projection.rebuild('cars')::text") == ["true"])
                    try await projection.advance()
                    #expect(try bench.sql("SELECT generation::text FROM mimeo_projection.databases") == ["2"])
                }
                #expect(try bench.stored() == (try await bench.fold()))
            }
        }
    }

    @Test("many collections have a table and a view each, rebuilt too")
    func manyCollections() async throws {
        let count = Depth.pick(fast: 200, deep: 10_000)
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                for start in stride(from: 0, to: count, by: 500) {
                    try await bench.append(
                        Self.operation(
                            (start..<min(start + 500, count)).map {
                                (CollectionName("c\($0)"), ["n": .int(Int64($0))])
                            },
                            sequence: SequenceNumber(UInt64(start / 500 + 1))))
                }
                try await projection.advance()
                try await bench.catchUp(projection)
                #expect(try await projection.read { try $0.collectionNames().count } == count)
                #expect(
                    try bench.sql("SELECT document ->> 'n' FROM db_cars.c\(count - 1)") == ["\(count - 1)"])
                #expect(
                    try bench.sql("SELECT count(*)::text FROM pg_views WHERE schemaname = 'db_cars'") == [
                        "\(count)"
                    ])
                _ = try bench.sql("SELECT mimeo_projection.rebuild('cars')::text")
                try await projection.advance()
                #expect(try await bench.rows("SELECT n FROM c134", on: projection) == [#"{"n":134}"#])
                #expect(
                    try bench.sql("SELECT document ->> 'n' FROM db_cars.c\(count - 1)") == ["\(count - 1)"])
                #expect(try bench.stored() == (try await bench.fold()))
            }
        }
    }

    @Test("a schema of another format or of another application is refused and left as it is")
    func foreignSchema() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { _ in }
            let connection = try Connection(url: bench.url)
            for version in [99, ProjectionSchema.oldestVersion - 1] {
                try connection.run("UPDATE mimeo_projection.format SET version = \(version)")
                #expect(await bench.openingCode() == .unsupportedFormat)
                let kept = try connection.query("SELECT version FROM mimeo_projection.format").int8(0, 0)
                #expect(kept == Int64(version))
                #expect(throws: ProjectionError.self) {
                    try ProjectionSnapshot.readAll(ProjectionBench.database, url: bench.url) { _ in }
                }
            }
            try connection.run("DROP SCHEMA mimeo_projection CASCADE; CREATE SCHEMA mimeo_projection")
            #expect(await bench.openingCode() == .notAProjection)
            try connection.run("DROP SCHEMA mimeo_projection; CREATE SCHEMA other; CREATE TABLE db_x (a int)")
        }
    }

    @Test("a log that was truncated is taken from its snapshot, and folded from there")
    func snapshot() async throws {
        try await ProjectionBench.run { bench in
            for number in 0..<3 { try await bench.append(Self.insert(into: "c", number)) }
            let position = try await bench.log.head(of: ProjectionBench.database)
            let before = try await bench.fold()
            var chunk = SnapshotChunk()
            chunk.add(.begin(SnapshotStart(position: position, clock: 3 << 20, reapFloor: 2)))
            for (key, document) in before {
                chunk.add(
                    .document(
                        SnapshotDocument(
                            key: key, isLive: document.isLive, offset: document.offset, state: document.state)
                    ))
            }
            chunk.add(.end(actors: 0, documents: 3))
            let draft = try await bench.log.beginSnapshot(of: ProjectionBench.database, at: position)
            try await bench.log.add(chunk.bytes, to: draft, in: ProjectionBench.database)
            _ = try await bench.log.finish(draft, in: ProjectionBench.database)
            try await bench.append(Self.insert(into: "d", 3))
            let folded = try await bench.fold()
            try await bench.log.truncate(ProjectionBench.database, through: 3, keepingHashesAfter: 3)
            try await bench.projecting { projection in
                try await projection.advance()
                try await bench.catchUp(projection)
                #expect(try bench.stored() == folded)
                #expect(
                    try bench.sql("SELECT max(reap_floor)::text FROM mimeo_projection.generations") == ["2"])
                try await bench.execute("INSERT INTO d DOCUMENTS ({'_id': 'more'})", on: projection)
                #expect(try await bench.rows("SELECT * FROM d", on: projection).count == 2)
            }
        }
    }

    @Test("tables of an older layout are built anew beside, and switched")
    func olderLayout() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await bench.execute("INSERT INTO c DOCUMENTS ({'_id': 1})", on: projection)
            }
            try Connection(url: bench.url).run(
                """
                ALTER TABLE mimeo_g1.c1 DROP COLUMN rough;
                ALTER TABLE mimeo_g1.c1 ADD COLUMN plain boolean NOT NULL DEFAULT true;
                SET mimeo.projection_format = '2';
                UPDATE mimeo_projection.generations SET layout = 1
                """)
            try await bench.projecting { projection in
                #expect(
                    try await bench.rows("SELECT * FROM c WHERE _id > 0", on: projection) == [#"{"_id":1}"#])
                // Folded into the old tables before they are replaced.
                try await bench.execute("INSERT INTO c DOCUMENTS ({'_id': 2})", on: projection)
                try await projection.advance()
                #expect(try bench.sql("SELECT generation::text FROM mimeo_projection.databases") == ["2"])
                #expect(
                    try await bench.rows("SELECT * FROM c WHERE _id > 1", on: projection) == [#"{"_id":2}"#])
            }
        }
    }

    static func insert(into collection: CollectionName, _ number: Int, actor: UInt64 = 7) -> CRDT.Operation {
        operation(
            [(collection, ["n": .int(Int64(number))])], actor: actor,
            sequence: SequenceNumber(UInt64(number + 1)))
    }

    /// An operation that makes a document in each collection.
    static func operation(
        _ documents: [(collection: CollectionName, fields: ObjectValue)], actor: UInt64 = 7,
        sequence: SequenceNumber
    ) -> CRDT.Operation {
        let stamp = Stamp(time: sequence.rawValue << 20, actor: ActorID(actor))
        let changes = documents.enumerated().map { number, document in
            var editor = DocumentEditor(document: Document(), stamp: stamp)
            editor.create()
            for (key, value) in document.fields.entries { try? editor.set([key], value) }
            return CRDT.Operation.Change(
                collection: document.collection, id: .numbered(Int(sequence.rawValue) * 1_000_000 + number),
                delta: editor.pending.delta(stamp: stamp)?.encoded() ?? [])
        }
        return CRDT.Operation(
            actor: stamp.actor, sequence: sequence, timestamp: stamp.time, changes: changes)
    }

    private static func hexadecimal(_ text: String) -> String {
        text.utf8.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}

extension DocumentID {
    static func numbered(_ number: Int) -> DocumentID {
        guard let id = try? DocumentID(.int(Int64(number))) else { preconditionFailure("a number is an id") }
        return id
    }
}

extension ProjectionBench {
    /// The code with which an opening is refused.
    func openingCode() async -> ProjectionErrorCode? {
        do {
            try await projecting { _ in }
            return nil
        } catch {
            return (error as? ProjectionError)?.code
        }
    }
}
