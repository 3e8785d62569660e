import CRDT
import Foundation
import Identity
import OperationLog
import Testing

@testable import AttachmentStore

@Suite("Who may read an attachment", .timeLimit(.minutes(2)))
struct AttachmentRightsTests {
    private static func token(_ id: String) -> Value {
        [AttachmentToken.marker: ["id": .string(id), "len": 4, "metadata": [:]]]
    }

    private func grant(_ queries: [CollectionName: [String]]) -> Grant {
        let rules = AccessRules(queriesByCollection: queries)
        return Grant(read: rules, write: rules, queryLanguage: 1)
    }

    @Test("whoever may read a document that refers to it, and whoever may read everything")
    func byDocument() async throws {
        let fixture = try StoreFixture()
        try await fixture.serving { client async throws in
            let id = try #require(try await client.upload(.bytes(Array("blob".utf8))).stored?.id)
            let author = Author(fixture.log)
            try await author.write("cars", "own") { editor in
                editor.create()
                try editor.set(["papers", "photo"], Self.token(id))
            }
            let rows: [(grant: Grant, status: Int)] = [
                (.everything, 200), (.readOnly, 200), (.nothing, 403),
                (Grant(write: .everything), 403),
                (grant(["cars": ["true"]]), 200), (grant(["cars": ["_id = 'own'"]]), 200),
                (grant(["cars": ["_id = 'other'"]]), 404), (grant(["boats": ["true"]]), 404),
                (grant(["boats": ["true"], "cars": ["_id = 'other'", "_id = 'own'"]]), 200),
            ]
            for row in rows {
                let reader = client.with(token: fixture.token(row.grant))
                for method in ["GET", "HEAD"] {
                    #expect(try await reader.get(id, method: method).status == row.status, "\(row.grant)")
                }
            }
            // Where nothing says what is there, there is nothing: the answers are the same to the byte.
            let stranger = client.with(token: fixture.token(grant(["boats": ["true"]])))
            let nowhere = String(repeating: "A", count: 43)
            let (hidden, missing) = (try await stranger.get(id), try await stranger.get(nowhere))
            #expect(hidden.status == 404 && hidden.body == missing.body && hidden.code == "BLOB-0102")
            #expect(hidden.headers["etag"] == nil)
            // Neither do a condition on what is known nor a range open it.
            #expect(try await stranger.get(id, ["If-None-Match": "\"\(id)\""]).status == 404)
            #expect(try await stranger.get(id, ["Range": "bytes=0-1"]).status == 404)
            #expect(try await stranger.get("nonsense").status == 400)
            // Another database has no such document.
            let elsewhere = client.with(
                token: fixture.token(grant(["cars": ["true"]]), key: fixture.otherKey))
            #expect(try await elsewhere.get(id).status == 404)
        }
    }

    @Test(
        "a signed URL opens its one attachment, in parts too, until its end, as far as its signer reads now")
    func signedURL() async throws {
        let fixture = try StoreFixture()
        try await fixture.serving { client async throws in
            let picture: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 1, 2, 3, 4, 5]
            let id = try #require(try await client.upload(.bytes(picture)).stored?.id)
            let other = try #require(try await client.upload(.bytes(Array("blob".utf8))).stored?.id)
            let author = Author(fixture.log)
            try await author.write("cars", "own") { editor in
                editor.create()
                try editor.set(["photo"], Self.token(id))
            }
            let anybody = client.with(token: nil)
            func signed(
                _ grant: Grant = .readOnly, for id: String, key: DatabaseSigningKey? = nil, ends: Int64 = 100
            ) -> String {
                let key = key ?? fixture.key
                let signer = Identity(
                    userID: "ada", databaseID: key.keyID.databaseID, peerKey: nil, grant: grant,
                    expiresAtSeconds: StoreFixture.now + ends)
                return AccessToken.issueURL(signer, attachment: id, with: key, nowSeconds: StoreFixture.now)
            }
            func get(_ id: String, _ token: String, _ headers: [String: String] = [:]) async throws -> Answer
            {
                try await anybody.send("GET", "/api/v5/attachments/\(id)?signed=\(token)", headers)
            }
            let good = signed(for: id)
            let whole = try await get(id, good)
            #expect(whole.status == 200 && whole.body == picture)
            #expect(whole.headers["content-type"] == "image/png")
            #expect(whole.headers["x-content-type-options"] == "nosniff")
            let part = try await get(id, good, ["Range": "bytes=1-3"])
            #expect(part.status == 206 && part.body == [0x50, 0x4E, 0x47])
            #expect(part.headers["content-range"] == "bytes 1-3/13")
            #expect(try await get(id, good, ["Range": "bytes=13-"]).status == 416)
            #expect(
                try await get(other, signed(for: other)).headers["content-type"]?.hasPrefix("image") != true)
            let saved = try await get(id, "\(good)&filename=a.png")
            #expect(saved.headers["content-disposition"]?.hasPrefix("attachment") == true)
            // The signer's rights hold when it is used: one document, and none.
            #expect(try await get(id, signed(grant(["cars": ["true"]]), for: id)).status == 200)
            #expect(try await get(id, signed(grant(["boats": ["true"]]), for: id)).status == 404)
            #expect(try await get(id, signed(.nothing, for: id)).code == "AUTH-0203")
            let turned = String(good.dropLast(3)) + (good.hasSuffix("AAA") ? "BBB" : "AAA")
            for (id, token, code) in [
                (other, good, "AUTH-0113"), (id, turned, "AUTH-0104"), (id, "x", "AUTH-0101"),
                (id, "", "AUTH-0101"), (id, signed(for: id, ends: 0), "AUTH-0105"),
                (id, fixture.token(), "AUTH-0108"),
                (id, String(repeating: "a", count: 17_000), "AUTH-0110"),
            ] {
                let answer = try await get(id, token)
                #expect(answer.status == 401 && answer.code == code, "\(code)")
            }
            // Another database has another key, and no such attachment.
            #expect(try await get(id, signed(for: id, key: fixture.otherKey)).status == 404)
            // It is no token of a session, and opens nothing else.
            let holder = client.with(token: good)
            #expect(try await holder.get(id).code == "AUTH-0108")
            #expect(try await holder.upload(.bytes([1])).code == "AUTH-0108")
            let chunks = try await anybody.send("GET", "/api/v5/attachments/\(id)/chunks?signed=\(good)")
            #expect([400, 401].contains(chunks.status))
            try await author.write("cars", "own") { $0.delete() }
            #expect(try await get(id, signed(grant(["cars": ["true"]]), for: id)).status == 404)
        }
    }

    @Test("as of now: from when a document refers to it until none does")
    func asOfNow() async throws {
        let fixture = try StoreFixture()
        try await fixture.serving { client async throws in
            let id = try #require(try await client.upload(.bytes(Array("blob".utf8))).stored?.id)
            let reader = client.with(token: fixture.token(grant(["cars": ["true"]])))
            func status() async throws -> Int { try await reader.get(id).status }
            let author = Author(fixture.log)
            #expect(try await status() == 404)
            try await author.write("cars", "a") { editor in
                editor.create()
                try editor.set(["photo"], Self.token(id))
            }
            #expect(try await status() == 200)
            try await author.write("cars", "b") { editor in
                editor.create()
                try editor.set(["photo"], Self.token(id))
            }
            try await author.write("cars", "a") { try $0.set(["photo"], 1) }
            #expect(try await status() == 200)
            try await author.write("cars", "b") { $0.delete() }
            // What a newer kind stands above is still there for who asks for the kind; unset it is gone.
            try await author.write("cars", "a") { try $0.unset(["photo"]) }
            #expect(try await status() == 404)
            try await author.write("boats", "a") { editor in
                editor.create()
                try editor.set(["photo"], Self.token(id))
            }
            #expect(try await status() == 404)
            try await author.write("cars", "b") { editor in
                editor.create()
                try editor.set(["text"], ["id": .string(id), "len": 4, "metadata": [:]])
            }
            #expect(try await status() == 404, "an object that is no ATTACHMENT refers to nothing")
        }
    }

    @Test("a list has, page by page, what the readable documents refer to, and sums of all of it")
    func listed() async throws {
        let fixture = try StoreFixture()
        try await fixture.serving { client async throws in
            let author = Author(fixture.log)
            var ids: [String] = []
            let places: [(CollectionName, String)] = [
                ("boats", "a"), ("cars", "a"), ("cars", "b"), ("cars", "c"),
            ]
            for (number, place) in places.enumerated() {
                let bytes = Array("blob\(number)".utf8)
                let id = try #require(try await client.upload(.bytes(bytes)).stored?.id)
                let metadata: Value = number == 2 ? ["name": "b.png", "mime_type": "image/png"] : [:]
                try await author.write(place.0, place.1) { editor in
                    editor.create()
                    let token: Value = ["id": .string(id), "len": 5, "metadata": metadata]
                    try editor.set(["photo"], [AttachmentToken.marker: token])
                    try editor.set(["again"], [AttachmentToken.marker: token])
                }
                ids.append(id)
            }
            func page(_ reader: StoreClient, _ query: String) async throws -> Value {
                let answer = try await reader.send("GET", "/api/v5/attachments\(query)")
                #expect(answer.status == 200)
                return try JSONText.parse(String(decoding: answer.body, as: UTF8.self))
            }
            func found(_ page: Value) -> [String] {
                (page["attachments"]?.arrayValue ?? []).compactMap { $0["attachment"]?["id"]?.stringValue }
            }
            let whole = try await page(client, "")
            #expect(found(whole) == ids)
            #expect(whole["count"] == 4 && whole["bytes"] == 20 && whole["next"] == .null)
            let row = try #require(whole["attachments"]?.arrayValue?[2])
            #expect(row["collection"] == "cars" && row["id"] == "b" && row["attachment"]?["len"] == 5)
            #expect(row["name"] == "b.png" && row["type"] == "image/png")
            // In pages of two, of which the second is the last one.
            let first = try await page(client, "?limit=2")
            #expect(found(first) == Array(ids[..<2]) && first["count"] == 4)
            let next = try #require(first["next"]?.stringValue)
            let encoded = try #require(next.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
            let second = try await page(client, "?limit=2&after=\(encoded)")
            #expect(found(second) == Array(ids[2...]) && second["next"] == .null)
            #expect(found(try await page(client, "?collection=boats")) == [ids[0]])
            // A reader of one document has that one alone, also in the sums.
            let reader = client.with(token: fixture.token(grant(["cars": ["_id = 'b'"]])))
            let own = try await page(reader, "")
            #expect(found(own) == [ids[2]] && own["count"] == 1 && own["bytes"] == 5)
            try await author.write("cars", "b") { $0.delete() }
            #expect(found(try await page(reader, "")) == [])
            // A document may say any length; the sum ends where numbers do.
            for id in ["d", "e"] {
                try await author.write("cars", id) { editor in
                    editor.create()
                    let token: Value = ["id": .string(ids[3]), "len": .int(.max), "metadata": [:]]
                    try editor.set(["photo"], [AttachmentToken.marker: token])
                }
            }
            let long = try await page(client, "?collection=cars")
            #expect(long["count"] == 4 && long["bytes"] == .int(.max))
            for (path, status) in [("?limit=0", 400), ("?limit=1001", 400)] {
                #expect(try await client.send("GET", "/api/v5/attachments\(path)").status == status)
            }
            let nobody = client.with(token: fixture.token(.nothing))
            #expect(try await nobody.send("GET", "/api/v5/attachments").status == 403)
        }
    }

    @Test("what two wrote at once is read by who may read the document, both")
    func concurrent() async throws {
        let fixture = try StoreFixture()
        try await fixture.serving { client async throws in
            var ids: [String] = []
            for (number, text) in ["one", "two"].enumerated() {
                let id = try #require(try await client.upload(.bytes(Array(text.utf8))).stored?.id)
                let author = Author(fixture.log, actor: UInt64(number) + 1)
                try await author.write("cars", "a") { editor in
                    editor.create()
                    try editor.set(["photo"], Self.token(id))
                }
                ids.append(id)
            }
            let reader = client.with(token: fixture.token(grant(["cars": ["true"]])))
            for id in ids { #expect(try await reader.get(id).status == 200) }
        }
    }

    @Test("after more changes than are remembered all documents are looked through once more")
    func manyChanges() async throws {
        let fixture = try StoreFixture()
        try await fixture.serving { client async throws in
            let id = try #require(try await client.upload(.bytes(Array("blob".utf8))).stored?.id)
            let reader = client.with(token: fixture.token(grant(["cars": ["true"]])))
            #expect(try await reader.get(id).status == 404)
            let author = Author(fixture.log)
            try await author.write("cars", "first") { editor in
                editor.create()
                try editor.set(["photo"], Self.token(id))
            }
            // One operation of as many documents as are remembered, so that the first is forgotten.
            let stamp = Stamp(time: 1 << 16, actor: ActorID(9))
            var editor = DocumentEditor(document: Document(), stamp: stamp)
            editor.create()
            let delta = try #require(editor.pending.delta(stamp: stamp)).encoded()
            let changes = try (0..<Limits.rememberedChanges).map {
                CRDT.Operation.Change(
                    collection: "cars", id: try DocumentID(.int(Int64($0))), delta: delta)
            }
            let many = CRDT.Operation(
                actor: stamp.actor, sequence: 1, timestamp: stamp.time, changes: changes)
            _ = try await fixture.log.append([AppendRequest(many, authorKey: "k")], to: "cars")
            #expect(try await reader.get(id).status == 200)
        }
    }

    @Test("an upload is for whoever may write something")
    func uploads() async throws {
        let fixture = try StoreFixture()
        try await fixture.serving { client async throws in
            let rows: [(grant: Grant, status: Int)] = [
                (.everything, 200), (.readOnly, 403), (.nothing, 403),
                (grant(["cars": ["_id = 'own'"]]), 200), (grant(["cars": []]), 403),
            ]
            for row in rows {
                let writer = client.with(token: fixture.token(row.grant))
                #expect(try await writer.upload(.bytes([1])).status == row.status, "\(row.grant)")
            }
        }
    }
}
