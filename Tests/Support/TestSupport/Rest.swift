/// The rule of a document at rest, for every world of simulated replicas: a subscriber holds exactly the
/// document that there is if a subscription of it matches, byte for byte, and otherwise nothing that one
/// would show.
///
/// A document that was deleted, reaped and deleted anew is no exception (rules 6, 13 and 14). An erased one
/// may be: copies of it may differ in remains of counters.
public enum Rest {
    /// The way in which a copy is not what it should be.
    public enum Fault: String, Sendable {
        case lacks = "lacks"
        case differs = "holds another version of"
        case shows = "shows what does not match any more of"
    }

    /// - Parameters:
    ///   - held: the subscriber's copy, in a form that is equal only for equal bytes.
    ///   - whole: the document that there is; nil for none.
    ///   - matches: whether a subscription shows a document that is like this.
    /// - Returns: nil if all is well.
    public static func fault<State: Equatable>(
        holding held: State?, of whole: State?, matches: (State) throws -> Bool
    ) rethrows -> Fault? {
        let isDue = try whole.map(matches) ?? false
        let isShown = try held.map(matches) ?? false
        guard isDue || isShown, held != whole else { return nil }
        guard isDue else { return .shows }
        return held == nil ? .lacks : .differs
    }
}
