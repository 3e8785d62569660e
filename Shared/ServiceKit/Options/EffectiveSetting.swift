import Foundation

/// A setting as a process uses it, and where its value comes from. Passwords in URLs are left out.
public struct EffectiveSetting: Sendable, Equatable {
    /// The places of a value.
    public enum Origin: String, Sendable {
        case flag
        case environment
        case file
        case byDefault = "default"
    }

    /// The setting's name in the file of `--config`.
    public let name: String
    /// The value as text; of a default the reference page's words, nil if it has none.
    public let value: String?
    /// Its origin.
    public let origin: Origin

    /// The settings of a command.
    /// - Parameters:
    ///   - arguments: the command line, without the program.
    static func all(
        of command: Setting.Command, arguments: [String], sources: SettingSources
    ) -> [EffectiveSetting] {
        Setting.all.filter { $0.commands.contains(command) }.map { setting in
            if let text = flag(setting, arguments) {
                return EffectiveSetting(setting.name, text, .flag)
            }
            if !setting.isWord, let text = sources.text(setting.name, in: .environment) {
                return EffectiveSetting(setting.name, text, .environment)
            }
            if !setting.isWord, setting.name != "config", let text = sources.text(setting.name, in: .file) {
                return EffectiveSetting(setting.name, text, .file)
            }
            return EffectiveSetting(setting.name, setting.byDefault, .byDefault)
        }
    }

    private init(_ name: String, _ value: String?, _ origin: Origin) {
        (self.name, self.origin) = (name, origin)
        self.value = value.map { text in
            text.split(separator: ",", omittingEmptySubsequences: false)
                .map { Self.withoutPassword(String($0)) }.joined(separator: ",")
        }
    }

    /// The value that the command line gives; of a list all, with commas.
    private static func flag(_ setting: Setting, _ arguments: [String]) -> String? {
        let isSwitch = setting.kind == .flag || setting.isWord
        var found: [String] = []
        for (place, argument) in arguments.enumerated() {
            if argument == "--\(setting.flag)" {
                if isSwitch { return "true" }
                if arguments.indices.contains(place + 1) { found.append(arguments[place + 1]) }
            } else if argument == "--no-\(setting.flag)", isSwitch {
                return "false"
            } else if argument.hasPrefix("--\(setting.flag)=") {
                found.append(String(argument.dropFirst(setting.flag.count + 3)))
            }
        }
        return setting.kind == .list
            ? (found.isEmpty ? nil : found.joined(separator: ",")) : found.last
    }

    /// `postgres://user:secret@host/x?password=y` without what may be a secret.
    static func withoutPassword(_ text: String) -> String {
        guard text.contains("://"), var parts = URLComponents(string: text) else {
            // Not even a URL: its beginning tells which it was meant to be.
            return text.contains("@") && text.contains("://") ? "\(text.prefix { $0 != ":" })://…" : text
        }
        if parts.password != nil { parts.password = "***" }
        parts.queryItems = parts.queryItems?.map { item in
            let isSecret = item.name.lowercased().contains("password")
            return isSecret ? URLQueryItem(name: item.name, value: "***") : item
        }
        return parts.string ?? "…"
    }
}
