/// `ANY | EVERY | ANY AND EVERY [i:]v IN | WITHIN source SATISFIES condition END`.
public struct QuantifiedSyntax: Equatable, Sendable {
    /// The number of elements that have to satisfy the condition.
    public let quantifier: Quantifier
    /// The elements.
    public let binding: BindingSyntax
    /// SATISFIES; sees the binding's variables.
    public let condition: ExpressionSyntax
}

/// The number of elements that have to satisfy a condition. The raw value is its printed form.
public enum Quantifier: String, Sendable, CaseIterable {
    /// At least one.
    case any = "ANY"
    /// All; true if there are no elements.
    case every = "EVERY"
    /// All, and at least one.
    case anyAndEvery = "ANY AND EVERY"
}

/// `[i:]v IN
/// WITHIN source`: the variables are names in the expressions after it, and hide fields of that name.
public struct BindingSyntax: Equatable, Sendable {
    /// The position (or key) of an element.
    public let index: NameSyntax?
    /// The element.
    public let value: NameSyntax
    /// WITHIN: elements at any depth.
    public let isWithin: Bool
    /// The collection; it does not see the variables.
    public let source: ExpressionSyntax
}

/// `ARRAY result FOR binding [WHEN condition] END`.
public struct ArrayComprehensionSyntax: Equatable, Sendable {
    /// The expression of each element; sees the binding's variables.
    public let result: ExpressionSyntax
    /// The elements.
    public let binding: BindingSyntax
    /// WHEN; sees the binding's variables.
    public let condition: ExpressionSyntax?
}

/// `OBJECT key : value FOR binding [WHEN condition] END`.
public struct ObjectComprehensionSyntax: Equatable, Sendable {
    /// The expression of each key; sees the binding's variables.
    public let key: ExpressionSyntax
    /// The expression of each value; sees the binding's variables.
    public let value: ExpressionSyntax
    /// The elements.
    public let binding: BindingSyntax
    /// WHEN; sees the binding's variables.
    public let condition: ExpressionSyntax?
}
