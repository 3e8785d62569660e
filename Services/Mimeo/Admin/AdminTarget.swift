import ArgumentParser
import CRDT
import Foundation
import ServiceKit

/// The server and the admin credential of a command: from the command line or the environment, else from a
/// profile. The credential itself has no flag, since a command line can be seen by others.
struct AdminTarget: ParsableArguments {
    @Option(setting: "url") var url: String?
    @Option(setting: "database") var database: String?
    @Option(setting: "profile") var profile: String?
    @Option(setting: "profiles") var profiles: String?
    @Option(setting: "adminCredentialFile") var adminCredentialFile: String?
    @Option(setting: "config") var config: String?

    /// Environment and configuration file.
    /// - Throws: `SRV-0104`, `SRV-0108`.
    func sources() throws(ServiceError) -> SettingSources { try SettingSources(config: config) }

    /// The file of the profiles.
    func profileFile() throws -> ProfileFile {
        let kept = try sources().text("profiles")
        return ProfileFile(path: profiles ?? kept ?? ProfileFile.usualPath)
    }

    /// The name of the profile that is asked for; nil for the usual one.
    func profileName() throws -> String? { try profile ?? sources().text("profile") }

    /// The database for commands that name none.
    func defaultDatabase() throws -> String? { try database ?? sources().text("database") }

    /// The credential that flag or environment give; nil if they give none.
    /// - Throws: `CLI-0101`, `CLI-0401`.
    func givenCredential() async throws -> String? {
        let sources = try sources()
        let name = "adminCredentialFile"
        let file = (adminCredentialFile ?? sources.text(name)).map {
            (
                name: adminCredentialFile == nil ? SettingSources.variable(name) : SettingSources.flag(name),
                text: $0
            )
        }
        return try await SecretOption(value: nil, file: file)?.read()
    }

    /// The client.
    /// - Throws: `CLI-0101` without server or credential.
    func client() async throws -> AdminClient {
        let given = try await givenCredential()
        let address = try url ?? sources().text("url")
        if let address, let given {
            return AdminClient(origin: try RemoteRunner.checked(address), credential: given)
        }
        guard let found = try profileFile().profile(try profileName()) else {
            throw MimeoError(
                .usage,
                "no server is known: mimeo admin login keeps one, or give --url and --admin-credential-file")
        }
        // A credential goes to its own server only.
        guard address == nil || address == found.url || given != nil else {
            throw MimeoError(
                .usage, "the profile is of \(found.url): give --admin-credential-file with another --url")
        }
        return AdminClient(
            origin: try RemoteRunner.checked(address ?? found.url), credential: given ?? found.credential)
    }
}

/// The servers and credentials that `mimeo admin login` keeps: a JSON file that only its owner can read.
struct ProfileFile {
    /// One server.
    struct Profile: Codable, Equatable {
        var url: String
        var credential: String
    }

    private struct Content: Codable {
        var usual: String?
        var profiles: [String: Profile] = [:]
    }

    let path: String

    /// `~/.config/mimeo/profiles.json`, or in `XDG_CONFIG_HOME`.
    static var usualPath: String {
        let environment = ProcessInfo.processInfo.environment
        let folder = environment["XDG_CONFIG_HOME"] ?? "\(environment["HOME"] ?? ".")/.config"
        return "\(folder)/mimeo/profiles.json"
    }

    /// The profile of a name, or the usual one.
    /// - Throws: `CLI-0101` for an unknown name, `CLI-0401`.
    func profile(_ name: String?) throws(MimeoError) -> Profile? {
        let content = try read()
        guard let name = name ?? content.usual else { return nil }
        guard let found = content.profiles[name] else {
            let known = content.profiles.keys.sorted().joined(separator: ", ")
            throw MimeoError(.usage, "there is no profile '\(name)'; there are: \(known)")
        }
        return found
    }

    /// All names with their servers, and the usual one.
    func list() throws(MimeoError) -> [(name: String, url: String, isUsual: Bool)] {
        let content = try read()
        return content.profiles.sorted { $0.key < $1.key }.map {
            ($0.key, $0.value.url, $0.key == content.usual)
        }
    }

    /// Keeps a profile, which is the usual one from now on.
    /// - Throws: `CLI-0401`, `CLI-0406`.
    func keep(_ profile: Profile, as name: String) throws(MimeoError) {
        var content = try read()
        content.profiles[name] = profile
        content.usual = name
        try write(content)
    }

    /// Forgets a profile; false if there is none.
    func forget(_ name: String) throws(MimeoError) -> Bool {
        var content = try read()
        guard content.profiles.removeValue(forKey: name) != nil else { return false }
        if content.usual == name { content.usual = content.profiles.keys.sorted().first }
        try write(content)
        return true
    }

    private func read() throws(MimeoError) -> Content {
        guard FileManager.default.fileExists(atPath: path) else { return Content() }
        let mode = (try? FileManager.default.attributesOfItem(atPath: path))?[.posixPermissions] as? Int
        guard let mode, mode & 0o077 == 0 else {
            throw MimeoError(.fileUnreadable, "others can read \(path): set its mode to 0600")
        }
        guard let data = FileManager.default.contents(atPath: path),
            let content = try? JSONDecoder().decode(Content.self, from: data)
        else { throw MimeoError(.fileUnreadable, "\(path) is not a file of profiles") }
        return content
    }

    /// Writes beside the file first, so that it is whole at any moment, and never readable by others.
    private func write(_ content: Content) throws(MimeoError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
        // A path like `p.json` has no folder in it.
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        let temporary = "\(path).\(getpid())"
        do {
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            let made = FileManager.default.createFile(
                atPath: temporary, contents: try encoder.encode(content),
                attributes: [.posixPermissions: 0o600])
            guard made, rename(temporary, path) == 0 else { throw MimeoError(.fileUnwritable, "") }
        } catch {
            unlink(temporary)
            throw MimeoError(.fileUnwritable, "\(path) cannot be written")
        }
    }
}
