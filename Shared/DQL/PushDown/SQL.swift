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
    }

    fileprivate enum Piece: Equatable {
        case text(String)
        case parameter(Parameter)
        /// The name of the collection's table, which the store knows.
        case table
    }

    private var pieces: [Piece]

    private init(_ pieces: [Piece]) { self.pieces = pieces }

    /// A piece without parameters.
    public init(stringLiteral text: String) { pieces = [.text(text)] }

    /// A piece with parameters and other pieces.
    public init(stringInterpolation: Interpolation) { pieces = stringInterpolation.pieces }

    /// The name of the collection's table.
    static let table = SQL([.table])

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
    /// - Parameter table: the quoted name of the collection's table.
    public func rendered(table: String) -> (text: String, parameters: [Parameter]) {
        var text = ""
        var parameters: [Parameter] = []
        for piece in pieces {
            switch piece {
            case .text(let literal): text += literal
            case .table: text += table
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

    /// True if a server takes it without trouble: neither the text nor the number of parameters is large.
    var isModest: Bool {
        var bytes = 0
        var parameters = 0
        for piece in pieces {
            switch piece {
            case .text(let literal): bytes += literal.utf8.count
            case .parameter: parameters += 1
            case .table: break
            }
        }
        return bytes <= DQLLimits.pushedTextBytes && parameters <= DQLLimits.pushedParameters
    }
}
