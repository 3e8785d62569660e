/// Bounds the values that a client's text or item becomes: each takes some hundred bytes in memory, however
/// few it took on its way. Used by one thread, which parses.
public struct ParsingBounds {
    /// Most values, members and elements at any depth.
    public let values: Int
    /// Asked after each `step` values, escapes and the like whether to go on, with the number of values among
    /// them.
    public let goesOn: (Int) -> Bool

    /// Bounds of so many values.
    public init(values: Int, goesOn: @escaping (Int) -> Bool = { _ in true }) {
        self.values = values
        self.goesOn = goesOn
    }

    /// The number of values between two questions.
    public static let step = Limits.valuesBetweenChecks
}

/// Counts the values of one text within its bounds, and its steps; without bounds it counts nothing.
struct ValueCount {
    private let bounds: ParsingBounds?
    private var values = 0
    private var told = 0
    private var steps = 0

    init(_ bounds: ParsingBounds?) { self.bounds = bounds }

    /// Counts a value.
    /// - Throws: `tooManyValues`, and as `step`.
    mutating func add() throws(CRDTError) {
        guard let bounds else { return }
        values += 1
        guard values <= bounds.values else {
            throw CRDTError(.tooManyValues, "more than \(bounds.values) members and elements in one text")
        }
        try step()
    }

    /// Counts a step within a value, such as an escape.
    /// - Throws: `interrupted` if the owner of the bounds does not go on.
    mutating func step() throws(CRDTError) {
        guard let bounds else { return }
        steps += 1
        guard steps.isMultiple(of: Limits.valuesBetweenChecks) else { return }
        defer { told = values }
        guard bounds.goesOn(values - told) else {
            throw CRDTError(.interrupted, "nobody wants the text's value any more")
        }
    }
}
