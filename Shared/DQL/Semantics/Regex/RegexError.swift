/// The reason why a pattern (or its flags) is invalid.
///
/// A pattern written out in a statement is reported with it; a computed one gives MISSING.
struct RegexError: Error, Equatable, Sendable {
    /// The place in the pattern, in characters (Unicode scalars) from 0.
    let position: Int
    /// The error there, for a person.
    let message: String
}
