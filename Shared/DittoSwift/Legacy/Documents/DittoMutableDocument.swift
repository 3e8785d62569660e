import CRDT
import DQL
import Foundation
import Synchronization

/// A document inside the closure of `update`. Changes take effect at once, and are on disk when `update`
/// returns. After the closure has returned it still reads; a change is refused, with an entry in the log.
@available(*, deprecated, message: "Use UPDATE … SET")
public final class DittoMutableDocument: Sendable {
    private let document: EditedDocument

    init(_ document: EditedDocument) { self.document = document }

    /// The document's id.
    public var id: DittoDocumentID { document.id }
    /// All fields with the changes so far, `_id` included.
    public var value: [String: Any?] { document.row.decoded.objectValue?.plain ?? [:] }

    /// The place of a field, whether it exists or not.
    public subscript(key: String) -> DittoMutableDocumentPath {
        DittoMutableDocumentPath(LegacyPlace(source: .edited(document), steps: [.key(key)]))
    }
}

/// A place in a mutable document.
@available(*, deprecated, message: "Use UPDATE … SET")
public final class DittoMutableDocumentPath: DittoDocumentPath {
    /// The place of a field below this one.
    public override subscript(key: String) -> DittoMutableDocumentPath {
        DittoMutableDocumentPath(place.then(.key(key)))
    }
    /// The place of an element of the array here; it can be read only.
    public override subscript(index: Int) -> DittoMutableDocumentPath {
        DittoMutableDocumentPath(place.then(.index(index)))
    }

    /// Writes a value. An object's fields are merged with those that are there.
    /// - Parameter isDefault: only where there is no value yet.
    public func set(_ value: Any?, isDefault: Bool = false) { place.set(value, isDefault: isDefault) }

    /// Removes the field.
    public func remove() { place.remove() }

    /// Adds to a counter; a new one begins at 0.
    public func increment(amount: Double) { place.increment(by: amount) }

    /// Makes the field a counter that begins at its number, or at 0.
    /// - Parameter isDefault: only where there is no value yet.
    public func replaceWithCounter(isDefault: Bool = false) {
        let number = place.value.flatMap { $0.anyNumber == nil ? nil : $0 }
        place.set(DittoCounter(number ?? .int(0)), isDefault: isDefault)
    }

    /// The counter here, if there is one.
    public override var counter: DittoMutableCounter? {
        place.kind == .counter ? DittoMutableCounter(place) : nil
    }
    /// The register here, if there is one.
    public override var register: DittoMutableRegister? {
        place.kind == .register ? DittoMutableRegister(place) : nil
    }
    /// As `counter`.
    public var mutableCounter: DittoMutableCounter? { counter }
    /// As `register`.
    public var mutableRegister: DittoMutableRegister? { register }
}

/// One change that the closure of `update` made.
@available(*, deprecated, message: "Use DittoQueryResult.mutatedDocumentIDs()")
public enum DittoUpdateResult {
    /// A value was written.
    case set(docID: DittoDocumentID, path: String, value: Any?)
    /// A field was removed.
    case removed(docID: DittoDocumentID, path: String)
    /// A counter was counted.
    case incremented(docID: DittoDocumentID, path: String, amount: Double)
}
