import ArgumentParser
import DittoSwift
import Foundation
import ServiceKit

/// A server, a database on it and the token of a login: the options of every command that logs in.
///
/// A command line is visible to every process of the machine, so the token may also come from a file, from
/// the first line of standard input, from the environment or from the file of `--config`.
struct ServerTarget: ParsableArguments {
    @Option(setting: "url") var url: String?
    @Option(setting: "database") var database: String?
    @Option(setting: "provider") var provider: String?
    // A token may begin with a dash.
    @Option(parsing: .unconditional, help: .setting("token")) var token: String?
    @Option(setting: "tokenFile") var tokenFile: String?
    @Option(setting: "config") var config: String?

    /// Environment and configuration file; where they name no server and no store, also the server that runs
    /// on the data folder of `MIMEO_DATA`, or on `./mimeo-data`.
    /// - Throws: `SRV-0104`, `SRV-0108`.
    func sources(
        _ environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(ServiceError) -> SettingSources {
        var sources = try SettingSources(config: config, environment: environment)
        if url == nil, sources.text("url") == nil, sources.text("store") == nil {
            let folder = sources.text("data") ?? Setting.named("data")?.byDefault ?? "."
            sources.running = RunningServer.settings(of: folder)
        }
        return sources
    }

    /// Tells a person which server was found, if no one named it.
    func tellFound(_ sources: SettingSources) {
        guard url == nil, let found = sources.running["url"] else { return }
        let database = (try? databaseID(sources)) ?? ""
        LineWriter.standardError.write(
            text: "mimeo: no server was named; the one that runs here is used: \(found), database \(database)"
        )
    }

    /// The server, checked.
    /// - Throws: `CLI-0101`.
    func origin(_ sources: SettingSources) throws(MimeoError) -> String {
        guard let url = url ?? sources.text("url") else { throw MimeoError(.usage, "--url is missing") }
        return try RemoteRunner.checked(url)
    }

    /// The login provider.
    func provider(_ sources: SettingSources) -> String {
        provider ?? sources.text("provider") ?? "development"
    }

    private static let providerOfKeys = "api-key"

    /// The database, and the provider and the token for a login there. An API key is the token of the
    /// provider that every database has for keys.
    /// - Throws: `CLI-0101`, `CLI-0401`, `SRV-0104`, `SRV-0108`.
    func login(
        _ environment: [String: String] = ProcessInfo.processInfo.environment, keys: APIKeyOptions,
        input: StandardInput = .shared
    ) async throws -> (databaseID: String, provider: String, token: String) {
        let sources = try sources(environment)
        guard let credential = try Credential(self, keys, sources) else {
            throw MimeoError(
                .usage, "a token is missing: give --token-file, --token or \(Credential.tokenVariable)")
        }
        let provider = credential.isKey ? Self.providerOfKeys : self.provider(sources)
        return (try databaseID(sources), provider, try await credential.secret.read(input: input))
    }

    /// The database.
    /// - Throws: `CLI-0101`.
    func databaseID(_ sources: SettingSources) throws(MimeoError) -> String {
        guard let database = database ?? sources.text("database") else {
            throw MimeoError(.usage, "--database is missing")
        }
        return database
    }
}

/// An API key instead of a token.
struct APIKeyOptions: ParsableArguments {
    @Option(parsing: .unconditional, help: .setting("apiKey")) var apiKey: String?
    @Option(setting: "apiKeyFile") var apiKeyFile: String?
}

/// The token or API key of a command: from the command line, else the environment, else the file of
/// `--config`. Two of one place are an error, because either could be meant.
struct Credential {
    static let tokenVariable = SettingSources.variable("token")

    let secret: SecretOption
    /// True for an API key.
    let isKey: Bool

    /// Nil if there is none.
    /// - Throws: `CLI-0101`.
    init?(
        _ server: ServerTarget, _ keys: APIKeyOptions, _ sources: SettingSources
    ) throws(MimeoError) {
        for place in Place.allCases {
            func found(_ name: String, _ flag: String?) -> SecretOption.Named? {
                let text = place.source.map { sources.text(name, in: $0) } ?? flag
                return text.map { (place.name(of: name), $0) }
            }
            let token = SecretOption(
                value: found("token", server.token), file: found("tokenFile", server.tokenFile))
            let key = SecretOption(
                value: found("apiKey", keys.apiKey), file: found("apiKeyFile", keys.apiKeyFile))
            switch (token, key) {
            case (let token?, let key?):
                throw MimeoError(
                    .usage, "give either a token or an API key, not \(token.place) and \(key.place)")
            case (let token?, nil): (secret, isKey) = (token, false)
            case (nil, let key?): (secret, isKey) = (key, true)
            case (nil, nil): continue
            }
            return
        }
        return nil
    }

    /// The places of a credential, the strongest first.
    private enum Place: CaseIterable {
        case commandLine
        case environment
        case file
        case running

        var source: SettingSources.Source? {
            switch self {
            case .commandLine: nil
            case .environment: .environment
            case .file: .file
            case .running: .running
            }
        }

        func name(of setting: String) -> String {
            switch self {
            case .commandLine: SettingSources.flag(setting)
            case .environment: SettingSources.variable(setting)
            case .file: "'\(setting)' of the file of --config"
            case .running: "the token of the server that runs here"
            }
        }
    }
}

extension RemoteRunner {
    /// Opens a server for statements, with an API key or a login.
    /// - Throws: `CLI-0101`, `CLI-0301`, `CLI-0302`, `CLI-0401`, `SRV-0104`, `SRV-0108`.
    static func open(
        _ server: ServerTarget, _ keys: APIKeyOptions,
        _ environment: [String: String] = ProcessInfo.processInfo.environment
    ) async throws -> RemoteRunner {
        let sources = try server.sources(environment)
        let origin = try server.origin(sources)
        server.tellFound(sources)
        guard let credential = try Credential(server, keys, sources) else {
            throw MimeoError(
                .usage, "a token is missing: give --token-file, --token or \(Credential.tokenVariable)")
        }
        if credential.isKey {
            return try RemoteRunner(origin: origin, apiKey: try await credential.secret.read())
        }
        let databaseID = try server.databaseID(sources)
        return try await RemoteRunner(
            origin: origin, databaseID: databaseID, provider: server.provider(sources),
            token: try await credential.secret.read())
    }
}
