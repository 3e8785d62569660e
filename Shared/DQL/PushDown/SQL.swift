/// A piece of SQL with its parameters. Its text consists of literals of the source only: a name or value of
/// a statement can only be interpolated as a parameter, so nothing that a caller writes becomes SQL.
public struct SQL: Equatable, Sendable, ExpressibleByStringInterpolation {
    /// A value that is sent beside the text.
    public enum Parameter: Equatable, Sendable {
        /// A text without U+0000.
        case text(String)
        /// Texts without U+0000.
        case texts([String])
        /// A number.
        case integer(Int64)
        /// A byte string.
        case bytes([UInt8])
        /// Byte strings.
        case byteStrings([[UInt8]])

        /// Returns whether two are sent alike. Texts count by their bytes: Swift takes different spellings of
        /// a character for equal, and the server does not.
        public static func == (one: Parameter, other: Parameter) -> Bool {
            switch (one, other) {
            case (.text(let one), .text(let other)): one.utf8.elementsEqual(other.utf8)
            case (.texts(let one), .texts(let other)):
                one.elementsEqual(other) { $0.utf8.elementsEqual($1.utf8) }
            case (.integer(let one), .integer(let other)): one == other
            case (.bytes(let one), .bytes(let other)): one == other
            case (.byteStrings(let one), .byteStrings(let other)): one == other
            default: false
            }
        }
    }

    fileprivate enum Piece: Equatable {
        case text(String)
        case parameter(Parameter)
        /// The name of the collection's table, which the store knows.
        case table
        /// The name of the joined collection's table.
        case joinedTable
    }

    private var pieces: [Piece]

    private init(_ pieces: [Piece]) { self.pieces = pieces }

    /// A piece without parameters.
    public init(stringLiteral text: String) { pieces = [.text(text)] }

    /// A piece with parameters and other pieces.
    public init(stringInterpolation: Interpolation) { pieces = stringInterpolation.pieces }

    /// The name of the collection's table.
    static let table = SQL([.table])

    /// The name of the table of the collection that is joined to it.
    static let joinedTable = SQL([.joinedTable])

    /// A number in the text: a place in a list of columns.
    static func number(_ number: Int) -> SQL { SQL([.text(String(number))]) }

    /// Pieces with a separator between them.
    static func joined(_ parts: [SQL], _ separator: SQL) -> SQL {
        SQL(Array(parts.map(\.pieces).joined(separator: separator.pieces)))
    }

    /// Collects the pieces of a literal.
    public struct Interpolation: StringInterpolationProtocol {
        fileprivate var pieces: [Piece] = []

        /// An empty literal.
        public init(literalCapacity: Int, interpolationCount: Int) {}

        /// Adds a text of the source.
        public mutating func appendLiteral(_ literal: String) {
            if !literal.isEmpty { pieces.append(.text(literal)) }
        }

        /// Adds a piece.
        public mutating func appendInterpolation(_ sql: SQL) { pieces += sql.pieces }

        /// Adds a parameter.
        public mutating func appendInterpolation(_ parameter: Parameter) {
            pieces.append(.parameter(parameter))
        }
    }

    /// The text for a server, and its parameters by number. Equal parameters have one number, so that
    /// equal expressions are equal to the server too.
    /// - Parameters:
    ///   - table: the quoted name of the collection's table.
    ///   - joined: that of the joined collection; nil where it has none, and no documents.
    public func rendered(table: String, joined: String? = nil) -> (text: String, parameters: [Parameter]) {
        var text = ""
        var parameters: [Parameter] = []
        for piece in pieces {
            switch piece {
            case .text(let literal): text += literal
            case .table: text += table
            case .joinedTable: text += joined ?? Self.nothing
            case .parameter(let parameter):
                var place = parameters.firstIndex(of: parameter)
                if place == nil {
                    place = parameters.count
                    parameters.append(parameter)
                }
                text += "$\((place ?? 0) + 1)"
            }
        }
        return (text, parameters)
    }

    /// A table without rows.
    private static let nothing = """
        (SELECT NULL::bytea AS id, NULL::bytea AS whole, NULL::bytea AS state, false AS live, \
        NULL::jsonb AS body, NULL::text[] AS rough WHERE false)
        """

    /// The length of its literals.
    var textBytes: Int {
        pieces.reduce(0) { if case .text(let literal) = $1 { $0 + literal.utf8.count } else { $0 } }
    }

    /// True if a server takes it without trouble: neither the text nor the number of parameters is large.
    var isModest: Bool {
        let parameters = pieces.count { if case .parameter = $0 { true } else { false } }
        return textBytes <= DQLLimits.pushedTextBytes && parameters <= DQLLimits.pushedParameters
    }
}
