import ArgumentParser

/// The store or server that a command works on.
struct TargetOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The store's directory.", valueName: "dir"))
    var store: String?
    @Option(help: ArgumentHelp("The server, like http://127.0.0.1:4000.", valueName: "origin"))
    var url: String?
    @Option(help: ArgumentHelp("The database on the server.", valueName: "id"))
    var database: String?
    @Option(help: "The login provider that checks the token.")
    var provider = "development"
    // A token may begin with a dash.
    @Option(parsing: .unconditional, help: "The token for the login provider.")
    var token: String?
    @Option(parsing: .unconditional, help: ArgumentHelp("An API key instead of a login.", valueName: "key"))
    var apiKey: String?

    /// Checks that exactly one target is given, unless none is needed.
    func check(isOptional: Bool = false) throws {
        if isOptional, store == nil, url == nil { return }
        guard (store == nil) != (url == nil) else { throw ValidationError("give either --store or --url") }
        guard url == nil || apiKey != nil || (database != nil && token != nil) else {
            throw ValidationError("--url needs --database and --token, or --api-key")
        }
        guard apiKey == nil || token == nil else { throw ValidationError("give either --token or --api-key") }
    }

    /// Opens the store, or logs in to the server.
    /// - Throws: `CLI-0101`, `CLI-0201`, `CLI-0202`, `CLI-0301`, `CLI-0302`.
    func runner() async throws -> any StatementRunner {
        if let store { return try await LocalRunner(store: store) }
        let origin = url ?? ""
        if let apiKey { return try RemoteRunner(origin: origin, apiKey: apiKey) }
        return try await RemoteRunner(
            origin: origin, databaseID: database ?? "", provider: provider, token: token ?? "")
    }

    /// Runs `body` with the target, and closes it afterwards.
    func withRunner(_ body: (any StatementRunner) async throws -> Void) async throws {
        let runner = try await runner()
        do {
            try await body(runner)
        } catch {
            await runner.close()
            throw error
        }
        await runner.close()
    }
}

/// A collection that a command line names.
struct NamedCollection {
    /// The name as a statement has it.
    let quoted: String

    /// - Throws: `CLI-0101` for a name that a statement of this command cannot have.
    init(_ name: String, advice: String) throws {
        guard !name.lowercased().hasPrefix("system:") else {
            throw MimeoError(.usage, "'\(name)' is a collection of the system's own\(advice)")
        }
        guard !name.isEmpty else { throw MimeoError(.usage, "--collection is empty") }
        quoted =
            "`" + name.split(separator: "`", omittingEmptySubsequences: false).joined(separator: "``") + "`"
    }
}
