/// `ANY | EVERY | ANY AND EVERY [i:]v IN | WITHIN source SATISFIES condition END`.
public struct QuantifiedSyntax: Equatable, Sendable {
    /// How many elements have to satisfy.
    public let quantifier: Quantifier
    /// The elements.
    public let binding: BindingSyntax
    /// SATISFIES; sees the binding's variables.
    public let condition: ExpressionSyntax
}

/// How many elements have to satisfy a condition. The raw value is how it is printed.
public enum Quantifier: String, Sendable, CaseIterable {
    /// At least one.
    case any = "ANY"
    /// All; true of no elements.
    case every = "EVERY"
    /// All, and at least one.
    case anyAndEvery = "ANY AND EVERY"
}

/// `[i:]v IN | WITHIN source`: the variables are names in what follows, and hide fields of that name.
public struct BindingSyntax: Equatable, Sendable {
    /// The position (or key) of an element.
    public let index: NameSyntax?
    /// The element.
    public let value: NameSyntax
    /// WITHIN: elements at any depth.
    public let isWithin: Bool
    /// The collection that is gone through; does not see the variables.
    public let source: ExpressionSyntax
}

/// `ARRAY result FOR binding [WHEN condition] END`.
public struct ArrayComprehensionSyntax: Equatable, Sendable {
    /// The element to make; sees the binding's variables.
    public let result: ExpressionSyntax
    /// The elements.
    public let binding: BindingSyntax
    /// WHEN; sees the binding's variables.
    public let condition: ExpressionSyntax?
}

/// `OBJECT key : value FOR binding [WHEN condition] END`.
public struct ObjectComprehensionSyntax: Equatable, Sendable {
    /// The key to make; sees the binding's variables.
    public let key: ExpressionSyntax
    /// The value to make; sees the binding's variables.
    public let value: ExpressionSyntax
    /// The elements.
    public let binding: BindingSyntax
    /// WHEN; sees the binding's variables.
    public let condition: ExpressionSyntax?
}
