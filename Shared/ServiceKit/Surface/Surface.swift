import HTTPTypes

/// The whole surface over HTTP: one description per route of every service, in one table (decision 0065).
///
/// It stands here and not in the services, so that each of four processes serves the description of all. A
/// test compares it with the routes that the services mount, in both directions.
public enum Surface {
    /// A group of routes, for people.
    struct Group: Sendable {
        let name: String
        let about: String
        let routes: [RouteDescription]
    }

    static let groups: [Group] = [
        Group(
            name: "Login", about: "Access tokens and peer certificates, from the auth-gateway.", routes: login
        ),
        Group(
            name: "People and devices", about: "Accounts and devices that join, from the auth-gateway.",
            routes: people),
        Group(name: "Statements", about: "DQL over HTTP, from the query-service.", routes: statements),
        Group(
            name: "Before DQL", about: "Calls of versions 1 and 4, from the query-service.", routes: legacy),
        Group(
            name: "Attachments", about: "Files beside documents, from the attachment-store.",
            routes: attachments + uploads),
        Group(name: "Sync", about: "Sessions of peers, from the replicator.", routes: sync),
        Group(
            name: "Databases and logins", about: "For administrators, from the auth-gateway.",
            routes: adminOfLogins),
        Group(
            name: "Accounts and devices", about: "For administrators, from the auth-gateway.",
            routes: adminOfPeople),
        Group(
            name: "Sessions and the log", about: "For administrators, from the replicator.",
            routes: adminOfReplicator),
        Group(
            name: "Projections and statements", about: "For administrators, from the query-service.",
            routes: adminOfStatements + adminOfProjections + webhooks),
        Group(
            name: "Stored attachments", about: "For administrators, from the attachment-store.",
            routes: adminOfAttachments),
        Group(
            name: "Console", about: "The web page, its sessions and the metrics that it draws.",
            routes: console),
        Group(
            name: "Operation", about: "For administrators, from every process.", routes: operation),
        Group(name: "Every service", about: "Health, metrics and this description.", routes: host),
    ]

    /// Every route there is.
    public static let routes: [RouteDescription] = groups.flatMap(\.routes)

    /// The description of a route; `HEAD` is described by its `GET`.
    static func route(_ method: HTTPRequest.Method, _ path: String) -> RouteDescription? {
        byName[(method == .head ? .get : method).rawValue + " " + path]
    }

    /// The role that an admin route needs; the greatest for a route without a description.
    static func role(_ method: HTTPRequest.Method, _ path: String) -> AdminRole {
        if case .admin(let role)? = route(method, path)?.access { role } else { .own }
    }

    private static let byName = Dictionary(
        routes.map { ("\($0.method.rawValue) \($0.path)", $0) }, uniquingKeysWith: { first, _ in first })

    /// Shapes that several routes share.
    static let shapes: [(name: String, schema: Schema)] = [
        (
            "Error",
            .members([
                .always(
                    "error",
                    .members([
                        .always("code", .text, "Stable; listed in the README of the service."),
                        .always("message", .text, "For a person."),
                    ]))
            ])
        ),
        ("Envelope", .members(envelope)),
        (
            "TransactionAnswer",
            .members([
                .always("transactionId", .whole(from: 0), "The log's offset after the transaction."),
                .always("results", .list(.named("Envelope")), "One for each statement."),
            ])
        ), ("ImportAnswer", .members(importAnswer)), ("Change", .members(change)),
        ("ObserveEvent", .members(observeEvent)),
        ("History", .members(historyMembers)),
    ]

    private static let envelope: [Schema.Member] = [
        .always("transactionId", .whole(from: 0), "The log's offset after the statement; 0 for an error."),
        .always("queryType", .text, "select, insert, update, …; unknown for an error."),
        .always("items", .list(.anything), "The rows."),
        .always("mutatedDocumentIds", .list(.anything), "The ids of the documents that were written."),
        .always(
            "error", .object,
            "Empty, or code, message, description, line and column; index of a transaction's statement."),
        .always("warnings", warnings), .always("totalWarningsCount", .whole(from: 0)),
    ]

    static let warnings: Schema = .list(
        .members([.maybe("code", .text, "Stable, like DQL-W106."), .always("description", .text)]))

    static let noContent = RouteDescription.Answer(204, "Done; without a body.")
}
