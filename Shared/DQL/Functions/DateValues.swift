import CRDT

/// A date as an argument.
struct DateInput {
    let moment: Moment
    /// True if it was written as text: results are then text too.
    let isText: Bool

    /// Reads ISO 8601 text with a zone, or milliseconds since 1970 (a float is rounded down). Nil for
    /// anything else.
    init?(_ value: Value) {
        let found: Moment?
        switch value {
        case .string(let text):
            isText = true
            found = Moment(iso: text)
        case .int(let milliseconds):
            isText = false
            found = Moment(milliseconds)
        case .double(let milliseconds):
            isText = false
            found = Int64(exactly: milliseconds.rounded(.down)).flatMap { Moment($0) }
        default: return nil
        }
        guard let found else { return nil }
        moment = found
    }
}

/// The form in which a date is returned: the arguments for format and zone that many functions end with.
struct DateOutput {
    private let format: DateFormat?
    private let zone: String?

    /// The same kind as the argument.
    static let plain = DateOutput(format: nil, zone: nil)

    private init(format: DateFormat?, zone: String?) {
        self.format = format
        self.zone = zone
    }

    /// Takes the arguments from a position on, as many as there are. Nil for an invalid format.
    init?(_ arguments: [Value], formatAt place: Int) {
        if arguments.count > place {
            guard let format = DateFormat(StringFunctions.text(arguments[place])) else { return nil }
            self.format = format
        } else {
            format = nil
        }
        zone = arguments.count > place + 1 ? StringFunctions.text(arguments[place + 1]) : nil
    }

    /// The date as text in the format, or in the kind of its argument. MISSING for an unknown zone.
    func value(of moment: Moment, isText: Bool, _ context: FunctionContext) -> Value? {
        var shown = moment
        if let zone {
            guard let offset = Zone(zone).offset(at: moment.milliseconds, context.timeZones),
                let moved = Moment(moment.milliseconds, offset: offset)
            else { return nil }
            shown = moved
        }
        if let format {
            return StringFunctions.bounded(format.print(shown, zoneName: zone))
        }
        return isText ? .string(shown.iso) : .int(moment.milliseconds)
    }
}
