/// Other names of the `system:` collections, older ones and short ones.
enum SystemNames {
    /// The collection that a name means. Names in `system:` ignore case; 4.x wrote `system:collections` as
    /// `__collections`.
    static func resolve(_ name: NameSyntax, isSystem: Bool) -> (NameSyntax, Bool) {
        guard isSystem else {
            guard name.text == "__collections" else { return (name, false) }
            return (NameSyntax(text: "collections", span: name.span), true)
        }
        let text = name.text.lowercased()
        return (NameSyntax(text: aliases[text] ?? text, span: name.span), true)
    }

    private static let aliases = ["actives": "active_requests", "completed_requests": "request_history"]
}
