import ArgumentParser
import ServiceKit

/// The store or server that a command works on.
struct TargetOptions: ParsableArguments {
    @Option(setting: "store") var store: String?
    @OptionGroup var server: ServerTarget
    @OptionGroup var keys: APIKeyOptions

    /// A store or a server.
    enum Target: Equatable {
        case store(String)
        case server(String)

        /// As a person knows it.
        var name: String {
            switch self {
            case .store(let name), .server(let name): name
            }
        }
    }

    /// The one target: of the command line, else the environment, else the file of `--config`, else the
    /// server that runs here; nil if there is none.
    /// - Throws: `CLI-0101` if one of these places names a store and a server.
    func target(_ sources: SettingSources) throws(MimeoError) -> Target? {
        let places = [
            (store, server.url),
            (sources.text("store", in: .environment), sources.text("url", in: .environment)),
            (sources.text("store", in: .file), sources.text("url", in: .file)),
            (nil, sources.text("url", in: .running)),
        ]
        for place in places {
            switch place {
            case (_?, _?): throw MimeoError(.usage, "give either --store or --url")
            case (let store?, nil): return .store(store)
            case (nil, let url?): return .server(url)
            case (nil, nil): continue
            }
        }
        return nil
    }

    /// The one target.
    /// - Throws: `CLI-0101` if there is none or two, `SRV-0104`, `SRV-0108`.
    func target() throws -> Target {
        guard let target = try target(try server.sources()) else {
            throw MimeoError(
                .usage, "give either --store or --url; no server runs on ./mimeo-data, or on MIMEO_DATA")
        }
        return target
    }

    /// True if the token or key is the first line of standard input.
    func readsStandardInput() throws -> Bool {
        // A flag says it also where a store needs no secret.
        if [server.tokenFile, keys.apiKeyFile].contains("-") { return true }
        let sources = try server.sources()
        guard case .server? = try target(sources) else { return false }
        return try Credential(server, keys, sources)?.secret.isTyped ?? false
    }

    /// The database that the store has to be of; nil if none is named. Beside the flag `--store`, variables
    /// and the file of `--config` do not count: they may name a server and its database.
    func databaseOfStore(_ sources: SettingSources) -> String? {
        server.database ?? (store == nil ? sources.text("database") : nil)
    }

    /// Opens the store, or logs in to the server.
    /// - Throws: `CLI-0101`, `CLI-0201`, `CLI-0202`, `CLI-0301`, `CLI-0302`, `CLI-0401`, `SRV-0104`,
    ///   `SRV-0108`.
    func runner() async throws -> any StatementRunner {
        switch try target() {
        case .store(let store):
            return try await LocalRunner(store: store, database: databaseOfStore(try server.sources()))
        case .server: return try await RemoteRunner.open(server, keys)
        }
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
