import CRDT
import DQL
import Foundation

/// A place in a document. Its value is read by type: an accessor whose name ends in `Value` gives a default
/// where there is nothing, or something of another type; the others give nil. A number is no text, and a text
/// no number; a whole double counts as an integer, an integer as a double.
@available(*, deprecated, message: "Use DittoQueryResultItem.value or DittoQueryResultItem.decode(as:)")
public class DittoDocumentPath {
    let place: LegacyPlace

    init(_ place: LegacyPlace) { self.place = place }

    /// The place of a field below this one.
    public subscript(key: String) -> DittoDocumentPath { DittoDocumentPath(place.then(.key(key))) }
    /// The place of an element of the array here.
    public subscript(index: Int) -> DittoDocumentPath { DittoDocumentPath(place.then(.index(index))) }

    /// The value in the types that applications use; nil also where there is none.
    public var value: Any? { place.value?.plain ?? nil }
    /// A text.
    public var string: String? { place.value?.stringValue }
    /// A text, or "".
    public var stringValue: String { string ?? "" }
    /// A boolean.
    public var bool: Bool? { place.value?.boolValue }
    /// A boolean, or false.
    public var boolValue: Bool { bool ?? false }
    /// An integer.
    public var int: Int? { place.value?.wholeNumber }
    /// An integer, or 0.
    public var intValue: Int { int ?? 0 }
    /// An integer that is not negative.
    public var uint: UInt? { int.flatMap { UInt(exactly: $0) } }
    /// An integer that is not negative, or 0.
    public var uintValue: UInt { uint ?? 0 }
    /// A number.
    public var double: Double? { place.value?.anyNumber }
    /// A number, or 0.
    public var doubleValue: Double { double ?? 0 }
    /// A number.
    public var float: Float? { double.map { Float($0) } }
    /// A number, or 0.
    public var floatValue: Float { float ?? 0 }
    /// An array.
    public var array: [Any?]? { place.value?.arrayValue.map { $0.map(\.plain) } }
    /// An array, or an empty one.
    public var arrayValue: [Any?] { array ?? [] }
    /// A dictionary.
    public var dictionary: [String: Any?]? { place.value?.objectValue?.plain }
    /// A dictionary, or an empty one.
    public var dictionaryValue: [String: Any?] { dictionary ?? [:] }
    /// The token of an attachment.
    public var attachmentToken: DittoAttachmentToken? {
        guard place.kind == .attachment || place.kind == .map || place.kind == .register else { return nil }
        return place.value.flatMap { AttachmentToken($0) }.map { DittoAttachmentToken($0) }
    }
    /// A counter; nil for a plain number.
    public var counter: DittoCounter? {
        place.kind == .counter ? place.value.map { DittoCounter($0) } : nil
    }
    /// A register: any value that is written as a whole.
    public var register: DittoRegister? {
        place.kind == .register ? place.value.map { DittoRegister(value: $0.plain) } : nil
    }
}
