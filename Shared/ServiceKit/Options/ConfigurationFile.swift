import CRDT
import DQL
import Foundation

/// The JSON file of `--config`: one object that maps the names of settings to their values.
///
/// All commands may share one file, so a setting that only another command has is accepted. An unknown name,
/// a name that is there twice and a value of the wrong kind are errors.
struct ConfigurationFile: Sendable, Equatable {
    private let path: String
    private let values: ObjectValue

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
            // A file that names a file would be read by whom?
            guard let setting = Setting.named(name), utf8Equal(setting.name, name), name != "config",
                !setting.isWord
            else {
                throw Self.unknown(name, in: path)
            }
            guard setting.kind != .text || value != "" else {
                throw Self.invalid("--config: \(path): '\(name)' is empty: give it a value, or leave it out")
            }
            guard Self.fits(value, setting.kind) else {
                throw Self.invalid(
                    "--config: \(path): the value of '\(name)' must be \(setting.kind.description)")
            }
        }
        values = object
    }

    private static func fits(_ value: Value, _ kind: Setting.Kind) -> Bool {
        switch kind {
        case .text: value.stringValue != nil
        case .list: value.stringValue != nil || value.arrayValue?.allSatisfy { $0.stringValue != nil } == true
        case .flag: value == true || value == false
        case .number: value.intValue.map { $0 >= 0 } ?? false
        case .word: false
        }
    }

    /// The value as a variable of the environment would have it; nil if it is not set.
    subscript(_ name: String) -> String? {
        guard let value = values[name] else { return nil }
        if let text = value.stringValue { return text }
        if let items = value.arrayValue { return items.compactMap(\.stringValue).joined(separator: ",") }
        if let number = value.intValue { return "\(number)" }
        return value == true ? "true" : "false"
    }

    /// The place of a setting, for an error.
    func place(of name: String) -> String { "--config: \(path): '\(name)'" }

    private static func unknown(_ name: String, in path: String) -> ServiceError {
        let names = Setting.all.filter { $0.name != "config" && !$0.isWord }.map(\.name).sorted()
        let hint = Suggestion.closest(to: name, among: names).map { " (did you mean '\($0)'?)" } ?? ""
        return invalid(
            "--config: \(path): '\(name)' is not a setting\(hint); the settings are "
                + names.joined(separator: ", "))
    }

    private static func invalid(_ message: String) -> ServiceError {
        ServiceError(.configurationInvalid, message)
    }
}
