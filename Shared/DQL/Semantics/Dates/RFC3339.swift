/// Times as RFC 3339 text: `2026-11-26T08:30:00.250Z`. Documents hold dates this way, and so do requests and
/// answers of services. Such texts sort in time order, and the date functions read them.
public enum RFC3339 {
    /// The text in UTC with milliseconds, of milliseconds since 1970; nil outside the years 0000 to 9999,
    /// which the text cannot hold.
    public static func text(milliseconds: Int64) -> String? {
        guard range.contains(milliseconds) else { return nil }
        let civil = CivilTime(milliseconds)
        return "\(digits(civil.year, 4))-\(digits(civil.month, 2))-\(digits(civil.day, 2))"
            + "T\(digits(civil.hour, 2)):\(digits(civil.minute, 2)):\(digits(civil.second, 2))"
            + ".\(digits(civil.millisecond, 3))Z"
    }

    /// The text of a time that a clock gave; one after the year 9999 is cut there.
    public static func text(clamping milliseconds: UInt64) -> String {
        guard let text = text(milliseconds: min(Int64(clamping: milliseconds), range.upperBound)) else {
            preconditionFailure("every time since 1970 is in the range")
        }
        return text
    }

    /// The milliseconds since 1970 of a text with seconds and a zone (`Z` or `±hh:mm`), and the part of a
    /// millisecond that further decimals tell; nil for any other text. A leap second is the one after it.
    public static func read(_ text: String) -> (milliseconds: Int64, rest: Double)? {
        var reader = DateReader(text)
        var civil = CivilTime()
        guard let year = reader.number(4...4), reader.take("-"), let month = reader.number(2...2),
            reader.take("-"), let day = reader.number(2...2),
            reader.take("T") || reader.take("t") || reader.take(" "), let hour = reader.number(2...2),
            reader.take(":"), let minute = reader.number(2...2), reader.take(":"),
            let second = reader.number(2...2), second <= 60
        else { return nil }
        (civil.year, civil.month, civil.day, civil.hour, civil.minute) = (year, month, day, hour, minute)
        civil.second = min(second, 59)
        var rest = 0.0
        if reader.take(".") {
            let start = reader.place
            guard let fraction = reader.fraction() else { return nil }
            civil.millisecond = fraction
            let further = text.utf8.dropFirst(start + 3).prefix(max(0, reader.place - start - 3))
            rest = Double("0." + String(decoding: further, as: UTF8.self) + "0") ?? 0
        }
        let zone = reader.place
        guard let offset = reader.offset(), [1, 6].contains(reader.place - zone), reader.isAtEnd,
            civil.isValid
        else { return nil }
        let leap = second == 60 ? 1_000 : 0
        return (civil.milliseconds - Int64(offset * 1_000) + Int64(leap), rest)
    }

    /// From the first instant of the year 0 to the last of 9999.
    private static let range: ClosedRange<Int64> = -62_167_219_200_000...253_402_300_799_999

    private static func digits(_ number: Int, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, count - text.count)) + text
    }
}
