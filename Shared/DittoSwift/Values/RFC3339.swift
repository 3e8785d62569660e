import DQL
import Foundation

/// Dates as documents hold them.
extension RFC3339 {
    /// The text of a date, rounded to milliseconds; nil outside the years 0000 to 9999.
    static func text(_ date: Date) -> String? {
        Int64(exactly: (date.timeIntervalSince1970 * 1_000).rounded()).flatMap { text(milliseconds: $0) }
    }

    /// The date of a text with a zone and any number of decimals; nil for any other text.
    static func date(_ text: String) -> Date? {
        read(text).map { Date(timeIntervalSince1970: (Double($0.milliseconds) + $0.rest) / 1_000) }
    }
}
