import ServiceKit

/// The text of `mimeo admin help`, made of the table of routes.
enum AdminHelp {
    /// All groups, or the commands of one.
    /// - Throws: `CLI-0101` for an unknown group.
    static func text(_ words: [String]) throws(MimeoError) -> String {
        guard let group = words.first else { return overview }
        let found = AdminCall.routes.filter { $0.words.starts(with: words) }
        guard !found.isEmpty else {
            throw MimeoError(.usage, "there is no command '\(words.joined(separator: " "))' in \(group)")
        }
        return found.map { help($0.words, $0.route) }.joined(separator: "\n\n")
    }

    private static var overview: String {
        var lines = ["mimeo admin GROUP COMMAND [ARGUMENTS] [--OPTION VALUE]", ""]
        var groups: [String] = []
        for (words, _) in AdminCall.routes where !groups.contains(words[0]) { groups.append(words[0]) }
        let width = groups.map(\.count).max() ?? 0
        for group in groups.sorted() {
            let verbs = AdminCall.routes.filter { $0.words[0] == group }.map { $0.words[1] }
            let space = String(repeating: " ", count: width - group.count)
            lines.append("  \(group)\(space)  \(verbs.joined(separator: ", "))")
        }
        lines += [
            "", "  login, logout, profiles: servers and credentials that are kept",
            "", "mimeo admin help GROUP tells the options.",
        ]
        return lines.joined(separator: "\n")
    }

    private static func help(_ words: [String], _ route: RouteDescription) -> String {
        let arguments = route.pathParameters.map { $0.uppercased() }
        var lines = ["mimeo admin \((words + arguments).joined(separator: " "))", "    \(route.summary)"]
        if !route.details.isEmpty { lines.append("    \(route.details)") }
        if let role = route.role { lines.append("    Role: \(role.rawValue).") }
        if route.destroys { lines.append("    Asks first; --yes does without.") }
        for parameter in route.parameters where parameter.place == .query {
            lines.append("    --\(AdminCall.flag(parameter.name, of: route)): \(parameter.about)")
        }
        for member in AdminCall.members(of: route) {
            let about = member.about.isEmpty ? "" : ": \(member.about)"
            let needed = member.isRequired ? " (needed)" : ""
            lines.append("    --\(AdminCall.flag(member.name, of: route))\(needed)\(about)")
        }
        return lines.joined(separator: "\n")
    }
}
