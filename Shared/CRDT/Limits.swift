/// The module's limits: name with unit, value, reason.
public enum Limits {
    /// How deep values and maps may nest, in levels. Recursive code stays far from any stack's end (512 KiB
    /// threads).
    public static let nestingDepth = 128
    /// The longest document id, in encoded bytes. Ids are keys of b-trees and travel in every notice.
    public static let documentIDBytes = 4_096
    /// The longest collection name, in UTF-8 bytes.
    public static let collectionNameBytes = 512
    /// A document above this many encoded bytes earns a warning at a local write.
    public static let documentSoftLimitBytes = 262_144
    /// A local write that makes a document exceed this many encoded bytes is refused.
    public static let documentHardLimitBytes = 5_242_880
    /// The most encoded bytes one operation (one transaction) may have: it is held in memory whole on every
    /// node.
    public static let operationBytes = 16 * 1_048_576
    /// How far ahead of the wall clock an admitted stamp may be, in milliseconds (rule 21).
    public static let clockFutureMilliseconds: UInt64 = 60_000
}
