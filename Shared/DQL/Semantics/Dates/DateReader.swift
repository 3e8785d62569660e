/// Reads the parts of written dates. A method that returns nil reads nothing.
struct DateReader {
    private let bytes: [UInt8]
    private(set) var place = 0

    init(_ text: String) { bytes = Array(text.utf8) }

    var isAtEnd: Bool { place == bytes.count }
    private var peek: UInt8? { place < bytes.count ? bytes[place] : nil }

    mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        place += 1
        return true
    }

    mutating func take(_ character: Unicode.Scalar) -> Bool { take(UInt8(ascii: character)) }

    /// A run of digits, as many as there are within bounds.
    mutating func number(_ digits: ClosedRange<Int>) -> Int? {
        var end = place
        while end < bytes.count, end - place < digits.upperBound, Lexer.isDigit(bytes[end]) { end += 1 }
        guard end - place >= digits.lowerBound else { return nil }
        defer { place = end }
        return bytes[place..<end].reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }

    /// Digits after a decimal point, as milliseconds; further digits are dropped.
    mutating func fraction() -> Int? {
        guard let tenths = number(1...1) else { return nil }
        let hundredths = number(1...1)
        let thousandths = hundredths == nil ? nil : number(1...1)
        while number(1...1) != nil {}
        return tenths * 100 + (hundredths ?? 0) * 10 + (thousandths ?? 0)
    }

    /// One of the words, in any case; returns its index.
    mutating func word(_ words: [String]) -> Int? {
        for (index, word) in words.enumerated() {
            let end = place + word.utf8.count
            guard end <= bytes.count else { continue }
            let isEqual = zip(bytes[place..<end], word.utf8).allSatisfy { Self.lower($0) == Self.lower($1) }
            guard isEqual else { continue }
            place = end
            return index
        }
        return nil
    }

    private static func lower(_ byte: UInt8) -> UInt8 { 0x41...0x5A ~= byte ? byte | 0x20 : byte }

    /// The characters of a time zone's name.
    mutating func zoneName() -> String? {
        let start = place
        while let byte = peek, Self.isZoneByte(byte) { place += 1 }
        return place == start ? nil : String(decoding: bytes[start..<place], as: UTF8.self)
    }

    private static func isZoneByte(_ byte: UInt8) -> Bool {
        Lexer.isDigit(byte) || 0x61...0x7A ~= lower(byte) || "/_+-:".utf8.contains(byte)
    }

    /// `Z`, `+02:00`, `+0200` or `+02`, in seconds.
    mutating func offset() -> Int? {
        if take("Z") || take("z") { return 0 }
        let start = place
        let isNegative = peek == UInt8(ascii: "-")
        guard take("+") || take("-"), let hours = number(2...2), hours <= 23 else {
            place = start
            return nil
        }
        var minutes = 0
        let hasColon = take(":")
        if let written = number(2...2) {
            minutes = written
        } else if hasColon {
            minutes = 60
        }
        guard minutes <= 59 else {
            place = start
            return nil
        }
        return (hours * 3_600 + minutes * 60) * (isNegative ? -1 : 1)
    }

    /// Four digits; a sign may stand before them.
    mutating func year() -> Int? {
        let start = place
        let isNegative = take("-")
        if !isNegative { _ = take("+") }
        guard let year = number(4...4) else {
            place = start
            return nil
        }
        return isNegative ? -year : year
    }

    /// `2024-02-29T12:30:00.250`, with `T` or a blank; seconds and fraction may be left out.
    mutating func isoTime() -> CivilTime? {
        let start = place
        var civil = CivilTime()
        guard let year = year(), take("-"), let month = number(2...2), take("-"), let day = number(2...2),
            take("T") || take("t") || take(" "), let hour = number(2...2), take(":"),
            let minute = number(2...2)
        else {
            place = start
            return nil
        }
        (civil.year, civil.month, civil.day, civil.hour, civil.minute) = (year, month, day, hour, minute)
        if take(":") {
            guard let second = number(2...2) else {
                place = start
                return nil
            }
            civil.second = second
            if take(".") || take(",") {
                guard let fraction = fraction() else {
                    place = start
                    return nil
                }
                civil.millisecond = fraction
            }
        }
        return civil
    }
}
