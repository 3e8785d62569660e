/// Durations as text: `1h30m0s`, as Go and DQL write them.
enum DurationText {
    /// Nanoseconds of a unit, by any of its names in a text or argument.
    static func nanoseconds(ofUnit name: String) -> Int64? {
        switch name.lowercased() {
        case "d", "day": 86_400_000_000_000
        case "h", "hour": 3_600_000_000_000
        case "m", "min", "minute": 60_000_000_000
        case "s", "sec", "second": 1_000_000_000
        case "ms", "millis", "millisecond": 1_000_000
        case "us", "µs", "μs", "micros", "microsecond": 1_000
        case "ns", "nanos", "nanosecond": 1
        default: nil
        }
    }

    /// `-1h30m`, `1.5s`, `100ms`: numbers, each with its unit. In nanoseconds; nil if the text is not a
    /// duration or does not fit 64 bits (292 years).
    static func parse(_ text: String) -> Int64? {
        var rest = Substring(text)
        let isNegative = rest.hasPrefix("-")
        if isNegative || rest.hasPrefix("+") { rest = rest.dropFirst() }
        if rest == "0" { return 0 }
        guard !rest.isEmpty else { return nil }
        var sum: Int64 = 0
        while !rest.isEmpty {
            let number = rest.prefix { $0.isASCII && $0.isNumber || $0 == "." }
            rest = rest.dropFirst(number.count)
            let unit = rest.prefix { !($0.isASCII && $0.isNumber || $0 == ".") }
            rest = rest.dropFirst(unit.count)
            guard let length = nanoseconds(ofUnit: String(unit)), let part = scaled(number, by: length) else {
                return nil
            }
            let (total, overflow) = sum.addingReportingOverflow(part)
            if overflow { return nil }
            sum = total
        }
        return isNegative ? -sum : sum
    }

    /// A decimal number times a unit, without rounding on the way.
    private static func scaled(_ number: Substring, by unit: Int64) -> Int64? {
        let parts = number.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.contains(where: { !$0.isEmpty }), let whole = parts[0].isEmpty ? 0 : Int64(parts[0])
        else {
            return nil
        }
        var (total, overflow) = whole.multipliedReportingOverflow(by: unit)
        if parts.count > 1 {
            var scale = unit
            for digit in parts[1].utf8 {
                guard Lexer.isDigit(digit) else { return nil }
                // Fractions of a nanosecond are dropped.
                let (product, tooLarge) = scale.multipliedReportingOverflow(by: Int64(digit - 0x30))
                if tooLarge { return nil }
                let (sum, overflowToo) = total.addingReportingOverflow(product / 10)
                (total, overflow) = (sum, overflow || overflowToo)
                scale /= 10
            }
        }
        return overflow ? nil : total
    }

    /// `1h30m0s`, `1.5s`, `100ms`, `0s`: from hours down; below a second, in the unit that leaves a whole
    /// number before the point.
    static func print(nanoseconds: Int64) -> String {
        let sign = nanoseconds < 0 ? "-" : ""
        let total = nanoseconds.magnitude
        if total == 0 { return "0s" }
        if total < 1_000 { return "\(sign)\(total)ns" }
        if total < 1_000_000 { return sign + decimal(total, 1_000) + "µs" }
        if total < 1_000_000_000 { return sign + decimal(total, 1_000_000) + "ms" }
        let minutes = total / 60_000_000_000
        let seconds = decimal(total % 60_000_000_000, 1_000_000_000) + "s"
        if minutes == 0 { return sign + seconds }
        return minutes < 60
            ? "\(sign)\(minutes)m\(seconds)" : "\(sign)\(minutes / 60)h\(minutes % 60)m\(seconds)"
    }

    private static func decimal(_ value: UInt64, _ unit: UInt64) -> String {
        let rest = value % unit
        guard rest > 0 else { return String(value / unit) }
        // A one before the digits keeps their leading zeros.
        var digits = String(unit + rest).dropFirst()
        while digits.hasSuffix("0") { digits = digits.dropLast() }
        return "\(value / unit).\(digits)"
    }
}
