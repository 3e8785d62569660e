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
        let error = try #require(failure(["list": [1, Date()]] as [String: Any]))
        #expect(error.code == "SDK-0201")
        #expect(error.message.contains("'a.list[1]'"))
        #expect(error.message.contains("Date"))
        #expect(failure(UUID())?.code == "SDK-0201")
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

    @Test("no arguments are an empty object")
    func none() throws {
        #expect(try Arguments.object(nil).isEmpty)
        #expect(try Arguments.object([:]).isEmpty)
    }
}
