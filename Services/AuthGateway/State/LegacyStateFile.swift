import Foundation

/// The one JSON file that the first version kept everything in, `DIR/state.json`: read on the first start of
/// this one, taken over into the system database, and removed when that is durable.
struct LegacyStateFile: Sendable {
    /// The form of the file. A newer one is refused and left as it is.
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

    /// The state; nil where there is no such file.
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
            throw AuthGatewayError(.stateUnreadable, "\(path) was written by a newer version of this program")
        }
        guard let state = try? JSONDecoder().decode(State.self, from: text) else {
            throw AuthGatewayError(.stateUnreadable, "\(path) is damaged")
        }
        return state
    }

    /// Removes the file: what was in it is in the log.
    func remove() throws(AuthGatewayError) {
        guard unlink(path) == 0 || errno == ENOENT else {
            throw AuthGatewayError(.stateUnusable, "\(path) cannot be removed, and holds keys in clear")
        }
    }
}
