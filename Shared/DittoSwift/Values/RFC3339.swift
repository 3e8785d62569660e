import Foundation

/// Dates as documents hold them: RFC 3339 text in UTC with milliseconds, `2026-11-26T08:30:00.250Z`. Such
/// texts sort in time order, and the date functions of DQL read them.
enum RFC3339 {
    /// The text of a date, rounded to milliseconds; nil outside the years 0000 to 9999, which the text
    /// cannot hold.
    static func text(_ date: Date) -> String? {
        let exact = (date.timeIntervalSince1970 * 1_000).rounded()
        guard exact >= Double(firstMillisecond), exact <= Double(lastMillisecond) else { return nil }
        let milliseconds = Int(exact)
        let (day, ofDay) = milliseconds.flooredDivision(by: 86_400_000)
        let (year, month, dayOfMonth) = civil(day)
        let (hour, ofHour) = ofDay.flooredDivision(by: 3_600_000)
        let (minute, ofMinute) = ofHour.flooredDivision(by: 60_000)
        let (second, rest) = ofMinute.flooredDivision(by: 1_000)
        return "\(digits(year, 4))-\(digits(month, 2))-\(digits(dayOfMonth, 2))"
            + "T\(digits(hour, 2)):\(digits(minute, 2)):\(digits(second, 2)).\(digits(rest, 3))Z"
    }

    /// The date of a text with a zone (`Z` or `±hh:mm`) and any number of decimals; nil for any other text.
    static func date(_ text: String) -> Date? {
        var rest = Array(text.utf8)[...]
        func number(_ count: Int, in range: ClosedRange<Int>) -> Int? {
            guard rest.count >= count, rest.prefix(count).allSatisfy(isDigit) else { return nil }
            let value = rest.prefix(count).reduce(0) { $0 * 10 + Int($1 - zero) }
            rest = rest.dropFirst(count)
            return range.contains(value) ? value : nil
        }
        func mark(_ marks: String) -> Bool {
            guard let first = rest.first, marks.utf8.contains(first) else { return false }
            rest = rest.dropFirst()
            return true
        }
        guard let year = number(4, in: 0...9_999), mark("-"), let month = number(2, in: 1...12), mark("-"),
            let day = number(2, in: 1...length(ofMonth: month, year)), mark("Tt "),
            let hour = number(2, in: 0...23), mark(":"), let minute = number(2, in: 0...59), mark(":"),
            let second = number(2, in: 0...60)
        else { return nil }
        var fraction = 0.0
        if mark(".") {
            let decimals = rest.prefix(while: isDigit)
            guard let found = Double("0." + String(decoding: decimals, as: UTF8.self)), !decimals.isEmpty
            else { return nil }
            fraction = found
            rest = rest.dropFirst(decimals.count)
        }
        var offset = 0
        if !mark("Zz") {
            let isWest = rest.first == UInt8(ascii: "-")
            guard mark("+-"), let hours = number(2, in: 0...23), mark(":"), let minutes = number(2, in: 0...59)
            else { return nil }
            offset = (hours * 3_600 + minutes * 60) * (isWest ? -1 : 1)
        }
        guard rest.isEmpty else { return nil }
        let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset
        return Date(timeIntervalSince1970: Double(seconds) + fraction)
    }

    private static let zero = UInt8(ascii: "0")
    private static let firstMillisecond = days(0, 1, 1) * 86_400_000
    private static let lastMillisecond = (days(9_999, 12, 31) + 1) * 86_400_000 - 1

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= zero && byte <= UInt8(ascii: "9") }

    private static func digits(_ number: Int, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, count - text.count)) + text
    }

    private static func length(ofMonth month: Int, _ year: Int) -> Int {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        return [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]
    }

    // Days since 1970-01-01 in the Gregorian calendar. Years begin in March here, so that the leap day is
    // the last day of a year, and repeat after 400 years (146,097 days).

    private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let (era, yearOfEra) = (month > 2 ? year : year - 1).flooredDivision(by: 400)
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private static func civil(_ day: Int) -> (year: Int, month: Int, day: Int) {
        let (era, dayOfEra) = (day + 719_468).flooredDivision(by: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let part = (5 * dayOfYear + 2) / 153
        let month = part < 10 ? part + 3 : part - 9
        return (era * 400 + yearOfEra + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * part + 2) / 5 + 1)
    }
}

extension Int {
    /// The quotient rounded down, and the rest, which is never negative.
    fileprivate func flooredDivision(by divisor: Int) -> (quotient: Int, rest: Int) {
        let rest = ((self % divisor) + divisor) % divisor
        return ((self - rest) / divisor, rest)
    }
}
