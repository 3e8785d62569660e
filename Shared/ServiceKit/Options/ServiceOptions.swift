import ArgumentParser
import Foundation
import Logging

/// The flags that every service and `mimeo serve` accept.
///
/// Each flag also has a name in the JSON file of `--config`. A flag overrides the file, the file the default.
public struct ServiceOptions: ParsableArguments, Sendable {
    /// The data folder.
    @Option(help: "Folder for all stored data (default ./mimeo-data).")
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
            "Certificate chain (PEM): serve with TLS. Read again when the file changes.", valueName: "file"))
    public var tlsCertificate: String?

    /// The certificate's key.
    @Option(help: ArgumentHelp("Private key of the certificate (PEM).", valueName: "file"))
    public var tlsKey: String?

    /// The origins of web pages that may call the service.
    @Option(
        help: ArgumentHelp(
            "Origin of web pages that may call this server, or '*'; may be given several times.",
            valueName: "origin"))
    public var corsOrigin: [String] = []

    /// True if a new log may begin beside an older one's folders.
    @Flag(help: "Begin a new log although the data folder has followed another one; its copies are rebuilt.")
    public var newLog = false

    /// The share of a disk that is kept free.
    @Option(
        help: ArgumentHelp(
            "Refuse writes when less than this share of a disk is free "
                + "(default \(Limits.diskReservePercent), at most 10 GiB; 0 for none).",
            valueName: "percent"))
    public var diskReservePercent: Int?

    /// The configuration file.
    @Option(
        help: ArgumentHelp(
            "JSON file with values of these flags, like {\"tlsKey\": \"k.pem\"}; flags override it.",
            valueName: "file"))
    public var config: String?

    /// Empty, for the parser.
    public init() {}
}

/// Flags of services that keep a projection.
public struct ProjectionOptions: ParsableArguments, Sendable {
    /// The projection.
    @Option(
        help: ArgumentHelp(
            "Projection: sqlite:FOLDER (default: a folder in DATA) or postgres://….", valueName: "url"))
    public var projection: String?

    /// Empty, for the parser.
    public init() {}
}

/// Flags of services that check access tokens of another process. With `--issuer` they fetch the keys from
/// that process instead of reading them from the log.
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

/// Flags of services with admin endpoints, except the auth-gateway.
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

/// Flags of the auth-gateway.
public struct ProviderOptions: ParsableArguments, Sendable {
    /// The file of providers.
    @Option(
        help: ArgumentHelp(
            "JSON file that says who may log in to which databases (default: development only).",
            valueName: "file"))
    public var providers: String?

    /// The file of the key that seals the secrets.
    @Option(
        help: ArgumentHelp(
            "File with the key that seals the system database's secrets "
                + "(default DATA/auth/secrets.key, created at the first start).",
            valueName: "file"))
    public var secretsKey: String?

    /// The file of the admin credential.
    @Option(
        help: ArgumentHelp(
            "File with the credential of /admin/auth "
                + "(default DATA/auth/admin.token, created at the first start).",
            valueName: "file"))
    public var adminToken: String?

    /// True if an operator accepts that the log was put back.
    @Flag(help: "Accept that the log was put back to an earlier state, and what that takes back (SRV-0602).")
    public var acceptRestore = false

    /// True if a proxy tells where requests come from.
    @Flag(
        help: "Trust the last address of X-Forwarded-For. Only for use behind a proxy that sets it.")
    public var behindProxy = false

    /// Empty, for the parser.
    public init() {}
}

/// The configuration of a service: flags, configuration file and defaults joined.
public struct ServiceConfiguration: Sendable, Equatable {
    /// Path of the data folder.
    public var dataFolder: String
    /// The address to listen on.
    public var listen: ListenAddress
    /// The operation log.
    public var log: StorageURL
    /// The projection's storage, if set; a folder for SQLite.
    public var projection: StorageURL?
    /// The auth-gateway's origin, if set.
    public var issuer: Origin?
    /// The file of login providers, if set.
    public var providers: String?
    /// The file of the key that seals the secrets, if set.
    public var secretsKey: String?
    /// The file of the admin credential, if set.
    public var adminToken: String?
    /// True if a proxy tells where requests come from.
    public var behindProxy = false
    /// The file of `--config`, for flags that only one service has.
    public var file: ConfigurationFile?
    /// The certificate chain and the key of the listener, if it speaks TLS.
    public var tls: TLSPaths?

    /// The web pages that may call the service.
    public var cors = CORSPolicy.none
    /// True if a new log may begin beside an older one's folders.
    public var beginsNewLog = false
    /// The share of a disk that is kept free, in percent; 0 for none.
    public var diskReservePercent = Limits.diskReservePercent
    /// True if an operator accepts that the log was put back (the auth-gateway's flag).
    public var acceptsRestore = false

    /// Two files that belong together.
    public struct TLSPaths: Sendable, Equatable {
        /// The certificate chain, PEM.
        public var certificate: String
        /// Its private key, PEM.
        public var key: String
    }

    /// Joins flags, file and defaults.
    /// - Parameter port: the service's own default port.
    /// - Parameter environment: checked for variables that would be ignored (`EnvironmentKeys`).
    /// - Throws: `SRV-0101` to `SRV-0108`.
    public init(
        _ options: ServiceOptions, projection: ProjectionOptions? = nil, issuer: IssuerOptions? = nil,
        providers: ProviderOptions? = nil, admin: AdminOptions? = nil, port: Int,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(ServiceError) {
        try EnvironmentKeys.check(environment)
        file = try options.config.map { path throws(ServiceError) in try ConfigurationFile(path: path) }
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
        behindProxy = providers?.behindProxy ?? false || file?.flag("behindProxy") ?? false
        beginsNewLog = options.newLog
        acceptsRestore = options.newLog || providers?.acceptRestore ?? false
        // The file has strings only: origins with commas or blanks between them.
        let origins = (file?["corsOrigin"] ?? "").split { $0 == "," || $0 == " " }.map(String.init)
        cors = try CORSPolicy(origins: options.corsOrigin.isEmpty ? origins : options.corsOrigin)
        let percent = try number(
            options.diskReservePercent, "diskReservePercent")
        guard percent ?? 0 <= Self.mostReservePercent else {
            throw ServiceError(
                .configurationInvalid, "--disk-reserve-percent is from 0 to \(Self.mostReservePercent)")
        }
        diskReservePercent = percent ?? Limits.diskReservePercent
        switch (options.tlsCertificate ?? file?["tlsCertificate"], options.tlsKey ?? file?["tlsKey"]) {
        case (let certificate?, let key?): tls = TLSPaths(certificate: certificate, key: key)
        case (nil, nil): tls = nil
        default:
            throw ServiceError(.certificateUnusable, "--tls-certificate and --tls-key go together: set both")
        }
    }

    /// A greater reserve would be a mistake.
    private static let mostReservePercent = 90

    /// A number of a flag that only one service has: the flag's, else the file's.
    /// - Throws: `SRV-0104` if the file's number is beyond the flag's type, or one of both below `least`.
    public func number<Number: FixedWidthInteger>(
        _ flag: Number?, _ name: String, least: Number = 0
    ) throws(ServiceError) -> Number? {
        var found = flag
        if found == nil, let file { found = try file.number(name) }
        guard let number = found else { return nil }
        guard number >= least else {
            throw ServiceError(
                .configurationInvalid,
                "--\(EnvironmentKeys.flag(of: name)), or '\(name)' of the file of --config: "
                    + "\(number) is less than \(least)")
        }
        return number
    }

    /// A flag that only one service has: true on the command line or in the file.
    public func flag(_ flag: Bool, _ name: String) -> Bool { flag || file?.flag(name) ?? false }

    /// Certificate and key of the listener; nil for clear text.
    /// - Throws: `SRV-0106`.
    public func tlsFiles(logger: Logger) throws(ServiceError) -> TLSFiles? {
        guard let tls else { return nil }
        return try TLSFiles(certificate: tls.certificate, key: tls.key, logger: logger)
    }

    /// The file of the admin credential: the one set, or the auth-gateway's own.
    public var adminCredentialFile: String {
        adminToken ?? URL(fileURLWithPath: dataFolder).appendingPathComponent("auth/admin.token").path
    }

    /// The path of a folder in the data folder, or of the data folder itself. Missing folders are created;
    /// the data folder and folders in it are readable by their owner only, existing ones too.
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

    /// Creates a folder unless it exists; with `permissions` nil the folders above it too.
    private static func make(_ url: URL, permissions: Int?) throws(ServiceError) {
        let manager = FileManager.default
        func exists() -> Bool {
            var isFolder: ObjCBool = false
            return manager.fileExists(atPath: url.path, isDirectory: &isFolder) && isFolder.boolValue
        }
        guard !exists() else {
            if permissions != nil { try PrivateFiles.protect(url.path) }
            return
        }
        do {
            try manager.createDirectory(
                at: url, withIntermediateDirectories: permissions == nil,
                attributes: permissions.map { [.posixPermissions: $0] })
        } catch {
            // Services that share a data folder may start at the same time.
            guard !exists() else { return }
            throw ServiceError(
                .dataFolderUnusable, "folder \(url.path) cannot be created: \(error.localizedDescription)")
        }
    }
}
