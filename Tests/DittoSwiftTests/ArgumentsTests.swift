import CRDT
import Testing

@testable import DittoSwift

@Suite("Arguments")
struct ArgumentsTests {
    private func value(_ argument: Any?) throws -> Value? {
        try Arguments.object(["a": argument])["a"]
    }

    private func failure(_ argument: Any?) -> SDKError? {
        do {
            _ = try Arguments.object(["a": argument])
            return nil
        } catch { return error }
    }

    @Test("plain values keep their types")
    func plain() throws {
        #expect(try value(nil) == .null)
        #expect(try value(true) == .bool(true))
        #expect(try value(1) == .int(1))
        #expect(try value(1.0) == .double(1))
        #expect(try value(Float(0.5)) == .double(0.5))
        #expect(try value(UInt8(7)) == .int(7))
        #expect(try value("text") == .string("text"))
        #expect(try value("text".dropFirst()) == .string("ext"))
        #expect(try value(Data([1, 2])) == .binary([1, 2]))
        #expect(try value(NSNull()) == .null)
    }

    @Test("an NSNumber keeps the type it was made of")
    func numbers() throws {
        #expect(try value(NSNumber(value: true)) == .bool(true))
        #expect(try value(NSNumber(value: 1)) == .int(1))
        #expect(try value(NSNumber(value: 1.0)) == .double(1))
        let parsed = try JSONSerialization.jsonObject(with: Data("[true,1,1.5,null,\"x\"]".utf8))
        #expect(try value(parsed) == [true, 1, 1.5, .null, "x"])
    }

    @Test("optionals are opened, however deep")
    func optionals() throws {
        let once: Int? = 1
        let none: Int? = nil
        let twice: Int?? = .some(.none)
        #expect(try value(once) == 1)
        #expect(try value(none) == .null)
        #expect(try value(twice as Any?) == .null)
        #expect(try value(["x": none, "y": once]) == ["x": .null, "y": 1])
    }

    @Test("arrays and dictionaries nest, with elements of any taken type")
    func nested() throws {
        #expect(try value([1, "two", [3.0]] as [Any]) == [1, "two", [3.0]])
        #expect(try value(["k": ["n": 1], "l": []] as [String: Any]) == ["k": ["n": 1], "l": []])
        #expect(try value([String: Any]()) == .object(ObjectValue()))
        #expect(try value(["a", "b"]) == ["a", "b"])
    }

    @Test("a dictionary's keys come in the order of their bytes, the same in every process")
    func order() throws {
        let names = (0..<12).map { "key \($0)" }
        let members = Dictionary(uniqueKeysWithValues: names.map { ($0, 1) })
        let object = try #require(try value(members)?.objectValue)
        #expect(object.entries.map(\.key) == names.sorted())
        let open = try #require(try value(members as [String: Any?])?.objectValue)
        #expect(open.entries.map(\.key) == names.sorted())
    }

    @Test("a document id is an argument")
    func ids() throws {
        #expect(try value(DittoDocumentID(value: ["a": 1])) == ["a": 1])
        #expect(try value(DittoDocumentID("x")) == "x")
    }

    @Test("another type is refused by the argument's path and the type's name")
    func refused() throws {
        let error = try #require(failure(["list": [1, Opaque()]] as [String: Any]))
        #expect(error.code == "SDK-0201")
        #expect(error.message.contains("'a.list[1]'"))
        #expect(error.message.contains("Opaque"))
        #expect(failure({ () -> Int in 1 })?.code == "SDK-0201")
    }

    @Test("an integer beyond 64 bits is refused")
    func tooLarge() {
        #expect(failure(UInt64.max)?.code == "SDK-0202")
        #expect(failure(NSNumber(value: UInt64.max))?.code == "SDK-0202")
    }

    @Test("nesting deeper than documents may be is refused")
    func tooDeep() {
        let deep = (0..<200).reduce(1 as Any) { inside, _ in [inside] }
        #expect(failure(deep)?.code == "SDK-0203")
    }

    @Test("dates, ids, addresses and characters are texts")
    func texts() throws {
        let date = Date(timeIntervalSince1970: 1_764_146_096.25)
        #expect(try value(date) == "2025-11-26T08:34:56.250Z")
        let id = UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
        #expect(try value(id) == "01020304-0506-0708-090A-0B0C0D0E0F10")
        #expect(try value(URL(string: "https://a.example/b?c=d")) == "https://a.example/b?c=d")
        #expect(try value(Character("é")) == "é")
        #expect(failure(Date(timeIntervalSince1970: 1e12))?.code == "SDK-0202")
    }

    @Test("a decimal is an integer where it is one, else the nearest double")
    func decimals() throws {
        #expect(try value(Decimal(string: "1200")) == 1_200)
        #expect(try value(Decimal(string: "12.00")) == 12)
        #expect(try value(Decimal(string: "-0.1")) == .double(-0.1))
        #expect(try value(Decimal(string: "9223372036854775807")) == .int(.max))
        #expect(try value(Decimal(string: "9223372036854775808")) == .double(9_223_372_036_854_775_808))
        #expect(try value(NSDecimalNumber(string: "7")) == 7)
        #expect(try value(NSDecimalNumber(string: "7.5")) == .double(7.5))
    }

    @Test("enums are their raw values, unless they encode themselves otherwise")
    func enums() throws {
        #expect(try value(Color.blue) == "blue")
        #expect(try value([Color.blue, .red]) == ["blue", "red"])
        #expect(try value(Size.large) == 3)
        #expect(try value(Mark.tick) == "x")
        #expect(try value(Loud.yes) == "YES")
        #expect(failure(Unraw.plain)?.code == "SDK-0201")
    }

    @Test("slices are arrays, and so are sets, in an order that is always the same")
    func collections() throws {
        #expect(try value([1, 2, 3].dropFirst()) == [2, 3])
        #expect(try value(ContiguousArray(["a", "b"])) == ["a", "b"])
        #expect(try value(Set([30, 4, -100, 256])) == [-100, 4, 30, 256])
        #expect(try value(Set(["b", "aa", "a"])) == ["a", "aa", "b"])
        #expect(try value(Set([Color.red, .blue])) == ["blue", "red"])
    }

    @Test("every other collection is an array too")
    func otherCollections() throws {
        #expect(try value(["a": 1].keys) == ["a"])
        #expect(try value(["a": Color.red].values) == ["red"])
        #expect(try value([1, 2, 3].lazy.filter { $0 != 2 }) == [1, 3])
        #expect(try value([[1], [2, 3]].joined()) == [1, 2, 3])
        #expect(failure(["a": Opaque()].values)?.message.contains("'a[0]'") ?? false)
    }

    @Test("a dictionary's keys are texts, also those of enums, ids and integers")
    func keys() throws {
        #expect(try value([Color.red: 1, .blue: 2]) == ["blue": 2, "red": 1])
        #expect(try value([7: "seven"]) == ["7": "seven"])
        #expect(failure([[1]: "list"])?.code == "SDK-0201")
        #expect(failure([AnyHashable(1): "a", AnyHashable("1"): "b"])?.message.contains("two keys") ?? false)
    }

    @Test("what encodes itself becomes an object, with everything in it as it is elsewhere")
    func encodables() throws {
        let car = Car(
            make: "Opel", color: .red, built: Date(timeIntervalSince1970: 0), owner: nil,
            parts: ["a": Car.Part(number: 1, seal: Data([7]))], tags: ["x"])
        let expected: Value = [
            "built": "1970-01-01T00:00:00.000Z", "color": "red", "make": "Opel",
            "parts": ["a": ["number": 1, "seal": .binary([7])]], "tags": ["x"],
        ]
        #expect(try value(car) == expected)
        #expect(try value([car]) == [expected])
        #expect(try value(["first": car]) == ["first": expected])
        #expect(
            try value(car)?.objectValue?.entries.map(\.key) == ["built", "color", "make", "parts", "tags"])
        #expect(try value(Free.circle(radius: 2)) == ["circle": ["radius": 2]])
        #expect(try value(Nested()) == ["inner": ["list": [1, .null, ["deep": true]]], "super": ["n": 1]])
    }

    @Test("a member that cannot be encoded is named by its path")
    func encodingFails() throws {
        let long = try #require(failure(["cars": [Big(number: .max)]] as [String: Any]))
        #expect(long.code == "SDK-0202")
        #expect(long.message.contains("'a.cars[0].number'"))
        let broken = try #require(failure(["x": Broken()]))
        #expect(broken.code == "SDK-0201")
        #expect(broken.message == "argument 'a.x.deep[2]' cannot be encoded: too odd")
        #expect(failure(Silent())?.message.contains("encodes nothing") ?? false)
        #expect(failure(Chain(depth: 200))?.code == "SDK-0203")
    }

    @Test("no arguments are an empty object")
    func none() throws {
        #expect(try Arguments.object(nil).isEmpty)
        #expect(try Arguments.object([:]).isEmpty)
    }
}

// MARK: - Types as applications have them

private struct Opaque {}

private enum Color: String, Codable { case red, blue }

private enum Size: Int { case small = 1, large = 3 }

private enum Mark: Character { case tick = "x" }

private enum Unraw { case plain }

private enum Loud: String, Encodable {
    case yes
    func encode(to encoder: any Encoder) throws {
        var one = encoder.singleValueContainer()
        try one.encode(rawValue.uppercased())
    }
}

private enum Free: Codable { case circle(radius: Int) }

private struct Car: Codable {
    struct Part: Codable {
        var number: Int
        var seal: Data
    }
    var make: String
    var color: Color
    var built: Date
    var owner: String?
    var parts: [String: Part]
    var tags: Set<String>
}

private struct Big: Encodable { var number: UInt64 }

private struct Silent: Encodable { func encode(to encoder: any Encoder) throws {} }

private struct Broken: Encodable {
    func encode(to encoder: any Encoder) throws {
        throw EncodingError.invalidValue(
            1,
            EncodingError.Context(
                codingPath: [Step("deep"), Step(2)], debugDescription: "too odd"))
    }
}

private final class Chain: Encodable {
    let next: Chain?
    init(depth: Int) { next = depth > 0 ? Chain(depth: depth - 1) : nil }
}

/// Uses every container of an encoder.
private struct Nested: Encodable {
    func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: Step.self)
        var inner = members.nestedContainer(keyedBy: Step.self, forKey: Step("inner"))
        var list = inner.nestedUnkeyedContainer(forKey: Step("list"))
        try list.encode(1)
        try list.encodeNil()
        var deep = list.nestedContainer(keyedBy: Step.self)
        try deep.encode(true, forKey: Step("deep"))
        var above = members.superEncoder().container(keyedBy: Step.self)
        try above.encode(1, forKey: Step("n"))
    }
}
