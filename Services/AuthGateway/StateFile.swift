import Foundation
import Identity

/// What the gateway keeps: databases with their development tokens and signing keys, as one JSON file.
///
/// `DIR/state.json`, mode 0600, in a folder of mode 0700. Every change writes a new file, fsyncs it, renames
/// it over the old one and fsyncs the folder, so there is always one whole state. One process writes it.
struct StateFile: Sendable {
    /// The form of the file. A newer one is refused and left as it is.
    static let version = 1

    struct State: Codable, Sendable {
        var version = StateFile.version
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

    private let folder: String
    private var path: String { "\(folder)/state.json" }

    /// - Throws: `AUTH-0501` when the folder cannot be made private.
    init(folder: String) throws(AuthGatewayError) {
        self.folder = folder
        do {
            let manager = FileManager.default
            try manager.createDirectory(
                atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            try manager.setAttributes([.posixPermissions: 0o700], ofItemAtPath: folder)
        } catch {
            throw AuthGatewayError(
                .stateUnusable, "the folder \(folder) cannot be made: \(error.localizedDescription)")
        }
    }

    /// The state; an empty one before the first write.
    /// - Throws: `AUTH-0501`, `AUTH-0502`.
    func read() throws(AuthGatewayError) -> State {
        guard FileManager.default.fileExists(atPath: path) else { return State() }
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

    /// Replaces the state; durable when this returns.
    /// - Throws: `AUTH-0501`.
    func write(_ state: State) throws(AuthGatewayError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .prettyPrinted, .withoutEscapingSlashes]
        let temporary = "\(path).new"
        do {
            let text = try encoder.encode(state)
            try? FileManager.default.removeItem(atPath: temporary)
            let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
            guard FileManager.default.createFile(atPath: temporary, contents: nil, attributes: attributes),
                let file = FileHandle(forWritingAtPath: temporary)
            else { throw CocoaError(.fileWriteUnknown) }
            try file.write(contentsOf: text)
            try file.synchronize()
            try file.close()
            guard rename(temporary, path) == 0 else { throw CocoaError(.fileWriteUnknown) }
        } catch {
            throw AuthGatewayError(.stateUnusable, "\(path) cannot be written: \(error.localizedDescription)")
        }
        try syncFolder()
    }

    private func syncFolder() throws(AuthGatewayError) {
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { close(descriptor) }
        guard descriptor >= 0, fsync(descriptor) == 0 else {
            throw AuthGatewayError(.stateUnusable, "the folder \(folder) cannot be synced")
        }
    }
}
