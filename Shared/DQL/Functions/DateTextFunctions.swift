import CRDT

/// Spec 2.10: dates from text and to text.
enum DateTextFunctions {
    static let all: [FunctionDefinition] = [
        .contextual(
            "date_format", [.init("date", .date), .init("format", .string), .init("zone", .string)],
            optional: 1,
            "The date as text, in its own zone (UTC for milliseconds) or the given one. Formats: letters, or"
                + " directives after `%`; see below.",
            example: ("date_format('2024-02-29T12:30:00Z', 'DD.MM.YYYY hh:mm')", "'29.02.2024 12:30'"),
            check: { DateFunctions.formatProblem($0, 1) }
        ) { arguments, context in
            guard let input = DateInput(arguments[0]), let output = DateOutput(arguments, formatAt: 1) else {
                return nil
            }
            return output.value(of: input.moment, isText: true, context)
        },
        .contextual(
            "date_cast", [.init("text", .string), .init("format", .string)], optional: 1,
            "The date in the text, in milliseconds since 1970. Without a format the text is ISO 8601"
                + " with a zone; a format without a zone means UTC. MISSING when the text has another form or"
                + " names no date.",
            example: ("date_cast('29/02/2024', '%d/%m/%Y')", "1709164800000"),
            check: { DateFunctions.formatProblem($0, 1) }
        ) { arguments, context in moment(arguments, context).map { .int($0.milliseconds) } },
        .contextual(
            "tz_offset", [.init("date", .string), .init("format", .string)], optional: 1,
            "The minutes by which the date's zone is ahead of UTC. With the format `'TZN'` the"
                + " text is a zone's name, and the answer is for the time at which the statement began (1970"
                + " where no clock may be read).",
            example: ("tz_offset('2024-02-29T12:00:00+05:30')", "330"),
            check: { DateFunctions.formatProblem($0, 1) }
        ) { arguments, context in
            if arguments.count > 1, arguments[1] == "TZN" {
                let zone = Zone(StringFunctions.text(arguments[0]))
                return zone.offset(at: context.now ?? 0, context.timeZones).map { .int(Int64($0 / 60)) }
            }
            return moment(arguments, context).map { .int(Int64($0.offset / 60)) }
        },
    ]

    /// The moment in the text, read with the format if there is one.
    private static func moment(_ arguments: [Value], _ context: FunctionContext) -> Moment? {
        let text = StringFunctions.text(arguments[0])
        guard arguments.count > 1 else { return Moment(iso: text) }
        return DateFormat(StringFunctions.text(arguments[1]))?.parse(text, context.timeZones)
    }
}

/// Spec 2.10: durations.
enum DurationFunctions {
    static let all: [FunctionDefinition] = [
        .strict(
            "duration_cast", [.init("text", .string), .init("unit", .string)], optional: 1,
            "A duration such as `1h30m` in whole milliseconds, or another unit: day, hour, minute, second,"
                + " millisecond, microsecond, nanosecond. MISSING when it is no duration, or beyond 292"
                + " years.",
            example: ("duration_cast('1h30m')", "5400000")
        ) { arguments in
            guard let unit = unit(arguments),
                let duration = DurationText.parse(StringFunctions.text(arguments[0]))
            else { return nil }
            return .int(duration / unit)
        },
        .strict(
            "duration_format", [.init("duration", .number), .init("unit", .string)], optional: 1,
            "Milliseconds or another unit as a duration.", example: ("duration_format(5400000)", "'1h30m0s'")
        ) { arguments in
            guard let unit = unit(arguments) else { return nil }
            switch arguments[0] {
            case .int(let count):
                let (duration, overflow) = count.multipliedReportingOverflow(by: unit)
                return overflow ? nil : .string(DurationText.print(nanoseconds: duration))
            case .double(let count):
                let duration = Int64(exactly: (count * Double(unit)).rounded())
                return duration.map { .string(DurationText.print(nanoseconds: $0)) }
            default: return nil
            }
        },
    ]

    private static func unit(_ arguments: [Value]) -> Int64? {
        DurationText.nanoseconds(ofUnit: arguments.count > 1 ? StringFunctions.text(arguments[1]) : "ms")
    }
}
