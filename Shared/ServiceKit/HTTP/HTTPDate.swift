import Machine

/// The field `Date` of answers (RFC 9110 section 5.6.7), made once a second.
struct HTTPDate {
    private var seconds: Int64 = -1
    private var made = ""

    /// The present date.
    mutating func text() -> String {
        let now = SystemClock.seconds()
        if now != seconds { (seconds, made) = (now, Self.text(of: now)) }
        return made
    }

    /// The date of a moment in seconds since 1970.
    static func text(of seconds: Int64) -> String {
        let (days, rest) = (max(0, seconds) / 86_400, max(0, seconds) % 86_400)
        // Years begin in March here, so that the day that not every year has is the last one.
        let shifted = days + 719_468
        let (era, ofEra) = (shifted / 146_097, shifted % 146_097)
        let year = (ofEra - ofEra / 1_460 + ofEra / 36_524 - ofEra / 146_096) / 365
        let ofYear = ofEra - (365 * year + year / 4 - year / 100)
        let month = (5 * ofYear + 2) / 153
        let day = ofYear - (153 * month + 2) / 5 + 1
        let name = Int((month + 2) % 12)
        let shown = era * 400 + year + (name < 2 ? 1 : 0)
        let time = [rest / 3_600, rest / 60 % 60, rest % 60].map(two).joined(separator: ":")
        return "\(weekdays[Int((days + 4) % 7)]), \(two(day)) \(months[name]) \(shown) \(time) GMT"
    }

    private static func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }

    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}
