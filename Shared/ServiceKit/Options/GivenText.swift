import ArgumentParser

/// The text of a flag or argument that must say something: a path, an address, a name.
///
/// An empty one is most often an unset variable of a script, as in `--data "$DATA"`. As a path it would mean
/// the current folder. So it is refused with the code of an empty `MIMEO_…` variable.
public enum GivenText {
    /// The reading of a value, for the parser.
    /// - Parameter name: `--data` for a flag, the name of its value for an argument.
    public static func of(_ name: String) -> @Sendable (String) throws -> String {
        { text in
            guard !text.isEmpty else { throw empty(name) }
            return text
        }
    }

    static func empty(_ name: String) -> ServiceError {
        ServiceError(.environmentInvalid, "\(name) is empty: give it a value, or leave it out")
    }
}

extension Option where Value == String? {
    /// The flag of a setting that is a text, with the table's help; an empty text is refused.
    public init(setting name: String) {
        self.init(help: .setting(name), transform: GivenText.of(SettingSources.flag(name)))
    }
}
