import ArgumentParser
import DittoSwift
import Foundation
import ServiceKit

/// A server, a database on it and the token of a login: the options of every command that logs in.
///
/// A command line is visible to every process of the machine, so the token may also come from a file, from
/// the first line of standard input or from the environment.
struct ServerTarget: ParsableArguments {
    /// The environment variable of the token.
    static let tokenVariable = "MIMEO_TOKEN"

    @Option(help: ArgumentHelp("The server, like http://127.0.0.1:4000.", valueName: "origin"))
    var url: String?
    @Option(help: ArgumentHelp("The database on the server.", valueName: "id"))
    var database: String?
    @Option(help: "The login provider that checks the token.")
    var provider = "development"
    // A token may begin with a dash.
    @Option(
        parsing: .unconditional,
        help: "The token for the login provider. A command line can be seen by others.")
    var token: String?
    @Option(
        help: ArgumentHelp(
            "A file with the token; - for the first line of standard input. Without either the environment's "
                + "\(ServerTarget.tokenVariable) is the token.",
            valueName: "file"))
    var tokenFile: String?

    /// The server, checked.
    /// - Throws: `CLI-0101`.
    func origin() throws(MimeoError) -> String {
        guard let url else { throw MimeoError(.usage, "--url is missing") }
        return try RemoteRunner.checked(url)
    }

    /// True if the command line has a token or the place of one.
    var namesToken: Bool { token != nil || tokenFile != nil }

    /// The database and the token for a login there.
    /// - Throws: `CLI-0101`, `CLI-0401`.
    func login(
        _ environment: [String: String] = ProcessInfo.processInfo.environment,
        input: StandardInput = .shared
    ) async throws(MimeoError) -> (databaseID: String, token: String) {
        guard let database else { throw MimeoError(.usage, "--url needs --database") }
        let secret = SecretOption(
            flag: "--token", value: token, file: tokenFile, variable: Self.tokenVariable)
        guard let token = try await secret.read(environment, input: input) else {
            throw MimeoError(
                .usage, "a token is missing: give --token-file, --token or \(Self.tokenVariable)")
        }
        return (database, token)
    }
}

/// An API key instead of a login, for commands that only use HTTP.
struct APIKeyOptions: ParsableArguments {
    /// The environment variable of the key.
    static let keyVariable = "MIMEO_API_KEY"

    @Option(parsing: .unconditional, help: ArgumentHelp("An API key instead of a login.", valueName: "key"))
    var apiKey: String?
    @Option(
        help: ArgumentHelp(
            "A file with the API key; - for the first line of standard input. Without either the "
                + "environment's \(APIKeyOptions.keyVariable) is the key.",
            valueName: "file"))
    var apiKeyFile: String?

    /// True if the command line has a key or the place of one.
    var namesKey: Bool { apiKey != nil || apiKeyFile != nil }

    /// The key; nil if there is none.
    /// - Throws: `CLI-0101`, `CLI-0401`.
    func key(
        _ environment: [String: String] = ProcessInfo.processInfo.environment,
        input: StandardInput = .shared
    ) async throws(MimeoError) -> String? {
        try await SecretOption(
            flag: "--api-key", value: apiKey, file: apiKeyFile, variable: Self.keyVariable
        ).read(environment, input: input)
    }
}

extension RemoteRunner {
    /// Opens a server for statements, with an API key or a login: as the command line says, else as the
    /// environment says.
    /// - Throws: `CLI-0101`, `CLI-0301`, `CLI-0302`, `CLI-0401`.
    static func open(
        _ server: ServerTarget, _ keys: APIKeyOptions,
        _ environment: [String: String] = ProcessInfo.processInfo.environment
    ) async throws -> RemoteRunner {
        let origin = try server.origin()
        if server.namesToken, keys.namesKey {
            throw MimeoError(.usage, "give either a token or an API key")
        }
        if !server.namesToken, let key = try await keys.key(environment) {
            guard keys.namesKey || environment[ServerTarget.tokenVariable] == nil else {
                throw MimeoError(
                    .usage,
                    "the environment has \(ServerTarget.tokenVariable) and \(APIKeyOptions.keyVariable): "
                        + "unset one of them")
            }
            return try RemoteRunner(origin: origin, apiKey: key)
        }
        let (databaseID, token) = try await server.login(environment)
        return try await RemoteRunner(
            origin: origin, databaseID: databaseID, provider: server.provider, token: token)
    }
}
