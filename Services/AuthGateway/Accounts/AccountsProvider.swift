import CRDT
import Identity
import ServiceKit

/// The configuration of a provider whose accounts the system database has.
struct AccountsProvider: Sendable {
    /// The provider's name.
    let name: String
    /// Length of a session, in seconds.
    var seconds = Limits.accountSessionSeconds
    /// The operator's HTTP server that sends mail; nil where links are shown to whoever made them.
    var mailURL: String?
    /// The address of the console that links begin with; nil for the one that the admin's request names.
    var origin: String?
    /// Secrets that sign requests to `mailURL`.
    var secrets: [SigningSecret] = []
}

/// The token of a login of an account: `name:password`, or the JSON object `{"name", "password", "code"}`
/// with the code of the second factor and no other member. A name has neither a colon nor a brace.
struct AccountToken: Sendable {
    let name: AccountName?
    /// Nil for a password that nobody can have set.
    let password: [UInt8]?
    let code: String?

    init(_ token: String) {
        if token.utf8.first == UInt8(ascii: "{") {
            // Bounded like the request around it: strangers send it.
            let object = try? RequestObject(
                token.utf8, known: ["name", "password", "code"], values: Limits.loginValues)
            let members = object?.members ?? ObjectValue()
            name = members["name"]?.stringValue.flatMap { AccountName($0) }
            password = members["password"]?.stringValue.flatMap { PasswordHash.bytes(of: $0) }
            code = members["code"]?.stringValue.map { $0.filter { $0 != " " } }
            return
        }
        let parts = token.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        name = AccountName(String(parts[0]))
        password = parts.count == 2 ? PasswordHash.bytes(of: String(parts[1])) : nil
        code = nil
    }
}
