import Foundation

/// The JSON file with the whole state of the first version, `DIR/state.json`. The first start of this version
/// imports it into the system database, and removes it when the import is durable.
struct LegacyStateFile: Sendable {
    /// The file's version. A newer one is refused and not changed.
    static let version = 1

    struct State: Codable, Sendable {
        var version = LegacyStateFile.version
        /// The database that `mimeo serve` prints.
        var development: String?
        var databases: [Database] = []
    }

    struct Database: Codable, Sendable {
        var id: String
        var developmentToken: String
        var keys: [Key] = []
    }

    struct Key: Codable, Sendable {
        var number: Int
        var pem: String
    }

    private let path: String

    init(folder: String) { path = "\(folder)/state.json" }

    /// The state; nil if there is no such file.
    /// - Throws: `AUTH-0501`, `AUTH-0502`.
    func read() throws(AuthGatewayError) -> State? {
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        guard let text = FileManager.default.contents(atPath: path) else {
            throw AuthGatewayError(.stateUnusable, "\(path) cannot be read")
        }
        struct Head: Decodable { var version: Int }
        guard let head = try? JSONDecoder().decode(Head.self, from: text) else {
            throw AuthGatewayError(.stateUnreadable, "\(path) is damaged")
        }
        guard head.version <= Self.version else {
            throw AuthGatewayError(.stateUnreadable, "\(path) is of a newer version; start that version")
        }
        guard let state = try? JSONDecoder().decode(State.self, from: text) else {
            throw AuthGatewayError(.stateUnreadable, "\(path) is damaged")
        }
        return state
    }

    /// Removes the file, after its content is in the log.
    func remove() throws(AuthGatewayError) {
        guard unlink(path) == 0 || errno == ENOENT else {
            throw AuthGatewayError(
                .stateUnusable, "\(path) cannot be removed; remove it by hand: it holds keys in clear text")
        }
    }
}
