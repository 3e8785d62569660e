import CRDT
import Foundation
import ServiceKit

/// One admin request, as the words of a command line say it.
struct AdminCall: Sendable {
    let route: RouteDescription
    /// The path with its parameters, and the query.
    let path: String
    /// JSON; nil for a route without a body.
    let body: Value?

    /// `databases delete`.
    var title: String { (route.command ?? []).joined(separator: " ") }

    /// All routes that have a command.
    static let routes: [(words: [String], route: RouteDescription)] = Surface.routes.compactMap { route in
        route.command.map { ($0, route) }
    }

    /// - Parameters:
    ///   - words: group, verb, the path's parameters, and options.
    ///   - database: the database where the words name none.
    /// - Throws: `CLI-0101`, `CLI-0401`.
    init(_ words: [String], database: String?) async throws {
        let plain = words.prefix { !$0.hasPrefix("--") }
        guard let found = Self.routes.first(where: { plain.starts(with: $0.words) }) else {
            throw MimeoError(.usage, Self.unknown(words))
        }
        route = found.route
        var arguments = Array(words.dropFirst(found.words.count))
        var options: [(name: String, text: String)] = []
        var positional: [String] = []
        while !arguments.isEmpty {
            let word = arguments.removeFirst()
            guard word.hasPrefix("--") else {
                positional.append(word)
                continue
            }
            let name = String(word.dropFirst(2))
            if let equals = name.firstIndex(of: "=") {
                options.append((String(name[..<equals]), String(name[name.index(after: equals)...])))
            } else {
                guard !arguments.isEmpty else { throw MimeoError(.usage, "\(word) needs a value") }
                options.append((name, arguments.removeFirst()))
            }
        }
        let title = found.words.joined(separator: " ")
        var target = try Self.filled(found.route, positional, database, title)
        var query: [String] = []
        var members: [(key: String, value: Value)] = []
        var whole: Value?
        for (name, text) in options {
            let text = try await Self.content(text, of: name)
            if name == "body", found.route.body != nil {
                whole = try Self.json(text, name)
            } else if let known = found.route.parameters.first(where: {
                $0.place == .query && Self.flag($0.name, of: found.route) == name
            }) {
                query.append("\(Self.encoded(known.name))=\(Self.encoded(text))")
            } else if let member = Self.members(of: found.route).first(where: {
                Self.flag($0.name, of: found.route) == name
            }) {
                members.append((member.name, try Self.value(text, member)))
            } else {
                throw MimeoError(.usage, Self.unknownOption(name, title, found.route))
            }
        }
        if !query.isEmpty { target += "?\(query.joined(separator: "&"))" }
        path = target
        body = try Self.body(found.route, members, whole, title)
    }

    private static func body(
        _ route: RouteDescription, _ members: [(key: String, value: Value)], _ whole: Value?, _ title: String
    ) throws(MimeoError) -> Value? {
        guard let shape = route.body else { return nil }
        if let whole {
            guard members.isEmpty else { throw MimeoError(.usage, "give either --body or single members") }
            return whole
        }
        for member in self.members(of: route) where member.isRequired {
            guard members.contains(where: { $0.key == member.name }) else {
                throw MimeoError(
                    .usage, "\(title) needs --\(flag(member.name, of: route)); see mimeo admin help")
            }
        }
        return members.isEmpty && !shape.isRequired ? [:] : .object(ObjectValue(members))
    }

    /// The path with its parameters: those that are given, in their order. A database that is not given is
    /// the profile's.
    private static func filled(
        _ route: RouteDescription, _ given: [String], _ database: String?, _ title: String
    ) throws(MimeoError) -> String {
        let names = route.pathParameters
        var given = given
        if given.count == names.count - 1, names.first == "database", let database {
            given.insert(database, at: 0)
        }
        guard given.count == names.count else {
            let wanted = names.map { $0.uppercased() }.joined(separator: " ")
            throw MimeoError(
                .usage, names.isEmpty ? "\(title) takes no arguments" : "\(title) takes \(wanted)")
        }
        var path = route.path
        for (name, text) in zip(names, given) {
            path = path.replacing(":\(name)", with: encoded(text), maxReplacements: 1)
        }
        return path
    }

    /// The members of a route's body.
    static func members(of route: RouteDescription) -> [Schema.Member] {
        if case .members(let members)? = route.body?.schema { members } else { [] }
    }

    /// Options of `mimeo admin` itself, wherever they stand in the line.
    static let taken: Set<String> = [
        "url", "database", "profile", "profiles", "admin-credential-file", "config", "format", "yes", "wait",
        "help", "version", "body",
    ]

    /// `expiresAt` is `--expires-at`. A name that is taken begins with the group's: `--webhook-url`.
    static func flag(_ name: String, of route: RouteDescription) -> String {
        let flag = flag(name)
        guard taken.contains(flag), let group = route.command?.first else { return flag }
        return "\(group.hasSuffix("s") ? String(group.dropLast()) : group)-\(flag)"
    }

    private static func flag(_ name: String) -> String {
        name.map { $0.isUppercase ? "-\($0.lowercased())" : String($0) }.joined()
    }

    /// A member's value: text as it is, everything else as JSON.
    private static func value(_ text: String, _ member: Schema.Member) throws(MimeoError) -> Value {
        switch member.schema {
        case .text, .choice, .orNull(.text), .orNull(.choice): .string(text)
        // An id is mostly a text: quotes for a shell and for JSON would be too many.
        case .anything where !"{[\"".contains(text.prefix(1)) || text.isEmpty:
            (try? JSONText.parse(Array(text.utf8))) ?? .string(text)
        default: if let time = try moment(text, member) { time } else { try json(text, flag(member.name)) }
        }
    }

    /// The seconds since 1970 of a time like `2027-01-31` or `2027-01-31T12:00:00Z`, for a member that is a
    /// time; nil for another member or text.
    private static func moment(_ text: String, _ member: Schema.Member) throws(MimeoError) -> Value? {
        guard member.name.hasSuffix("At"), Int64(text) == nil, text != "null" else { return nil }
        let style = ISO8601DateFormatter()
        for options: ISO8601DateFormatter.Options in [.withInternetDateTime, .withFullDate] {
            style.formatOptions = options
            if let date = style.date(from: text) { return .int(Int64(date.timeIntervalSince1970)) }
        }
        throw MimeoError(
            .usage, "--\(flag(member.name)) takes a time like 2027-01-31T12:00:00Z, or seconds since 1970")
    }

    private static func json(_ text: String, _ name: String) throws(MimeoError) -> Value {
        guard let value = try? JSONText.parse(Array(text.utf8)) else {
            throw MimeoError(.usage, "--\(name) must be JSON")
        }
        return value
    }

    /// `@FILE` stands for the content of a file, so that a secret need not stand on the command line.
    private static func content(_ text: String, of name: String) async throws(MimeoError) -> String {
        guard text.hasPrefix("@") else { return text }
        let path = String(text.dropFirst())
        guard path != "-" else {
            guard let line = await StandardInput.shared.next() else {
                throw MimeoError(.usage, "--\(name) @-: standard input is empty")
            }
            return line
        }
        guard let content = FileManager.default.contents(atPath: path),
            content.count <= Limits.adminBodyBytes,
            let text = String(data: content, encoding: .utf8)
        else { throw MimeoError(.fileUnreadable, "--\(name): \(path) cannot be read") }
        return text.hasSuffix("\n") ? String(text.dropLast()) : text
    }

    static func encoded(_ text: String) -> String {
        var allowed = CharacterSet.alphanumerics
        allowed.insert(charactersIn: "-._~")
        return text.addingPercentEncoding(withAllowedCharacters: allowed) ?? text
    }

    private static func unknown(_ words: [String]) -> String {
        let group = words.first ?? ""
        let verbs = routes.filter { $0.words.first == group }.map {
            $0.words.dropFirst().joined(separator: " ")
        }
        return verbs.isEmpty
            ? "there is no group '\(group)': mimeo admin help lists them"
            : "\(group) has the commands \(verbs.joined(separator: ", "))"
    }

    private static func unknownOption(_ name: String, _ title: String, _ route: RouteDescription) -> String {
        let known =
            route.parameters.filter { $0.place == .query }.map { "--\(flag($0.name, of: route))" }
            + members(of: route).map { "--\(flag($0.name, of: route))" }
        return known.isEmpty
            ? "\(title) has no options, so no --\(name)"
            : "\(title) has no --\(name); it has \(known.joined(separator: ", "))"
    }
}
