import HTTPTypes

/// The words by which `mimeo admin` knows a route: `databases list`, `api-keys create`.
///
/// They are made of the operation's name, `listDatabases`, so that a new route has its command at once; the
/// few that would read badly are in a table.
extension RouteDescription {
    /// The group and the verb; nil for a route that is no operator's: those of applications, and the sessions
    /// of browsers.
    public var command: [String]? {
        guard path.hasPrefix("/admin/"), !path.hasPrefix("/admin/console/") || name.hasPrefix("health") else {
            return nil
        }
        if let known = Self.exceptions[name] { return known.split(separator: " ").map(String.init) }
        let words = Self.words(of: name)
        for beginning in ["healthOf", "listSettingsOf", "showLogLevelOf", "setLogLevelOf", "listLogLinesOf"]
        where name.hasPrefix(beginning) {
            let service = words.drop { $0 != "of" }.dropFirst().joined(separator: "-")
            return [service, Self.serviceVerbs[beginning] ?? "show"]
        }
        guard let verb = words.first, words.count > 1 else {
            return ["server", words.joined(separator: "-")]
        }
        var noun = words.dropFirst().joined(separator: "-")
        if !noun.hasSuffix("s") { noun += "s" }
        return [noun, verb]
    }

    /// True if it takes something away that cannot be had back: a person is asked first.
    public var destroys: Bool {
        guard command != nil, case .admin(let role) = access, role > .read else { return false }
        return method == .delete && name != "undrain" || Self.destructive.contains(name)
    }

    /// The role that it needs; nil for a route that is no administrator's.
    public var role: AdminRole? {
        if case .admin(let role) = access { role } else { nil }
    }

    private static let destructive: Set<String> = [
        "truncate", "eraseDocuments", "drain", "rotateKey", "changeSealingKey", "acceptRestore", "revoke",
        "collectAttachments",
    ]

    private static let serviceVerbs = [
        "healthOf": "health", "listSettingsOf": "settings", "showLogLevelOf": "log-level",
        "setLogLevelOf": "set-log-level", "listLogLinesOf": "log-lines",
    ]

    private static let exceptions = [
        "showErasure": "databases erasure", "revoke": "revocations create",
        "listReplicatedDatabases": "log databases", "readLog": "log read", "writeSnapshot": "log snapshot",
        "truncate": "log truncate", "drain": "sessions drain", "undrain": "sessions undrain",
        "disconnect": "sessions disconnect", "eraseDocuments": "erasures create",
        "showPresence": "presence show", "listSlowStatements": "statements slow",
        "listAllRequests": "statements list",
        "cancelAllRequests": "statements cancel", "showShape": "collections shape",
        "explainAccess": "access explain", "listAudit": "audit list", "queryAudit": "audit query",
        "showSealingKey": "sealing-key show", "changeSealingKey": "sealing-key change",
        "deletePreviousSealingKey": "sealing-key forget", "showRestore": "restore show",
        "acceptRestore": "restore accept", "listMetricSeries": "metrics series",
        "attachmentUsage": "attachments usage", "attachmentVerification": "attachments verification",
        "whoami": "credentials whoami", "listSettings": "server settings",
    ]

    /// The words of a name: `listAPIKeys` has list, api and keys.
    private static func words(of name: String) -> [String] {
        var words: [String] = []
        var word = ""
        let letters = Array(name)
        for (place, letter) in letters.enumerated() {
            let next = letters.indices.contains(place + 1) ? letters[place + 1] : letter
            let begins =
                letter.isUppercase && place > 0
                && (letters[place - 1].isLowercase || (next.isLowercase && letters[place - 1].isUppercase))
            if begins {
                words.append(word)
                word = ""
            }
            word += letter.lowercased()
        }
        return words + [word]
    }
}
