import ArgumentParser

/// The store or server that a command works on.
struct TargetOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The store's directory.", valueName: "dir"))
    var store: String?
    @OptionGroup var server: ServerTarget
    @OptionGroup var keys: APIKeyOptions

    /// Checks that exactly one target is given, unless none is needed.
    func check(isOptional: Bool = false) throws {
        if isOptional, store == nil, server.url == nil { return }
        guard (store == nil) != (server.url == nil) else {
            throw ValidationError("give either --store or --url")
        }
        guard !(server.namesToken && keys.namesKey) else {
            throw ValidationError("give either a token or an API key")
        }
    }

    /// Opens the store, or logs in to the server.
    /// - Throws: `CLI-0101`, `CLI-0201`, `CLI-0202`, `CLI-0301`, `CLI-0302`, `CLI-0401`.
    func runner() async throws -> any StatementRunner {
        if let store { return try await LocalRunner(store: store) }
        return try await RemoteRunner.open(server, keys)
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
