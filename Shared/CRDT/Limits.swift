/// The module's limits: name with unit, value, reason.
public enum Limits {
    /// How deep values and maps may nest, in levels. Keeps recursive code far from the end of the stack
    /// (threads with 512 KiB).
    public static let nestingDepth = 128
    /// The longest document id, in encoded bytes. Ids are keys of b-trees and travel in every notice of a
    /// change.
    public static let documentIDBytes = 4_096
    /// The longest collection name, in UTF-8 bytes.
    public static let collectionNameBytes = 512
    /// A local write that leaves a document of more than this many encoded bytes gets a warning.
    public static let documentSoftLimitBytes = 262_144
    /// A local write that makes a document exceed this many encoded bytes is refused.
    public static let documentHardLimitBytes = 5_242_880
    /// The most encoded bytes of one operation (one transaction). Every node holds an operation in memory as
    /// a whole.
    public static let operationBytes = 16 * 1_048_576
    /// How far ahead of the wall clock an admitted stamp may be, in milliseconds (rule 21).
    public static let clockFutureMilliseconds: UInt64 = 60_000
    /// Values that a parser makes between two questions whether to go on: a fraction of a millisecond.
    static let valuesBetweenChecks = 1_024
    /// The most characters of a key or number from the input that an error's message shows.
    static let shownCharacters = 64
    /// Keys of an object up to which the parser finds a repeated one by comparing: a set costs more.
    static let comparedKeys = 16
    /// The room with which the printer of JSON begins, in bytes: most documents fit.
    static let jsonTextBytes = 512
}
