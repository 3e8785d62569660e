/// The table as one page of HTML for people. It loads nothing, runs nothing, and may be framed by nobody.
enum ReferencePage {
    /// The page; made once.
    static let html: [UInt8] = Array(page.utf8)

    /// The page's own style, and nothing from elsewhere.
    static let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

    private static let style = """
        body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
        h2{margin-top:3rem;border-bottom:1px solid #ccc}h3{margin:2.5rem 0 .3rem}
        code,h3{font-family:ui-monospace,monospace}h3 b{color:#06c}
        table{border-collapse:collapse;margin:.5rem 0}
        td{border-top:1px solid #ddd;padding:.2rem .8rem .2rem 0;
        vertical-align:top}p{margin:.4rem 0}.quiet{color:#666}
        @media(prefers-color-scheme:dark){body{background:#181a1b;color:#ddd}h3 b{color:#6bf}}
        """

    private static var page: String {
        var html = """
            <!doctype html><html lang="en"><meta charset="utf-8"><title>Mimeo: the HTTP interface</title>
            <meta name="viewport" content="width=device-width,initial-scale=1"><style>\(style)</style>
            <h1>Mimeo: the HTTP interface</h1>
            <p>Every route of every service. The same as a document for programs:
            <a href="openapi.json">openapi.json</a> (OpenAPI 3.1).</p>
            <p>Credentials are sent as <code>Authorization: Bearer …</code>. An error is
            <code>{"error":{"code","message"}}</code>; its code is stable. A query parameter or member that a
            route does not have is refused with its name. <code>HEAD</code> works wherever <code>GET</code>
            does.</p><ul>
            """
        for group in Surface.groups {
            html += "<li><a href=\"#\(anchor(group.name))\">\(escaped(group.name))</a></li>"
        }
        html += "</ul>"
        for group in Surface.groups {
            html +=
                "<h2 id=\"\(anchor(group.name))\">\(escaped(group.name))</h2><p>\(escaped(group.about))</p>"
            html += group.routes.map(section).joined()
        }
        html += "<h2 id=\"shapes\">Shapes</h2><table>"
        for shape in Surface.shapes {
            html += row(["<code>\(shape.name)</code>", "<code>\(escaped(shape.schema.sketch))</code>"])
        }
        return html + "</table></html>\n"
    }

    private static func section(_ route: RouteDescription) -> String {
        var html = "<h3 id=\"\(route.name)\"><b>\(route.method.rawValue)</b> \(escaped(route.template))</h3>"
        html += "<p>\(escaped(route.summary)) \(escaped(route.details))</p>"
        html += "<p class=\"quiet\">\(access(route))</p><table>"
        for parameter in route.parameters {
            let name = parameter.place == .header ? parameter.name : "?\(parameter.name)="
            html += row([
                "<code>\(escaped(name))</code>", escaped(parameter.schema.sketch),
                escaped(parameter.about + (parameter.repeats ? " May stand several times." : "")),
            ])
        }
        if let body = route.body {
            html += row([
                "body", "<code>\(escaped(body.schema.sketch))</code>",
                escaped(body.types.joined(separator: ", ") + (body.isRequired ? "" : "; may be missing")),
            ])
        }
        for answer in route.answers {
            let shape = answer.body.map { "<code>\(escaped($0.schema.sketch))</code>" } ?? ""
            html += row(["\(answer.status)", shape, escaped(answer.about)])
        }
        for failure in route.failures {
            html += row(["\(failure.status)", escaped(failure.codes.joined(separator: ", ")), ""])
        }
        return html + "</table>"
    }

    private static func access(_ route: RouteDescription) -> String {
        switch route.access {
        case .anybody: "Needs no credential."
        case .user: "Needs an access token or an API key."
        case .admin(let role): "Needs an admin credential with the role \(role.rawValue)."
        }
    }

    private static func row(_ cells: [String]) -> String {
        "<tr>" + cells.map { "<td>\($0)</td>" }.joined() + "</tr>"
    }

    private static func anchor(_ name: String) -> String {
        String(name.lowercased().map { $0.isASCII && $0.isLetter ? $0 : "-" })
    }

    private static func escaped(_ text: String) -> String {
        var result = ""
        for character in text {
            switch character {
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "&": result += "&amp;"
            case "\"": result += "&quot;"
            default: result.append(character)
            }
        }
        return result
    }
}
