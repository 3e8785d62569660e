import ArgumentParser
import CRDT

/// The decision how a table's column is read: every value of a column gets one type.
enum ColumnType: String, CaseIterable {
    case text, integer, decimal, boolean
    /// Cells are JSON texts; only by `--types`.
    case json
    /// No cell holds anything.
    case empty

    /// The type that `--types` names; nil for a type that there is not.
    init?(option: String) {
        switch option.lowercased() {
        case "text", "string": self = .text
        case "integer", "int": self = .integer
        case "decimal", "double", "float", "number": self = .decimal
        case "boolean", "bool": self = .boolean
        case "json": self = .json
        default: return nil
        }
    }

    /// Names for messages.
    static let options = "text, integer, decimal, boolean, json"

    /// The value of a cell; nil if it is none of this type.
    func value(_ text: String) -> Value? {
        switch self {
        case .text, .empty: return .string(text)
        case .integer: return Int64(Self.trimmed(text)).map(Value.int)
        case .decimal:
            let text = Self.trimmed(text)
            // Double reads hexadecimal numbers too, which no table means.
            guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) || "+-.eE".utf8.contains($0) }),
                let number = Double(text), number.isFinite
            else { return nil }
            return .double(number)
        case .boolean:
            switch Self.trimmed(text).lowercased() {
            case "true", "yes", "1": return true
            case "false", "no", "0": return false
            default: return nil
            }
        case .json: return try? JSONText.parse(text)
        }
    }
}

extension ColumnType {
    /// A cell without the spaces and tabs around it, which mean nothing where a type is asked for.
    private static func trimmed(_ text: String) -> String {
        var rest = text[...]
        while let first = rest.first, first == " " || first == "\t" { rest.removeFirst() }
        while let last = rest.last, last == " " || last == "\t" { rest.removeLast() }
        return String(rest)
    }
}

/// Finds the type of one column from its cells.
///
/// A column is a number or a boolean only if all its cells are, and only if nothing of them is lost: one cell
/// with a leading zero makes the column text. Empty cells do not count. A quoted cell is text, except in a
/// table that quotes everything, where quotes mean nothing.
struct ColumnSurvey {
    /// A cell for which a column that looks like numbers stays text.
    struct Obstacle: Equatable {
        var reason: String
        var text: String
        var line: Int
    }

    private var cells = 0
    private var integers = 0
    private var decimals = 0
    private var booleans = 0
    /// Cells that would be numbers or booleans but for their obstacle.
    private var obstructed = 0
    /// Quoted cells without content: text, but they say nothing about the others.
    private var blanks = 0
    private var first: Obstacle?
    private var inexact: Obstacle?
    /// The first cell that looks like no number.
    private var stranger: Obstacle?
    /// Different cells that look like neither numbers nor booleans; some of them, if they are many.
    private var strangers: [String] = []
    /// Types that all cells but the strangers can have if `--types` asks for it.
    private var fitting: [ColumnType] = [.integer, .decimal, .boolean]

    /// Takes notice of a cell.
    mutating func add(_ field: CSVRows.Field, line: Int) {
        guard field.isQuoted || !field.text.isEmpty else { return }
        cells += 1
        let look = Self.look(field.text)
        guard !field.isQuoted else {
            if field.text.isEmpty { blanks += 1 }
            if case .other = look {
                if !field.text.isEmpty { meetStranger(field.text, line) }
                return
            }
            fit(field.text)
            return obstruct("is quoted", field.text, line)
        }
        switch look {
        case .boolean:
            booleans += 1
            fitting.removeAll { $0 != .boolean }
            stranger = stranger ?? Obstacle(reason: "is no number", text: field.text, line: line)
        case .number(.integer(let number)):
            integers += 1
            if fitting.last == .boolean { fit(field.text) }
            if inexact == nil, Int64(exactly: Double(number)) != number {
                inexact = Obstacle(
                    reason: "has more digits than a decimal keeps", text: field.text, line: line)
            }
        case .number(.decimal):
            decimals += 1
            fitting.removeAll { $0 != .decimal }
        case .number(.inexact(let reason)):
            fit(field.text)
            obstruct(reason, field.text, line)
        case .other: meetStranger(field.text, line)
        }
    }

    private mutating func meetStranger(_ text: String, _ line: Int) {
        stranger = stranger ?? Obstacle(reason: "is no number", text: text, line: line)
        guard strangers.count <= Limits.namedMarks, !strangers.contains(text) else { return }
        strangers.append(text)
    }

    private mutating func fit(_ text: String) { fitting.removeAll { $0.value(text) == nil } }

    private mutating func obstruct(_ reason: String, _ text: String, _ line: Int) {
        obstructed += 1
        first = first ?? Obstacle(reason: reason, text: text, line: line)
    }

    /// The column's type.
    var type: ColumnType {
        if cells == 0 { return .empty }
        if booleans == cells { return .boolean }
        if integers == cells { return .integer }
        if integers + decimals == cells, inexact == nil { return .decimal }
        return .text
    }

    /// The cell for which the column is text although all its cells look like numbers or booleans, or most of
    /// them like numbers.
    var obstacle: Obstacle? {
        guard type == .text else { return nil }
        if integers + decimals == cells { return inexact }
        let isNear = integers + decimals + booleans + obstructed + blanks == cells
        if isNear, let first { return first }
        return (integers + decimals) * 2 > cells ? stranger : nil
    }

    /// The flags with which columns that have an obstacle get another type, as the end of a sentence.
    static func remedy(_ columns: [(name: String, survey: ColumnSurvey)]) -> String {
        var nulls: [String] = []
        var types: [String] = []
        var isOpen = false
        for (name, survey) in columns {
            guard let type = survey.fitting.first else { continue }
            if survey.strangers.count > Limits.namedMarks { isOpen = true }
            nulls += survey.strangers.filter { !nulls.contains($0) }
            // Without its strangers a column is numbers by itself, unless it has another obstacle.
            if survey.obstructed + survey.blanks + survey.booleans > 0 || survey.inexact != nil {
                types.append("\(name)=\(type.rawValue)")
            }
        }
        if isOpen { return "--null TEXT, once for each such text, overrides" }
        let flags =
            nulls.map { "--null \(ImportNotes.argument($0))" }
            + (types.isEmpty ? [] : ["--types \(ImportNotes.argument(types.joined(separator: ",")))"])
        return flags.isEmpty
            ? "no other type fits all its cells" : flags.joined(separator: " ") + " overrides"
    }

    private enum Look { case boolean, number(NumberText), other }

    private static func look(_ text: String) -> Look {
        if ["true", "false", "TRUE", "FALSE", "True", "False"].contains(text) { return .boolean }
        return NumberText(text).map(Look.number) ?? .other
    }
}

/// A text that looks like a decimal number.
enum NumberText: Equatable {
    case integer(Int64)
    /// A number that its shortest text in decimal gives back, except for zeros at the end.
    case decimal(Double)
    /// A number that would lose something, with the reason as the end of a sentence.
    case inexact(String)

    /// Nil if the text is no number. An exponent has a sign, or follows a point, as programs print it: `1E5`
    /// may be a name.
    init?(_ text: String) {
        let all = Array(text.utf8)
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
        var rest = all.drop(while: isSpace)
        while let last = rest.last, isSpace(last) { rest.removeLast() }
        let hasSpace = rest.count < all.count
        let sign = rest.first.flatMap { $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "+") ? $0 : nil }
        if sign != nil { rest.removeFirst() }
        guard let number = Digits(rest) else { return nil }
        if hasSpace {
            self = .inexact("has spaces around it")
        } else if sign == UInt8(ascii: "+") {
            self = .inexact("has a plus sign")
        } else if number.whole.count > 1, number.whole.first == UInt8(ascii: "0") {
            self = .inexact("has a leading zero")
        } else if number.isPerhapsName {
            self = .inexact("has an exponent without a sign, as a name may")
        } else if number.isInteger, text != "-0" {
            self = Int64(text).map(NumberText.integer) ?? .inexact("does not fit 64 bits")
        } else {
            let value = Double(
                number.whole.isEmpty ? text.replacing(".", with: "0.", maxReplacements: 1) : text)
            guard let value, value.isFinite,
                let shortest = Digits(Array(abs(value).description.utf8)[...]), shortest.isSame(as: number)
            else {
                self = .inexact("has more digits than a decimal keeps")
                return
            }
            self = .decimal(value)
        }
    }

    /// The parts of a number without its sign.
    private struct Digits {
        var whole: [UInt8]
        var isInteger: Bool
        /// True for an exponent that has no sign and follows no point.
        var isPerhapsName = false
        /// All digits without zeros at either end, and the power of ten of the last one.
        private var digits: [UInt8]
        private var power: Int

        init?(_ text: ArraySlice<UInt8>) {
            var rest = text
            func take(_ wanted: (UInt8) -> Bool) -> [UInt8] {
                let part = Array(rest.prefix(while: wanted))
                rest = rest.dropFirst(part.count)
                return part
            }
            let isDigit: (UInt8) -> Bool = { (0x30...0x39).contains($0) }
            whole = take(isDigit)
            let hasPoint = !take { $0 == UInt8(ascii: ".") }.isEmpty
            let fraction = take(isDigit)
            guard hasPoint != fraction.isEmpty, !(whole.isEmpty && fraction.isEmpty),
                text.count(where: { $0 == UInt8(ascii: ".") }) <= 1
            else { return nil }
            power = -fraction.count
            isInteger = !hasPoint && rest.isEmpty
            if !rest.isEmpty {
                guard rest.removeFirst() | 0x20 == UInt8(ascii: "e") else { return nil }
                let hasSign = rest.first == UInt8(ascii: "-") || rest.first == UInt8(ascii: "+")
                let exponentDigits = rest.dropFirst(hasSign ? 1 : 0)
                guard !exponentDigits.isEmpty, rest.count < 8, exponentDigits.allSatisfy(isDigit),
                    let exponent = Int(String(decoding: rest, as: UTF8.self))
                else { return nil }
                isPerhapsName = !hasSign && !hasPoint
                power += exponent
            }
            digits = Array((whole + fraction).drop { $0 == 0x30 })
            while digits.last == 0x30 {
                digits.removeLast()
                power += 1
            }
        }

        func isSame(as other: Digits) -> Bool {
            digits == other.digits && (digits.isEmpty || power == other.power)
        }
    }
}
