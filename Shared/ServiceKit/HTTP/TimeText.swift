/// Times in requests and answers: RFC 3339, written in UTC with milliseconds (`2026-11-26T08:30:00.250Z`).
public enum TimeText {
    /// The text of a time in milliseconds since 1970; a time after the year 9999 is cut there.
    public static func text(milliseconds: UInt64) -> String {
        let time = min(milliseconds, lastMillisecond)
        let (seconds, rest) = (time / 1_000, time % 1_000)
        let (days, ofDay) = (Int(seconds / 86_400), seconds % 86_400)
        let (year, month, day) = civil(days)
        return digits(UInt64(year), 4) + "-" + digits(UInt64(month), 2) + "-" + digits(UInt64(day), 2)
            + "T" + digits(ofDay / 3_600, 2) + ":" + digits(ofDay / 60 % 60, 2) + ":"
            + digits(ofDay % 60, 2) + "." + digits(rest, 3) + "Z"
    }

    /// The milliseconds since 1970 of a text with a zone (`Z` or `±hh:mm`), further decimals cut; nil for any
    /// other text, and for a time before 1970.
    public static func milliseconds(_ text: String) -> UInt64? {
        var rest = Array(text.utf8)[...]
        func number(_ count: Int, in range: ClosedRange<Int>) -> Int? {
            guard rest.count >= count, rest.prefix(count).allSatisfy({ 0x30...0x39 ~= $0 }) else {
                return nil
            }
            let value = rest.prefix(count).reduce(0) { $0 * 10 + Int($1 - 0x30) }
            rest = rest.dropFirst(count)
            return range.contains(value) ? value : nil
        }
        func mark(_ marks: String) -> Bool {
            guard let first = rest.first, marks.utf8.contains(first) else { return false }
            rest = rest.dropFirst()
            return true
        }
        guard let year = number(4, in: 0...9_999), mark("-"), let month = number(2, in: 1...12), mark("-"),
            let day = number(2, in: 1...31), mark("Tt "), let hour = number(2, in: 0...23), mark(":"),
            let minute = number(2, in: 0...59), mark(":"), let second = number(2, in: 0...60)
        else { return nil }
        var fraction = 0
        if mark(".") {
            let decimals = rest.prefix { 0x30...0x39 ~= $0 }
            guard !decimals.isEmpty else { return nil }
            fraction = (0..<3).reduce(0) { sum, place in
                sum * 10 + (place < decimals.count ? Int(decimals[decimals.startIndex + place] - 0x30) : 0)
            }
            rest = rest.dropFirst(decimals.count)
        }
        var zone = 0
        if !mark("Zz") {
            let isWest = rest.first == UInt8(ascii: "-")
            guard mark("+-"), let hours = number(2, in: 0...23), mark(":"),
                let minutes = number(2, in: 0...59)
            else { return nil }
            zone = (hours * 3_600 + minutes * 60) * (isWest ? -1 : 1)
        }
        let days = days(year, month, day)
        guard rest.isEmpty, civil(days) == (year, month, day) else { return nil }
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - zone
        return seconds < 0 ? nil : UInt64(seconds) * 1_000 + UInt64(fraction)
    }

    private static let lastMillisecond: UInt64 = 253_402_300_799_999

    private static func digits(_ number: UInt64, _ width: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, width - text.count)) + text
    }

    /// Days since 1970-01-01 to a date of the Gregorian calendar, by eras of 400 years from March on.
    private static func civil(_ days: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let ofEra = shifted - era * 146_097
        let yearOfEra = (ofEra - ofEra / 1_460 + ofEra / 36_524 - ofEra / 146_096) / 365
        let ofYear = ofEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * ofYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (
            yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, ofYear - (153 * shiftedMonth + 2) / 5 + 1
        )
    }

    private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let ofEra = shifted - era * 400
        let ofYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + ofEra * 365 + ofEra / 4 - ofEra / 100 + ofYear - 719_468
    }
}
