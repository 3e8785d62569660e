import ArgumentParser
import Foundation
import Logging

/// The flags that every service and `mimeo serve` take.
///
/// Each has a name in the JSON file of `--config` too; a flag wins over the file, the file over the default.
public struct ServiceOptions: ParsableArguments, Sendable {
    /// The data folder.
    @Option(help: "Folder for everything that is kept (default ./mimeo-data).")
    public var data: String?

    /// The address.
    @Option(help: ArgumentHelp("Address to serve on; port 0 lets the system choose.", valueName: "host:port"))
    public var listen: String?

    /// The operation log.
    @Option(
        help: ArgumentHelp(
            "Operation log: sqlite:PATH (default DATA/log.sqlite) or postgres://….", valueName: "url"))
    public var log: String?

    /// The certificate chain.
    @Option(
        help: ArgumentHelp(
            "Certificate chain (PEM): speaks TLS; read anew when it changes.", valueName: "file"))
    public var tlsCertificate: String?

    /// The certificate's key.
    @Option(help: ArgumentHelp("The certificate's private key (PEM).", valueName: "file"))
    public var tlsKey: String?

    /// The configuration file.
    @Option(help: ArgumentHelp("JSON object with these flags' names; flags win.", valueName: "file"))
    public var config: String?

    /// Empty, for the parser.
    public init() {}
}

/// For services that keep a projection.
public struct ProjectionOptions: ParsableArguments, Sendable {
    /// The projection.
    @Option(
        help: ArgumentHelp(
            "Projection: sqlite:FOLDER (default in DATA) or postgres://….", valueName: "url"))
    public var projection: String?

    /// Empty, for the parser.
    public init() {}
}

/// For services that check access tokens another process issues, where the keys are to be fetched from it
/// instead of read from the log.
public struct IssuerOptions: ParsableArguments, Sendable {
    /// The auth-gateway's origin.
    @Option(
        help: ArgumentHelp(
            "Fetch public keys from this auth-gateway instead of reading them from the log.",
            valueName: "origin"))
    public var issuer: String?

    /// Empty, for the parser.
    public init() {}
}

/// For services other than the auth-gateway that have admin endpoints.
public struct AdminOptions: ParsableArguments, Sendable {
    /// The file of the admin credential.
    @Option(
        help: ArgumentHelp(
            "File with the credential of the admin endpoints (default DATA/auth/admin.token).",
            valueName: "file"))
    public var adminToken: String?

    /// Empty, for the parser.
    public init() {}
}

/// For the service that logs users in.
public struct ProviderOptions: ParsableArguments, Sendable {
    /// The file of providers.
    @Option(
        help: ArgumentHelp(
            "JSON file that says who may log in to which databases (default: development only).",
            valueName: "file"))
    public var providers: String?

    /// The file of the key that secrets are sealed under.
    @Option(
        help: ArgumentHelp(
            "File with the key that the system database's secrets are sealed under "
                + "(default DATA/auth/secrets.key, made on the first start).",
            valueName: "file"))
    public var secretsKey: String?

    /// The file of the admin credential.
    @Option(
        help: ArgumentHelp(
            "File with the credential of /admin/auth "
                + "(default DATA/auth/admin.token, made on the first start).",
            valueName: "file"))
    public var adminToken: String?

    /// Whether a proxy says where requests come from.
    @Flag(
        help: "Believe the last address of X-Forwarded-For: behind a proxy that sets it, and only there.")
    public var behindProxy = false

    /// Empty, for the parser.
    public init() {}
}

/// What the flags and the file come to.
public struct ServiceConfiguration: Sendable, Equatable {
    /// Path of the data folder.
    public var dataFolder: String
    /// Where to listen.
    public var listen: ListenAddress
    /// The operation log.
    public var log: StorageURL
    /// Where the projection is kept, when that was said; of SQLite the folder.
    public var projection: StorageURL?
    /// Where the auth-gateway answers, when that was said.
    public var issuer: Origin?
    /// The file that says who may log in, when there is one.
    public var providers: String?
    /// The file of the key that secrets are sealed under, when one was named.
    public var secretsKey: String?
    /// The file of the admin credential, when one was named.
    public var adminToken: String?
    /// Whether a proxy says where requests come from.
    public var behindProxy = false
    /// The certificate chain and the key of the listener, when it speaks TLS.
    public var tls: TLSPaths?

    /// Two files that belong together.
    public struct TLSPaths: Sendable, Equatable {
        /// The certificate chain, PEM.
        public var certificate: String
        /// Its private key, PEM.
        public var key: String
    }

    /// Joins flags, file and defaults.
    /// - Parameter port: the service's own default port.
    /// - Throws: `SRV-0101` to `SRV-0105`.
    public init(
        _ options: ServiceOptions, projection: ProjectionOptions? = nil, issuer: IssuerOptions? = nil,
        providers: ProviderOptions? = nil, admin: AdminOptions? = nil, port: Int
    ) throws(ServiceError) {
        let file = try options.config.map { path throws(ServiceError) in try ConfigurationFile(path: path) }
        dataFolder = options.data ?? file?["data"] ?? "./mimeo-data"
        listen =
            try (options.listen ?? file?["listen"])
            .map { text throws(ServiceError) in try ListenAddress(text) }
            ?? ListenAddress(host: "127.0.0.1", port: port)
        log =
            try (options.log ?? file?["log"])
            .map { text throws(ServiceError) in try StorageURL(text, flag: "log") }
            ?? .sqlite(path: URL(fileURLWithPath: dataFolder).appendingPathComponent("log.sqlite").path)
        self.projection = try (projection?.projection ?? file?["projection"])
            .map { text throws(ServiceError) in try StorageURL(text, flag: "projection") }
        self.issuer = try (issuer?.issuer ?? file?["issuer"])
            .map { text throws(ServiceError) in try Origin(text) }
        self.providers = providers?.providers ?? file?["providers"]
        secretsKey = providers?.secretsKey ?? file?["secretsKey"]
        adminToken = providers?.adminToken ?? admin?.adminToken ?? file?["adminToken"]
        behindProxy = providers?.behindProxy ?? false
        switch (options.tlsCertificate ?? file?["tlsCertificate"], options.tlsKey ?? file?["tlsKey"]) {
        case (let certificate?, let key?): tls = TLSPaths(certificate: certificate, key: key)
        case (nil, nil): tls = nil
        default:
            throw ServiceError(.certificateUnusable, "--tls-certificate and --tls-key go together")
        }
    }

    /// What the listener speaks TLS with; nil where it does not.
    /// - Throws: `SRV-0106`.
    public func tlsFiles(logger: Logger) throws(ServiceError) -> TLSFiles? {
        guard let tls else { return nil }
        return try TLSFiles(certificate: tls.certificate, key: tls.key, logger: logger)
    }

    /// The file of the admin credential: the one that was named, or the auth-gateway's own.
    public var adminCredentialFile: String {
        adminToken ?? URL(fileURLWithPath: dataFolder).appendingPathComponent("auth/admin.token").path
    }

    /// The path of something in the data folder, or of the data folder itself. Folders that do not exist
    /// are made, the data folder and those in it for their owner only; one that exists stays as it is.
    /// - Throws: `SRV-0203`.
    public func folder(_ names: String...) throws(ServiceError) -> String {
        var url = URL(fileURLWithPath: dataFolder, isDirectory: true).standardizedFileURL
        try Self.make(url.deletingLastPathComponent(), permissions: nil)
        try Self.make(url, permissions: 0o700)
        for name in names {
            url.appendPathComponent(name, isDirectory: true)
            try Self.make(url, permissions: 0o700)
        }
        return url.path
    }

    /// Makes a folder unless there is one, and with `permissions` nil those above it too.
    private static func make(_ url: URL, permissions: Int?) throws(ServiceError) {
        let manager = FileManager.default
        func exists() -> Bool {
            var isFolder: ObjCBool = false
            return manager.fileExists(atPath: url.path, isDirectory: &isFolder) && isFolder.boolValue
        }
        guard !exists() else { return }
        do {
            try manager.createDirectory(
                at: url, withIntermediateDirectories: permissions == nil,
                attributes: permissions.map { [.posixPermissions: $0] })
        } catch {
            // Services that share a data folder may start at the same time.
            guard !exists() else { return }
            throw ServiceError(
                .dataFolderUnusable, "the folder \(url.path) cannot be made: \(error.localizedDescription)")
        }
    }
}

/// The JSON file of `--config`: one object, names of flags to texts.
struct ConfigurationFile {
    private static let names: Set<String> = [
        "data", "listen", "log", "projection", "issuer", "providers", "secretsKey", "adminToken",
        "tlsCertificate", "tlsKey",
    ]
    private let values: [String: String]

    init(path: String) throws(ServiceError) {
        guard let text = FileManager.default.contents(atPath: path),
            text.count <= Limits.configurationFileBytes
        else {
            throw ServiceError(.configurationInvalid, "the configuration file \(path) cannot be read")
        }
        guard let settings = try? JSONDecoder().decode([String: Setting].self, from: text) else {
            throw ServiceError(.configurationInvalid, "\(path) is not a JSON object of texts")
        }
        if let unknown = settings.keys.sorted().first(where: { !Self.names.contains($0) }) {
            let known = Self.names.sorted().joined(separator: ", ")
            throw ServiceError(
                .configurationInvalid, "\(path): '\(unknown)' is no setting; there are \(known)")
        }
        if let wrong = settings.filter({ $0.value.text == nil }).keys.min() {
            throw ServiceError(.configurationInvalid, "\(path): the value of '\(wrong)' is not a text")
        }
        values = settings.compactMapValues(\.text)
    }

    /// Any value, so that one that is no text can be named.
    private struct Setting: Decodable {
        let text: String?

        init(from decoder: any Decoder) {
            text = try? decoder.singleValueContainer().decode(String.self)
        }
    }

    subscript(_ name: String) -> String? { values[name] }
}
