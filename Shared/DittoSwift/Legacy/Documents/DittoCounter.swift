import CRDT
import Foundation

/// A number that devices count up and down at the same time. As a value in a document it becomes a counter.
@available(*, deprecated, message: "Use UPDATE … APPLY … PN_INCREMENT BY")
public class DittoCounter: Equatable {
    /// The count when it was read; where it begins in a new document.
    let number: Value

    init(_ number: Value) { self.number = number }

    /// A counter that begins at 0.
    public init() { number = .int(0) }

    /// The count.
    public var value: Double { number.anyNumber ?? 0 }

    /// Same count.
    public static func == (left: DittoCounter, right: DittoCounter) -> Bool { left.value == right.value }
}

/// A counter of a mutable document.
@available(*, deprecated, message: "Use UPDATE … APPLY … PN_INCREMENT BY")
public final class DittoMutableCounter: DittoCounter {
    private let place: LegacyPlace

    init(_ place: LegacyPlace) {
        self.place = place
        super.init(place.value ?? .int(0))
    }

    /// The count, with what was added so far.
    public override var value: Double { place.value?.anyNumber ?? 0 }

    /// Adds to the counter. A negative amount subtracts.
    public func increment(by amount: Double) { place.increment(by: amount) }
}

/// A value that is written and read as a whole: an object in it is not merged field by field.
@available(*, deprecated, message: "Declare the field as REGISTER in the statement")
public class DittoRegister {
    private let content: Any?

    /// A register of this value, for a new document.
    public init(value: Any?) { content = value }

    /// The value.
    public var value: Any? { content }
}

/// A register of a mutable document.
@available(*, deprecated, message: "Declare the field as REGISTER in the statement")
public final class DittoMutableRegister: DittoRegister {
    private let place: LegacyPlace

    init(_ place: LegacyPlace) {
        self.place = place
        super.init(value: nil)
    }

    /// The value, as it was written last.
    public override var value: Any? { place.value?.plain ?? nil }

    /// Replaces the value.
    public func set(value: Any?) { place.set(DittoRegister(value: value), isDefault: false) }
}
