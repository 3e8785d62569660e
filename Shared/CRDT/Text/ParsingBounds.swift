/// Bounds the values that a client's text or item becomes: each takes some hundred bytes in memory, however
/// few it took on its way. Used by one thread, which parses.
public struct ParsingBounds {
    /// Most values, members and elements at any depth.
    public let values: Int
    /// Asked after each `Limits.valuesBetweenChecks` values whether to go on.
    public let goesOn: () -> Bool

    /// Bounds of so many values.
    public init(values: Int, goesOn: @escaping () -> Bool = { true }) {
        self.values = values
        self.goesOn = goesOn
    }

    /// The number of values between two questions.
    public static let step = Limits.valuesBetweenChecks
}

/// Counts the values of one text within its bounds; without bounds it counts nothing.
struct ValueCount {
    private let bounds: ParsingBounds?
    private var count = 0

    init(_ bounds: ParsingBounds?) { self.bounds = bounds }

    /// Counts a value.
    /// - Throws: `tooManyValues`, and `interrupted` if the owner of the bounds does not go on.
    mutating func add() throws(CRDTError) {
        guard let bounds else { return }
        count += 1
        guard count <= bounds.values else {
            throw CRDTError(.tooManyValues, "more than \(bounds.values) members and elements in one text")
        }
        guard !count.isMultiple(of: Limits.valuesBetweenChecks) || bounds.goesOn() else {
            throw CRDTError(.interrupted, "nobody wants the text's value any more")
        }
    }
}
