import CRDT
import Foundation

/// `mimeo admin login`, `logout` and `profiles`.
struct AdminLogin {
    let server: AdminTarget

    /// Checks a credential at its server, and keeps both under a name.
    /// - Throws: `CLI-0101`, `CLI-0301`, `CLI-0302`, `CLI-0406`.
    func login(_ words: [String]) async throws {
        try none(words, "login")
        guard let address = try server.url ?? server.sources().text("url") else {
            throw MimeoError(.usage, "mimeo admin login needs --url")
        }
        let origin = try RemoteRunner.checked(address)
        var credential = try await server.givenCredential()
        if credential == nil {
            credential = try await SecretOption(value: nil, file: ("the admin credential", "-"))?.read()
        }
        guard let credential else { throw MimeoError(.usage, "the admin credential is missing") }
        let found = try await AdminClient(origin: origin, credential: credential).whoami()
        let name = try server.profileName() ?? "default"
        try server.profileFile().keep(.init(url: origin, credential: credential), as: name)
        let who = found["name"]?.stringValue ?? "the credential of the file"
        let role = found["role"]?.stringValue ?? ""
        LineWriter.standardOutput.write(text: "profile \(name): \(origin), \(who), role \(role)")
    }

    /// Forgets a profile.
    func logout(_ words: [String]) throws {
        try none(words, "logout")
        let name = try server.profileName() ?? "default"
        guard try server.profileFile().forget(name) else {
            throw MimeoError(.usage, "there is no profile '\(name)'")
        }
        LineWriter.standardOutput.write(text: "profile \(name) is forgotten")
    }

    /// Lists the profiles, without credentials.
    func list(_ words: [String], format: OutputFormat) throws {
        try none(words, "profiles")
        let rows = try server.profileFile().list().map { row -> Value in
            ["name": .string(row.name), "url": .string(row.url), "usual": .bool(row.isUsual)]
        }
        LineWriter.standardOutput.write(text: AdminTable(["profiles": .array(rows)]).text(format))
    }

    private func none(_ words: [String], _ command: String) throws(MimeoError) {
        guard let word = words.first else { return }
        throw MimeoError(.usage, "mimeo admin \(command) does not take '\(word)'")
    }
}
