import Foundation

/// The places where a command finds settings that its flags do not give: the environment, then the file of
/// `--config`, then the note of a server that runs on this machine.
public struct SettingSources: Sendable, Equatable {
    /// One of the places.
    public enum Source: Sendable {
        case environment
        case file
        case running
    }

    private let environment: [String: String]
    private let file: ConfigurationFile?
    /// Settings that a running server has told, by their names.
    public var running: [String: String] = [:]

    /// - Parameter config: the value of the flag `--config`; without it `MIMEO_CONFIG` is used.
    /// - Throws: `SRV-0104`, `SRV-0108`.
    public init(
        config: String?, environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(ServiceError) {
        try EnvironmentKeys.check(environment)
        self.environment = environment
        let path = config ?? environment[Self.setting("config").variable]
        file = try path.map { path throws(ServiceError) in try ConfigurationFile(path: path) }
    }

    /// A setting's text in one of the places; nil if it is not set there.
    public func text(_ name: String, in source: Source) -> String? {
        switch source {
        case .environment: environment[Self.setting(name).variable]
        case .file: file?[name]
        case .running: running[name]
        }
    }

    /// A setting's text; nil if it is not set.
    public func text(_ name: String) -> String? {
        text(name, in: .environment) ?? text(name, in: .file) ?? text(name, in: .running)
    }

    /// The texts of a list, which have commas or blanks between them.
    public func list(_ name: String) -> [String] {
        (text(name) ?? "").split { $0 == "," || $0 == " " }.map(String.init)
    }

    /// A switch: the flag's value, else that of the environment or the file; nil if it is not set.
    /// - Throws: `SRV-0108` for a variable that is neither true nor false.
    public func flag(_ name: String, over flag: Bool?) throws(ServiceError) -> Bool? {
        if let flag { return flag }
        guard let text = text(name) else { return nil }
        switch text.lowercased() {
        case "true", "1", "yes", "on": return true
        case "false", "0", "no", "off": return false
        default: throw wrong(name, "must be true or false")
        }
    }

    /// A number; nil if it is not set.
    /// - Throws: `SRV-0104` or `SRV-0108` if it is no whole number, or does not fit the flag's type.
    public func number<Number: FixedWidthInteger>(_ name: String) throws(ServiceError) -> Number? {
        guard let text = text(name) else { return nil }
        guard let number = Number(text) else {
            let isNumber = !text.isEmpty && text.allSatisfy { $0.isASCII && $0.isNumber }
            throw wrong(name, isNumber ? "must be at most \(Number.max)" : "must be a whole number")
        }
        return number
    }

    /// The error for a value that cannot be used; names its place.
    func wrong(_ name: String, _ problem: String) -> ServiceError {
        let variable = Self.setting(name).variable
        if environment[variable] != nil {
            return ServiceError(.environmentInvalid, "the value of \(variable) \(problem)")
        }
        let place = file?.place(of: name) ?? "--\(Self.setting(name).flag)"
        return ServiceError(.configurationInvalid, "\(place): the value \(problem)")
    }

    /// A setting's variable: `MIMEO_TOKEN`.
    public static func variable(_ name: String) -> String { setting(name).variable }

    /// A setting's flag: `--token`.
    public static func flag(_ name: String) -> String { "--\(setting(name).flag)" }

    static func setting(_ name: String) -> Setting {
        guard let setting = Setting.named(name) else {
            preconditionFailure("'\(name)' has no row in Setting.all")
        }
        return setting
    }
}
