/// Why a pattern (or its flags) is none.
///
/// A pattern written out in a statement is reported with this; one that is computed makes MISSING.
struct RegexError: Error, Equatable, Sendable {
    /// Where in the pattern, in characters (Unicode scalars) from 0.
    let position: Int
    /// What is wrong there, for a person.
    let message: String
}
