import CRDT
import DQL
import Foundation

/// The JSON file of `--config`: one object that maps the names of flags to their values.
///
/// All services may share one file, so a setting that only another service has is accepted. An unknown name,
/// a name that is there twice and a value of the wrong kind are errors.
public struct ConfigurationFile: Sendable, Equatable {
    /// The kinds of value of a setting.
    enum Kind: String {
        case text = "a string"
        case flag = "true or false"
        case number = "a whole number from 0"
    }

    /// The settings by name: a flag `--tls-key` is `tlsKey`.
    static let settings: [String: Kind] = [
        "data": .text, "listen": .text, "log": .text, "projection": .text, "issuer": .text,
        "providers": .text, "secretsKey": .text, "adminToken": .text, "tlsCertificate": .text,
        "tlsKey": .text, "corsOrigin": .text, "behindProxy": .flag, "showToken": .flag,
        "keepAliveSeconds": .number,
        "tombstoneTTLHours": .number, "snapshotOperations": .number, "keptOperations": .number,
        "housekeepingSeconds": .number, "diskReservePercent": .number, "maxAttachmentBytes": .number,
    ]

    /// The names of all settings, sorted.
    public static let names: [String] = settings.keys.sorted()

    private let path: String
    private let values: [String: Value]

    /// Reads a file.
    /// - Throws: `SRV-0104`.
    init(path: String) throws(ServiceError) {
        self.path = path
        guard let text = FileManager.default.contents(atPath: path),
            text.count <= Limits.configurationFileBytes
        else {
            throw Self.invalid(
                "--config: \(path) cannot be read or is larger than \(Limits.configurationFileBytes) bytes")
        }
        let object: ObjectValue?
        do {
            object = try JSONText.parseStrictly(Array(text)).objectValue
        } catch {
            throw Self.invalid("--config: \(path): \(error.message)")
        }
        guard let object else { throw Self.invalid("--config: \(path) is not a JSON object") }
        for (name, value) in object.entries {
            guard let kind = Self.settings[name] else { throw Self.unknown(name, in: path) }
            let fits =
                switch kind {
                case .text: value.stringValue != nil
                case .flag: value == true || value == false
                case .number: value.intValue.map { $0 >= 0 } ?? false
                }
            guard fits else {
                throw Self.invalid("--config: \(path): the value of '\(name)' must be \(kind.rawValue)")
            }
        }
        values = Dictionary(uniqueKeysWithValues: object.entries.map { ($0.key, $0.value) })
    }

    /// A text; nil if it is not set.
    subscript(_ name: String) -> String? { values[name]?.stringValue }

    /// True if a flag is set to true.
    func flag(_ name: String) -> Bool { values[name] == true }

    /// A number; nil if it is not set.
    /// - Throws: `SRV-0104` if it does not fit the flag's type.
    func number<Number: FixedWidthInteger>(_ name: String) throws(ServiceError) -> Number? {
        guard let number = values[name]?.intValue else { return nil }
        guard let fitting = Number(exactly: number) else {
            throw Self.invalid("--config: \(path): the value of '\(name)' must be at most \(Number.max)")
        }
        return fitting
    }

    private static func unknown(_ name: String, in path: String) -> ServiceError {
        let hint = Suggestion.closest(to: name, among: names).map { " (did you mean '\($0)'?)" } ?? ""
        return invalid(
            "--config: \(path): '\(name)' is not a setting\(hint); the settings are "
                + names.joined(separator: ", "))
    }

    private static func invalid(_ message: String) -> ServiceError {
        ServiceError(.configurationInvalid, message)
    }
}
