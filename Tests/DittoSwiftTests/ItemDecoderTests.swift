import CRDT
import Foundation
import Testing

@testable import DittoSwift

@Suite("Decoding items")
struct ItemDecoderTests {
    private enum Color: String, Codable { case red, blue }

    private struct Part: Codable, Equatable {
        var number: Int
        var weight: Double
    }

    private struct Car: Codable, Equatable {
        var _id: String
        var color: Color
        var built: Date
        var key: UUID
        var page: URL?
        var price: Decimal
        var seal: Data
        var parts: [Part]
        var byColor: [Color: Part]
        var byNumber: [UInt8: String]
        var tags: Set<String>
        var note: String?
    }

    private static let car = Car(
        _id: "1", color: .blue, built: Date(timeIntervalSince1970: 1_700_000_000.5), key: UUID(),
        page: URL(string: "https://a.example/1"), price: Decimal(string: "19.99") ?? 0, seal: Data([1, 255]),
        parts: [Part(number: 1, weight: 2), Part(number: 2, weight: 0.5)],
        byColor: [.red: Part(number: 3, weight: 1)], byNumber: [7: "seven"], tags: ["a", "b"], note: nil)

    private func item(_ argument: Any) throws -> DittoQueryResultItem {
        DittoQueryResultItem(try Arguments.value(argument, path: "", depth: 0))
    }

    private func message(_ body: () throws -> Void) -> String {
        do {
            try body()
            return "nothing was thrown"
        } catch {
            #expect(storeReason(error) == "queryError")
            return (error as? DittoSwiftError)?.errorDescription ?? "\(error)"
        }
    }

    @Test("a type comes back from a store as it was given to it")
    func roundTrip() async throws {
        try await withDitto { ditto in
            try await ditto.store.execute(
                query: "INSERT INTO cars DOCUMENTS (:car)", arguments: ["car": Self.car])
            let items = try await ditto.store.execute(query: "SELECT * FROM cars").items
            #expect(try items.map { try $0.decode(as: Car.self) } == [Self.car])
            #expect(items.first?.isMaterialized == false)
        }
    }

    @Test("numbers are read as the type that is asked for, if nothing is lost")
    func numbers() throws {
        #expect(try item(["number": 1.0, "weight": 2]).decode(as: Part.self) == Part(number: 1, weight: 2))
        #expect(
            message { _ = try item(["number": 1.5, "weight": 2]).decode(as: Part.self) }.contains(
                "'number' is a float"))
        #expect(message { _ = try item(300).decode(as: UInt8.self) }.contains("is an integer"))
        #expect(try item(7).decode(as: Int.self) == 7)
        #expect(try item(0.25).decode(as: Float.self) == 0.25)
    }

    @Test("an optional is nil where the field is null or missing")
    func optionals() throws {
        struct Note: Decodable, Equatable { var text: String? }
        #expect(try item(["text": nil] as [String: String?]).decode(as: Note.self) == Note(text: nil))
        #expect(try item([String: String]()).decode(as: Note.self) == Note(text: nil))
        #expect(try item([1, nil, 3]).decode(as: [Int?].self) == [1, nil, 3])
    }

    @Test("an item that is no such type is refused with the path of the field")
    func refused() throws {
        struct Garage: Decodable { var cars: [Part] }
        let missing = message { _ = try item(["cars": [["number": 1]]]).decode(as: Garage.self) }
        #expect(missing == "SDK-0210: the item is no Garage: 'cars[0].weight' is missing")
        let null = message {
            _ = try item(["cars": [["number": nil, "weight": 1] as [String: Any?]]]).decode(as: Garage.self)
        }
        #expect(null == "SDK-0210: the item is no Garage: 'cars[0].number' is null, not Int")
        let shape = message { _ = try item(["cars": "none"]).decode(as: Garage.self) }
        #expect(shape.hasPrefix("SDK-0210: the item is no Garage: 'cars' is a text, not "))
        #expect(message { _ = try item("text").decode(as: Int.self) }.contains("the row is a text, not Int"))
        #expect(message { _ = try item("soon").decode(as: Date.self) }.contains("is a text, not Date"))
        #expect(message { _ = try item(["a": 1]).decode(as: [Color: Int].self) }.contains("'a'"))
        #expect(message { _ = try item("green").decode(as: Color.self) }.contains("green"))
    }

    @Test("every container of a decoder reads what the encoder wrote")
    func containers() throws {
        #expect(try item(["list": [1, nil, ["deep": true]]] as [String: Any?]).decode(as: Nested.self).deep)
        #expect(message { _ = try item(["list": [1]]).decode(as: Nested.self) }.contains("'list[1]' is"))
    }

    private struct Nested: Decodable {
        let deep: Bool

        init(from decoder: any Decoder) throws {
            let members = try decoder.container(keyedBy: Step.self)
            #expect(members.allKeys.map(\.stringValue) == ["list"])
            #expect(members.contains(Step("list")) && !members.contains(Step("none")))
            var list = try members.nestedUnkeyedContainer(forKey: Step("list"))
            #expect(try list.decodeNil() == false)
            #expect(try list.decode(Int.self) == 1)
            #expect(try list.decodeNil())
            #expect(list.currentIndex == 2 && !list.isAtEnd)
            let last = try list.nestedContainer(keyedBy: Step.self)
            deep = try last.decode(Bool.self, forKey: Step("deep"))
            #expect(list.isAtEnd)
        }
    }
}
