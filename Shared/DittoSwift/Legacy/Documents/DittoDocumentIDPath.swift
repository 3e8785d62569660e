import CRDT
import Foundation

extension DittoDocumentID {
    /// A part of an id that is a dictionary, whether it exists or not.
    @available(*, deprecated, message: "Use value")
    public subscript(key: String) -> DittoDocumentIDPath {
        DittoDocumentIDPath(LegacyPlace(source: .value(content), steps: [.key(key)]))
    }

    /// An element of an id that is an array, whether it exists or not.
    @available(*, deprecated, message: "Use value")
    public subscript(index: Int) -> DittoDocumentIDPath {
        DittoDocumentIDPath(LegacyPlace(source: .value(content), steps: [.index(index)]))
    }
}

/// A part of a document's id.
@available(*, deprecated, message: "Use DittoDocumentID.value")
public struct DittoDocumentIDPath: Sendable {
    private let place: LegacyPlace

    init(_ place: LegacyPlace) { self.place = place }

    /// A part below this one.
    public subscript(key: String) -> DittoDocumentIDPath { DittoDocumentIDPath(place.then(.key(key))) }
    /// An element of the array here.
    public subscript(index: Int) -> DittoDocumentIDPath { DittoDocumentIDPath(place.then(.index(index))) }

    /// The value in the types that applications use.
    public var value: Any? { place.value?.plain ?? nil }
    /// A text.
    public var string: String? { place.value?.stringValue }
    /// A text, or "".
    public var stringValue: String { string ?? "" }
    /// An integer.
    public var int: Int? { place.value?.wholeNumber }
    /// An integer, or 0.
    public var intValue: Int { int ?? 0 }
    /// A boolean.
    public var bool: Bool? { place.value?.boolValue }
    /// A boolean, or false.
    public var boolValue: Bool { bool ?? false }
    /// An array.
    public var array: [Any?]? { place.value?.arrayValue.map { $0.map(\.plain) } }
    /// An array, or an empty one.
    public var arrayValue: [Any?] { array ?? [] }
    /// A dictionary.
    public var dictionary: [String: Any?]? { place.value?.objectValue?.plain }
    /// A dictionary, or an empty one.
    public var dictionaryValue: [String: Any?] { dictionary ?? [:] }
}
