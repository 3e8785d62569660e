import CRDT
import Foundation

extension Value {
    /// The value in the types that applications use: `Bool`, `Int`, `Double`, `String`, `Data`, `[Any?]`,
    /// `[String: Any?]`, nil.
    var plain: Any? {
        switch self {
        case .null: nil
        case .bool(let flag): flag
        case .int(let number): Int(number)
        case .double(let number): number
        case .string(let text): text
        case .binary(let bytes): Data(bytes)
        case .array(let elements): elements.map(\.plain)
        case .object(let object): object.plain
        }
    }
}

extension ObjectValue {
    /// As `Value.plain`. Swift's dictionaries compare keys canonically: of two canonically equal keys with
    /// different bytes, only the later one in byte order is visible.
    var plain: [String: Any?] {
        var members: [String: Any?] = Dictionary(minimumCapacity: count)
        for (key, value) in sorted { members.updateValue(value.plain, forKey: key) }
        return members
    }
}
