import ArgumentParser

/// One option of our commands: a flag, a name in the file of `--config`, and an environment variable.
///
/// `Setting.all` is the only list. The help of flags, the configuration file, the environment and the
/// reference page `Docs/Options.md` are made from it or tested against it.
public struct Setting: Sendable {
    /// The kinds of value.
    public enum Kind: Sendable, Equatable {
        /// Any text.
        case text
        /// Several texts: a flag that may be repeated; in the file an array, or one text with commas or
        /// blanks between them, as in the environment.
        case list
        /// A switch: `--flag` and `--no-flag`, true and false.
        case flag
        /// A whole number, and the least one.
        case number(least: UInt64)
        /// An operator's word for one start: a flag, and neither in the file nor in the environment, where
        /// it would be forgotten and speak again at later starts.
        case word

        /// As an error names it.
        var description: String {
            switch self {
            case .text: "a string"
            case .list: "a string or an array of strings"
            case .flag: "true or false"
            case .number(let least): "a whole number from \(least)"
            case .word: "a flag of the command line"
            }
        }
    }

    /// The commands that have options.
    public enum Command: String, Sendable, CaseIterable {
        case serve = "mimeo serve"
        case authGateway = "auth-gateway"
        case replicator
        case queryService = "query-service"
        case attachmentStore = "attachment-store"
        case peer = "mimeo peer"
        case canary = "mimeo canary"
        case dql = "mimeo dql"
        case importing = "mimeo import"
        case exporting = "mimeo export"
        case observe = "mimeo observe"
        case changes = "mimeo changes"
        case admin = "mimeo admin"
        case supportBundle = "mimeo support-bundle"
        case backup = "mimeo backup create"
        case backupFollowing = "mimeo backup follow"
        case backupVerification = "mimeo backup verify"
        case restore = "mimeo restore"
        case verify = "mimeo verify"
        case doctor = "mimeo doctor"
        case upgrade = "mimeo upgrade"
        case moving = "mimeo database move"
    }

    /// The name in the file: a flag `--tls-key` is `tlsKey`.
    public let name: String
    /// The kind of its value.
    public let kind: Kind
    /// The commands that have it.
    public let commands: Set<Command>
    /// The value's name in a flag's help; nil for a switch.
    public let valueName: String?
    /// The value where nothing is set, for people; nil if there is none.
    public let byDefault: String?
    /// One or two sentences.
    public let help: String

    init(
        _ name: String, _ kind: Kind, _ valueName: String? = nil, of commands: Set<Command>,
        default byDefault: String? = nil, _ help: String
    ) {
        (self.name, self.kind, self.valueName) = (name, kind, valueName)
        (self.commands, self.byDefault, self.help) = (commands, byDefault, help)
    }

    /// The flag without its dashes: `tlsKey` makes `tls-key`, `tombstoneTTLHours` `tombstone-ttl-hours`.
    public var flag: String {
        var flag = ""
        let letters = Array(name)
        for (place, letter) in letters.enumerated() {
            let beginsWord =
                letter.isUppercase && place > 0
                && (letters[place - 1].isLowercase
                    || letters.indices.contains(place + 1) && letters[place + 1].isLowercase)
            flag += (beginsWord ? "-" : "") + letter.lowercased()
        }
        return flag
    }

    /// The environment variable: `tlsKey` makes `MIMEO_TLS_KEY`.
    public var variable: String {
        EnvironmentKeys.prefix + flag.uppercased().map { $0 == "-" ? "_" : String($0) }.joined()
    }

    /// True if it is a flag only.
    public var isWord: Bool { kind == .word }

    /// The help of its flag.
    public var flagHelp: String { help + (byDefault.map { " Default: \($0)." } ?? "") }

    /// The setting of a name.
    public static func named(_ name: String) -> Setting? { byName[name] }

    private static let byName = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })
}

extension ArgumentHelp {
    /// The help of a setting's flag, from the table: `@Option(setting: "tlsKey") var tlsKey: String?`.
    public static func setting(_ name: String) -> ArgumentHelp {
        guard let setting = Setting.named(name) else {
            preconditionFailure("the flag '\(name)' has no row in Setting.all")
        }
        return ArgumentHelp("\(setting.flagHelp)", valueName: setting.valueName)
    }
}
