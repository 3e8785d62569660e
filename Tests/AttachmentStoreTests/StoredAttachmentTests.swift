import AttachmentStore
import CRDT
import Foundation
import Identity
import OperationLog
import Testing

@Suite("Stored attachments: quota, collection, verification", .timeLimit(.minutes(5)))
struct StoredAttachmentTests {
    private static let base = "/admin/attachment-store/databases/cars"

    private func answer(
        _ client: StoreClient, _ method: String, _ path: String
    ) async throws -> (status: Int, value: Value) {
        let admin = client.with(token: StoreFixture.adminToken)
        let answer = try await admin.send(
            method, "\(Self.base)/\(path)", [:], method == "POST" ? .bytes([UInt8]()) : nil)
        return (answer.status, (try? JSONText.parse(answer.body)) ?? .null)
    }

    @Test(
        "attachments of documents stay, others go after their time, and a client is told that they have gone")
    func collected() async throws {
        let fixture = try StoreFixture()
        let limited = fixture.token(
            Grant(read: AccessRules(queriesByCollection: ["cars": ["true"]]), queryLanguage: 1))
        let author = Author(fixture.log)
        try await fixture.serving { client async throws in
            var ids: [String] = []
            for byte in UInt8(1)...4 { ids.append(try await client.upload(.bytes([byte])).stored?.id ?? "") }
            let values: [Value] = [
                ["photo": AttachmentToken(id: ids[0], length: 1)?.marked ?? .null],
                ["note": ["deep": [.string("see \(ids[1])")]]],
            ]
            for (index, value) in values.enumerated() {
                try await author.insert("car-\(index)", value)
            }
            let early = try await answer(client, "POST", "collections")
            #expect(early.value["waiting"] == 2 && early.value["mentioned"] == 2)
            let late = try await answer(client, "POST", "collections?graceHours=0")
            #expect(late.status == 200 && late.value["removed"] == 2 && late.value["isWhole"] == true)
            for (index, id) in ids.enumerated() {
                #expect(try await client.get(id).status == (index < 2 ? 200 : 410), "\(index)")
            }
            #expect(try await client.get(ids[2]).code == "BLOB-0110")
            // Somebody with fewer rights does not learn that it was there.
            #expect(try await client.with(token: limited).get(ids[2]).code == "BLOB-0102")
            #expect(try await client.upload(.bytes([3])).status == 200)
            #expect(try await client.get(ids[2]).body == [3])
            #expect(try await answer(client, "POST", "collections?graceHours=x").status == 400)
        }
    }

    @Test("an operator sees what is stored, and begins a verification that finds what is damaged")
    func operated() async throws {
        let fixture = try StoreFixture()
        try await fixture.serving { client async throws in
            var ids: [String] = []
            for byte in UInt8(1)...3 {
                ids.append(try await client.upload(.bytes([byte, byte])).stored?.id ?? "")
            }
            _ = try await client.send(
                "POST", "/api/v5/attachments/uploads", ["Tus-Resumable": "1.0.0", "Upload-Length": "9"])
            let usage = try await answer(client, "GET", "usage").value
            #expect(usage["attachments"] == 3 && usage["bytes"] == 6 && usage["uploads"] == 1)
            let first = try await answer(client, "GET", "attachments?limit=2").value
            let rows = first["attachments"]?.arrayValue ?? []
            #expect(rows.map { $0["id"]?.stringValue ?? "" } == Array(ids.sorted().prefix(2)))
            let rest = try await answer(client, "GET", "attachments?after=\(ids.sorted()[1])").value
            #expect(rest["attachments"]?.arrayValue?.count == 1)
            let path = "\(fixture.folder)/blobs/cars/\(ids[0].prefix(2))/\(ids[0])"
            try Data([7, 7]).write(to: URL(fileURLWithPath: path))
            #expect(try await answer(client, "GET", "verifications").value == ["running": false])
            #expect(try await answer(client, "POST", "verifications").status == 202)
            var course: Value = .null
            while course["running"] != false || course["endedAt"] == nil {
                course = try await answer(client, "GET", "verifications").value
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(course["checked"] == 3 && course["damaged"] == 1)
            #expect(course["unread"] == 0 && course["isWhole"] == true)
            #expect(try await answer(client, "GET", "usage").value["damaged"] == [.string(ids[0])])
            let other = "/admin/attachment-store/databases/none/usage"
            let unknown = try await client.with(token: StoreFixture.adminToken).send("GET", other)
            #expect(unknown.status == 404 && unknown.code == "ATT-0303")
            #expect(try await client.send("GET", "\(Self.base)/usage").status == 401)
        }
    }

    @Test("a database's attachments have no more bytes than its quota, by whatever way they come")
    func quota() async throws {
        let fixture = try StoreFixture(quotaBytes: 1_000)
        try await fixture.serving { client async throws in
            let tus = ["Tus-Resumable": "1.0.0"]
            func begin(_ length: Int) async throws -> Answer {
                try await client.send(
                    "POST", "/api/v5/attachments/uploads",
                    tus.merging(["Upload-Length": "\(length)"]) { a, _ in a })
            }
            #expect(try await client.upload(.bytes([UInt8](repeating: 1, count: 1_001))).status == 413)
            #expect(try await begin(1_001).code == "BLOB-0103")
            #expect(try await client.upload(.bytes([UInt8](repeating: 2, count: 600))).status == 200)
            let full = try await client.upload(.bytes([UInt8](repeating: 3, count: 600)))
            #expect(full.status == 507 && full.code == "ATT-0301")
            // An unfinished upload has its room already.
            let begun = try await begin(300)
            #expect(begun.status == 201)
            #expect(try await begin(300).code == "ATT-0301")
            _ = try await client.send("DELETE", begun.headers["location"] ?? "", tus)
            #expect(try await begin(300).status == 201)
            // What is collected makes room.
            #expect(try await answer(client, "POST", "collections?graceHours=0").value["removed"] == 1)
            #expect(try await client.upload(.bytes([UInt8](repeating: 3, count: 600))).status == 200)
        }
    }

    @Test(
        "a download has the name that its document or its client gives, and no name becomes a header or path")
    func fileNames() async throws {
        let fixture = try StoreFixture()
        let limited = fixture.token(
            Grant(read: AccessRules(queriesByCollection: ["cars": ["true"]]), queryLanguage: 1))
        let author = Author(fixture.log)
        try await fixture.serving { client async throws in
            let id = try await client.upload(.bytes([1])).stored?.id ?? ""
            let token = AttachmentToken(id: id, length: 1, metadata: [(key: "name", value: "é \"1\".jpg")])
            try await author.insert("car", ["photo": token?.marked ?? .null])
            let named = try await client.with(token: limited).get(id)
            let expected = "attachment; filename=\"_ _1_.jpg\"; filename*=UTF-8''%C3%A9%20%221%22.jpg"
            #expect(named.headers["content-disposition"] == expected)
            #expect(named.headers["x-content-type-options"] == "nosniff")
            #expect(try await client.get(id).headers["content-disposition"] == expected)
            let bytes = try await client.get(id, ["Accept": "application/octet-stream"])
            #expect(bytes.headers["content-disposition"] == nil)
            let asked = try await client.get("\(id)?filename=..%2F..%2Fa%0D%0Ab")
            #expect(
                asked.headers["content-disposition"]
                    == "attachment; filename=\"....ab\"; filename*=UTF-8''....ab")
            #expect(try await client.get(id, ["If-Match": "\"x\""]).code == "ATT-0105")
        }
    }

    @Test(
        "a download has its token's type; a browser shows only what cannot run, and is told no type of code",
        arguments: [
            ("image/png", "image/png", "inline"), ("IMAGE/JPEG; q=1", "image/jpeg", "inline"),
            ("text/plain", "text/plain; charset=utf-8", "inline"), ("video/mp4", "video/mp4", "inline"),
            ("image/svg+xml", "image/svg+xml", "attachment"),
            ("application/json", "application/json", "attachment"),
            ("text/html", "application/octet-stream", nil),
            ("text/javascript", "application/octet-stream", nil),
            ("application/xhtml+xml", "application/octet-stream", nil),
            ("image/png\r\nX: y", "application/octet-stream", nil),
            ("image", "application/octet-stream", nil),
        ])
    func types(given: String, type: String, disposition: String?) async throws {
        let fixture = try StoreFixture()
        let author = Author(fixture.log)
        try await fixture.serving { client async throws in
            let id = try await client.upload(.bytes([1])).stored?.id ?? ""
            let token = AttachmentToken(id: id, length: 1, metadata: [(key: "mime_type", value: given)])
            try await author.insert("car", ["photo": token?.marked ?? .null])
            let shown = try await client.get(id)
            #expect(shown.headers["content-type"] == type)
            #expect(shown.headers["content-disposition"] == disposition)
            #expect(shown.headers["x-content-type-options"] == "nosniff")
            let saved = try await client.get("\(id)?filename=a")
            #expect(saved.headers["content-disposition"]?.hasPrefix("attachment; filename=\"a\"") == true)
        }
    }

    @Test("the hashes of an attachment's chunks are served to whoever may read it")
    func chunks() async throws {
        try await StoreFixture().serving { client async throws in
            let bytes = [UInt8](repeating: 5, count: 1_500_000)
            let id = try await client.upload(.bytes(bytes)).stored?.id ?? ""
            let answer = try await client.send("GET", "/api/v5/attachments/\(id)/chunks")
            let value = try JSONText.parse(answer.body)
            #expect(value["len"] == 1_500_000 && value["chunkBytes"] == 1_048_576)
            #expect(value["chunks"]?.arrayValue?.count == 2)
            let none = String(repeating: "A", count: 43)
            #expect(try await client.send("GET", "/api/v5/attachments/\(none)/chunks").status == 404)
            #expect(
                try await client.with(token: nil).send("GET", "/api/v5/attachments/\(id)/chunks").status
                    == 401
            )
        }
    }
}
