import ServiceKit

/// The rows of the routes for people and devices.
extension AuthorizationMatrix {
    static let people: [RouteRow] = [
        // An account's own routes take its sessions alone; whoever is signed in answers for devices.
        .init(
            route: "POST /_ditto/auth/join", cells: "400 400 400 400 400 400 400 400 400"),
        .init(
            route: "POST /_ditto/auth/join/key", cells: "400 400 400 400 400 400 400 400 400"),
        .init(
            route: "POST /_ditto/auth/link", cells: "400 400 400 400 400 400 400 400 400"),
        .init(
            route: "POST /_ditto/auth/link/use", cells: "400 400 400 400 400 400 400 400 400"),
        .init(
            route: "POST /_ditto/auth/reset", cells: "400 400 400 400 400 400 400 400 400"),
        .init(
            route: "GET /_ditto/auth/account", cells: "401 401 401 401 401 401 401 401 401"),
        .init(
            route: "POST /_ditto/auth/account/password", cells: "401 401 401 401 401 401 401 401 401"),
        .init(
            route: "POST /_ditto/auth/account/second-factor", cells: "401 401 401 401 401 401 401 401 401"),
        .init(
            route: "DELETE /_ditto/auth/account/sessions/:session",
            cells: "401 401 401 401 401 401 401 401 401"),
        .init(
            route: "DELETE /_ditto/auth/account/devices/:device", cells: "401 401 404 404 404 404 404 401 401"
        ),
        .init(
            route: "GET /_ditto/auth/account/joins/:code", cells: "401 401 410 410 410 410 410 401 401"),
        .init(
            route: "POST /_ditto/auth/account/joins/:code", cells: "401 401 410 410 410 410 410 401 401"),
        .init(
            route: "GET /admin/auth/databases/:database/accounts", role: .read, cells: "\(nobodyButAdmin) 200"
        ),
        .init(
            route: "POST /admin/auth/databases/:database/accounts", role: .own, cells: "\(nobodyButAdmin) 400"
        ),
        .init(
            route: "GET /admin/auth/databases/:database/accounts/:account", role: .read,
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "PATCH /admin/auth/databases/:database/accounts/:account", role: .own,
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "DELETE /admin/auth/databases/:database/accounts/:account", role: .own,
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "POST /admin/auth/databases/:database/accounts/:account/reset", role: .own,
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "POST /admin/auth/databases/:database/accounts/:account/view", role: .own,
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "GET /admin/auth/databases/:database/accounts/:account/sessions", role: .read,
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "DELETE /admin/auth/databases/:database/accounts/:account/sessions/:session",
            role: .operate, cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "GET /admin/auth/databases/:database/sets", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "PUT /admin/auth/databases/:database/sets/:set", role: .own, cells: "\(nobodyButAdmin) 400"
        ),
        .init(
            route: "DELETE /admin/auth/databases/:database/sets/:set", role: .own,
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "GET /admin/auth/databases/:database/invitations", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/auth/databases/:database/invitations", role: .own,
            cells: "\(nobodyButAdmin) 400"),
        .init(
            route: "DELETE /admin/auth/databases/:database/invitations/:invitation", role: .own,
            cells: "\(nobodyButAdmin) 404"),
        .init(
            route: "GET /admin/auth/databases/:database/joins", role: .read, cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "POST /admin/auth/databases/:database/joins/:code", role: .own,
            cells: "\(nobodyButAdmin) 410"),
        .init(
            route: "GET /admin/auth/databases/:database/devices", role: .read,
            cells: "\(nobodyButAdmin) 200"),
        .init(
            route: "DELETE /admin/auth/databases/:database/devices/:device", role: .operate,
            cells: "\(nobodyButAdmin) 404"),
    ]
}
