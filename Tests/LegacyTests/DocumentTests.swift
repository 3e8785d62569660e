import DittoSwift
import Foundation
import TestSupport
import Testing

@Suite("Documents of the 4.x API")
struct DocumentTests {
    @Test("accessors give the value of their type, and else nil or a default")
    func accessors() async throws {
        try await withLegacyStore { ditto in
            let things = ditto.store.collection("things")
            try things.upsert(
                [
                    "_id": "a", "text": "x", "flag": true, "int": 7, "whole": 3.0, "part": 2.5, "none": nil,
                    "list": [1, "two", ["k": 3]], "map": ["k": ["l": "deep"]], "data": Data([1, 2]),
                ] as [String: Any?])
            let thing = try #require(things.findByID("a").exec())
            #expect(thing["_id"].stringValue == "a")
            #expect(thing["text"].string == "x" && thing["text"].stringValue == "x")
            #expect(thing["int"].string == nil && thing["int"].stringValue == "")
            #expect(thing["flag"].bool == true && thing["flag"].boolValue)
            #expect(thing["int"].bool == nil && !thing["int"].boolValue)
            #expect(thing["int"].int == 7 && thing["int"].uintValue == 7 && thing["int"].double == 7)
            #expect(thing["whole"].int == 3 && thing["part"].int == nil && thing["part"].intValue == 0)
            #expect(thing["part"].doubleValue == 2.5 && thing["part"].float == 2.5)
            #expect(
                thing["text"].double == nil && thing["text"].doubleValue == 0 && thing["text"].floatValue == 0
            )
            #expect(thing["list"].array?.count == 3 && thing["list"].arrayValue.count == 3)
            #expect(thing["text"].array == nil && thing["text"].arrayValue.isEmpty)
            #expect(thing["list"][1].stringValue == "two" && thing["list"][2]["k"].intValue == 3)
            #expect(thing["list"][9].value == nil && thing["list"]["k"].value == nil)
            #expect(thing["map"]["k"]["l"].stringValue == "deep")
            #expect(thing["map"].dictionary?.keys.first == "k" && thing["map"].dictionaryValue.count == 1)
            #expect(thing["text"].dictionary == nil && thing["text"].dictionaryValue.isEmpty)
            #expect(thing["none"].value == nil && thing["nothing"].value == nil)
            #expect(thing["nothing"]["below"][0].string == nil)
            #expect(thing["data"].value as? Data == Data([1, 2]))
            #expect(thing.value.count == 10)
            #expect(thing.description.contains(#""text":"x""#))
        }
    }

    @Test("a document does not change after it was read")
    func snapshot() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            try cars.upsert(["_id": "a", "n": 1])
            let before = try #require(cars.findByID("a").exec())
            try cars.upsert(["_id": "a", "n": 2])
            #expect(before["n"].intValue == 1)
            cars.findByID("a").remove()
            #expect(before["n"].intValue == 1 && before.value["n"] as? Int == 1)
        }
    }

    @Test("counters, registers and attachments are what was written as such, and nothing else")
    func kinds() async throws {
        try await withLegacyStore { ditto in
            let things = ditto.store.collection("things")
            let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID())")
            try Data("bytes".utf8).write(to: file)
            defer { try? FileManager.default.removeItem(at: file) }
            let attachment = try #require(things.newAttachment(path: file.path, metadata: ["k": "v"]))
            try things.upsert(
                [
                    "_id": "a", "count": DittoCounter(), "nested": ["count": DittoCounter(), "n": 1],
                    "whole": DittoRegister(value: ["x": 1, "y": 2]), "map": ["x": 1], "n": 5,
                    "file": attachment,
                ] as [String: Any?])
            let thing = try #require(things.findByID("a").exec())
            #expect(thing["count"].counter?.value == 0 && thing["nested"]["count"].counter == DittoCounter())
            #expect(thing["n"].counter == nil && thing["nested"]["n"].counter == nil)
            #expect((thing["whole"].register?.value as? [String: Any?])?.count == 2)
            #expect(thing["map"].register == nil && thing["n"].register?.value as? Int == 5)
            let token = try #require(thing["file"].attachmentToken)
            #expect(token.id == attachment.id && token.len == 5 && token.metadata == ["k": "v"])
            #expect(thing["n"].attachmentToken == nil && thing["map"].attachmentToken == nil)
            // The token is the attachment, in another document too.
            try things.upsert(["_id": "b", "file": token])
            #expect(things.findByID("b").exec()?["file"].attachmentToken == token)
            let bytes = Gathered<Data>()
            things.fetchAttachment(token: token) { event in
                if case .completed(let found) = event { bytes.add((try? found.getData()) ?? Data()) }
            }
            #expect(await bytes.wait { !$0.isEmpty } == [Data("bytes".utf8)])
            #expect(things.newAttachment(path: file.path + "-none") == nil)
            // The current API sees the same kinds.
            try await ditto.store.execute(
                query: "UPDATE things APPLY count PN_INCREMENT BY 2 SET map.y = 2 WHERE _id = 'a'")
            #expect(things.findByID("a").exec()?["count"].counter?.value == 2)
            #expect(things.findByID("a").exec()?["map"].dictionaryValue.count == 2)
        }
    }

    @Test(
        "an id finds its document, by itself and as text in a query",
        arguments: [
            "plain", #"a "quoted" \ id"#, "line\nbreak\t", "ü'n", 5, true, ["a", 1],
            ["orderId": "x", "owner": ["n": 1, "flag": false], "list": [1, "z"]], "",
        ] as [DittoDocumentID])
    func ids(id: DittoDocumentID) async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            try cars.upsert(["_id": id, "n": 1] as [String: Any?])
            try cars.upsert(["_id": "other"])
            #expect(cars.findByID(id).exec()?["n"].intValue == 1)
            #expect(cars.findByID(id.value).exec()?.id == id)
            #expect(cars.find("_id == \(id.toString())").exec().map(\.id) == [id])
            #expect(cars.find("_id == $args.id", args: ["id": id]).exec().map(\.id) == [id])
        }
    }

    @Test("an id is read by its type and by its parts")
    func idParts() {
        let id: DittoDocumentID = ["order": "x", "n": 5, "list": ["a", true]]
        #expect(id["order"].stringValue == "x" && id["n"].intValue == 5 && id["n"].string == nil)
        #expect(id["list"][0].string == "a" && id["list"][1].boolValue && id["none"].value == nil)
        #expect(id["list"].arrayValue.count == 2 && id["n"].array == nil && id["n"].dictionary == nil)
        #expect(id.stringValue == "" && id.intValue == 0 && id.string == nil)
        #expect(DittoDocumentID(value: "x").stringValue == "x")
        #expect(DittoDocumentID(value: 5).intValue == 5)
        #expect(DittoDocumentID(value: 5).toString() == "5")
        #expect(DittoDocumentID(value: "x").toString() == "\"x\"")
        #expect(id.toString() == #"{"list": ["a", true], "n": 5, "order": "x"}"#)
    }
}
