import CRDT
import Crypto
import Foundation
import HTTPTypes
import Hummingbird
import Identity
import Machine

/// The console's sessions: cookies that stand for credentials, in every process of a deployment.
///
/// A cookie holds its credential sealed under a key that is derived from the admin credential, so every
/// service that has the credential's file opens it, and no process keeps a list. A cookie counts only in a
/// request that names the console in `X-Mimeo-Console`: a page of another origin cannot set that field
/// without a preflight. It ends after `Limits.consoleSessionSeconds`, with its credential, with a sign-out
/// (a revocation in the system database), or when the admin credential changes (decision 0078).
public struct ConsoleSessions: Sendable {
    /// Content of a cookie: the credential that it stands for, and its end.
    public struct Session: Sendable, Codable, Equatable {
        /// Names the session for its sign-out.
        public var id: String
        /// Seconds since 1970.
        public var expiresAtSeconds: Int64
        /// The access token, API key or named admin credential; nil for the admin credential of the file.
        public var token: String?

        /// A session that begins now.
        public init(token: String?, expiresAtSeconds: Int64) {
            id = Base64URL.encode((0..<12).map { _ in UInt8.random(in: .min ... .max) })
            self.expiresAtSeconds = expiresAtSeconds
            self.token = token
        }
    }

    /// Subject of a cookie.
    public enum Place: Sendable, Hashable {
        /// The holder of the admin credential.
        case admin
        /// A user of this database.
        case database(String)

        var text: String {
            switch self {
            case .admin: "admin"
            case .database(let id): "db_\(id)"
            }
        }
    }

    /// The field that names the console, and the database that a request is for.
    public static var field: HTTPField.Name {
        guard let name = HTTPField.Name("X-Mimeo-Console") else { preconditionFailure("a valid field name") }
        return name
    }

    /// The database under which sign-outs are recorded.
    public static let database = SystemDatabase.id

    private let credential: AdminCredential
    private let system: SystemDatabase?
    private let nowSeconds: @Sendable () -> Int64

    /// Sessions that are sealed with this credential.
    public init(
        credential: AdminCredential, system: SystemDatabase?,
        nowSeconds: @escaping @Sendable () -> Int64 = SystemClock.seconds
    ) {
        self.credential = credential
        self.system = system
        self.nowSeconds = nowSeconds
    }

    /// The request with the credential of its cookie, if it comes from the console and has none of its own.
    func authorized(_ request: Request) -> Request {
        guard let database = request.headers[Self.field], request.headers[.authorization] == nil else {
            return request
        }
        let isAdmin = request.uri.path.hasPrefix("/admin/")
        let place = isAdmin ? Place.admin : Place.database(database)
        guard let session = session(at: place, of: request),
            let bearer = session.token ?? (isAdmin ? credential.text : nil)
        else { return request }
        var head = request.head
        head.headerFields[.authorization] = "Bearer \(bearer)"
        return Request(head: head, body: request.body)
    }

    /// The session of a request's cookie; nil without one that holds.
    public func session(at place: Place, of request: Request) -> Session? {
        sessions(of: request)[place]
    }

    /// All sessions of a request's cookies that hold.
    public func sessions(of request: Request) -> [Place: Session] {
        guard let key = sealingKey else { return [:] }
        var found: [Place: Session] = [:]
        let prefix = Self.prefix(key)
        for field in request.headers[values: .cookie] {
            for item in field.split(separator: ";") {
                let item = item.drop { $0 == " " }
                guard item.hasPrefix(prefix), let equals = item.firstIndex(of: "=") else { continue }
                let name = String(item[..<equals].dropFirst(prefix.count))
                let place = name == "admin" ? Place.admin : .database(String(name.dropFirst(3)))
                guard place.text == name else { continue }
                found[place] = open(item[item.index(after: equals)...], at: place, key)
            }
        }
        return found
    }

    /// The `Set-Cookie` field that begins a session.
    /// - Throws: `SRV-0602` without the admin credential's file, `SRV-0431` for a token that fits no cookie.
    public func cookie(
        for session: Session, at place: Place, isSecure: Bool
    ) throws(ServiceError) -> String {
        guard let key = sealingKey else {
            throw ServiceError(.contactLost, "the admin credential's file is missing, which seals sessions")
        }
        let content = (try? JSONEncoder().encode(session)) ?? Data()
        guard
            let box = try? AES.GCM.seal(content, using: key, authenticating: Data(place.text.utf8)),
            let combined = box.combined
        else { preconditionFailure("AES-GCM with a 256-bit key seals anything") }
        let text = Base64URL.encode(combined)
        guard text.utf8.count <= Limits.cookieBytes else {
            throw ServiceError(
                .headTooLarge,
                "the access token is too long for a cookie: sign in with an API key of the same rights")
        }
        return Self.field(
            Self.prefix(key) + place.text, text, seconds: session.expiresAtSeconds - nowSeconds(), isSecure)
    }

    /// The `Set-Cookie` field that removes a cookie.
    public func removal(at place: Place, isSecure: Bool) -> String? {
        sealingKey.map { Self.field(Self.prefix($0) + place.text, "", seconds: 0, isSecure) }
    }

    private static func field(_ name: String, _ value: String, seconds: Int64, _ isSecure: Bool) -> String {
        "\(name)=\(value); Path=/; HttpOnly; SameSite=Strict; Max-Age=\(seconds)"
            + (isSecure ? "; Secure" : "")
    }

    /// Two servers of one host share their cookies, whatever their ports: each has names of its own.
    private static func prefix(_ key: SymmetricKey) -> String {
        let digest = key.withUnsafeBytes { SHA256.hash(data: Data($0)) }
        return "mimeo_\(Base64URL.encode(Array(digest.prefix(6))))_"
    }

    private var sealingKey: SymmetricKey? {
        credential.text.map {
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: SymmetricKey(data: Data($0.utf8)),
                info: Data("mimeo console session".utf8), outputByteCount: 32)
        }
    }

    private func open(_ text: some StringProtocol, at place: Place, _ key: SymmetricKey) -> Session? {
        guard let bytes = Base64URL.decode(text), let box = try? AES.GCM.SealedBox(combined: Data(bytes)),
            let content = try? AES.GCM.open(box, using: key, authenticating: Data(place.text.utf8)),
            let session = try? JSONDecoder().decode(Session.self, from: content),
            nowSeconds() < session.expiresAtSeconds,
            system?.directory.revocation(of: .token, session.id, in: Self.database) == nil
        else { return nil }
        return session
    }
}
