import ArgumentParser
import Foundation
import Logging

/// The flags that every service and `mimeo serve` accept.
///
/// Each is a row of `Setting.all`, which has its help. A flag overrides the environment, the environment the
/// file of `--config`, the file the default.
public struct ServiceOptions: ParsableArguments, Sendable {
    /// The data folder.
    @Option(setting: "data") public var data: String?
    /// The address.
    @Option(setting: "listen") public var listen: String?
    /// The operation log.
    @Option(setting: "log") public var log: String?
    /// The certificate chain.
    @Option(setting: "tlsCertificate") public var tlsCertificate: String?
    /// The certificate's key.
    @Option(setting: "tlsKey") public var tlsKey: String?
    /// The origins of web pages that may call the service.
    @Option(help: .setting("corsOrigin")) public var corsOrigin: [String] = []
    /// True if a proxy tells where requests come from.
    @Flag(inversion: .prefixedNo, help: .setting("behindProxy")) public var behindProxy: Bool?
    /// True if the paths under `/admin` are for programs of this machine only.
    @Flag(inversion: .prefixedNo, help: .setting("adminLoopback")) public var adminLoopback: Bool?
    /// The time without contact with the log after which health fails.
    @Option(help: .setting("contactSeconds")) public var contactSeconds: UInt32?
    /// The time without contact with the log after which credentials are refused.
    @Option(help: .setting("contactGraceSeconds")) public var contactGraceSeconds: UInt32?
    /// In seconds.
    @Option(help: .setting("drainSeconds")) public var drainSeconds: UInt32?
    /// In seconds.
    @Option(help: .setting("stopSeconds")) public var stopSeconds: UInt32?
    /// The share of a disk that is kept free.
    @Option(help: .setting("diskReservePercent")) public var diskReservePercent: UInt32?
    /// `text` or `json`.
    @Option(setting: "logFormat") public var logFormat: String?
    /// True if every request has a line in the log.
    @Flag(inversion: .prefixedNo, help: .setting("logRequests")) public var logRequests: Bool?
    /// `log`, or the URL of a collector.
    @Option(setting: "traces") public var traces: String?
    /// The share of new traces that are recorded.
    @Option(help: .setting("tracePercent")) public var tracePercent: UInt32?
    /// True if a new log may begin beside an older one's folders.
    @Flag(help: .setting("newLog")) public var newLog = false
    /// The configuration file.
    @Option(setting: "config") public var config: String?

    /// Empty, for the parser.
    public init() {}
}

/// Flags of services that keep a projection.
public struct ProjectionOptions: ParsableArguments, Sendable {
    /// The projection.
    @Option(setting: "projection") public var projection: String?

    /// Empty, for the parser.
    public init() {}
}

/// Flags of services that check access tokens of another process. With `--issuer` they fetch the keys from
/// that process instead of reading them from the log.
public struct IssuerOptions: ParsableArguments, Sendable {
    /// The auth-gateway's origin.
    @Option(setting: "issuer") public var issuer: String?

    /// Empty, for the parser.
    public init() {}
}

/// The admin credential of services, except the auth-gateway.
public struct AdminOptions: ParsableArguments, Sendable {
    /// The file of the admin credential.
    @Option(setting: "adminToken") public var adminToken: String?

    /// Empty, for the parser.
    public init() {}
}

/// Flags of services that open sealed secrets, except the auth-gateway.
public struct SecretsOptions: ParsableArguments, Sendable {
    /// The file of the key that seals the secrets.
    @Option(setting: "secretsKey") public var secretsKey: String?

    /// Empty, for the parser.
    public init() {}
}

/// Flags of the auth-gateway.
public struct ProviderOptions: ParsableArguments, Sendable {
    /// The file of providers.
    @Option(setting: "providers") public var providers: String?
    /// The file of the key that seals the secrets.
    @Option(setting: "secretsKey") public var secretsKey: String?
    /// The file of the admin credential.
    @Option(setting: "adminToken") public var adminToken: String?
    /// True if the development token is printed to a file or pipe too.
    @Flag(inversion: .prefixedNo, help: .setting("showToken")) public var showToken: Bool?
    /// True if logins with a development token are accepted.
    @Flag(inversion: .prefixedNo, help: .setting("developmentLogin")) public var developmentLogin: Bool?
    /// True if an operator accepts that the log was put back.
    @Flag(help: .setting("acceptRestore")) public var acceptRestore = false

    /// Empty, for the parser.
    public init() {}
}

/// The configuration of a service: flags, environment, configuration file and defaults joined.
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
    /// True if the paths under `/admin` are for programs of this machine only.
    public var isAdminLoopback = false
    /// How long the host serves on after a signal to stop.
    public var drain: Duration = .zero
    /// How long running requests have to end after that.
    public var stop: Duration = Limits.shutdownGrace
    /// True if the development token is printed whatever the output is, false if never; nil for a terminal
    /// only.
    public var showToken: Bool?
    /// True if logins with a development token are accepted; nil where nobody has said.
    public var developmentLogin: Bool?
    /// True if logins with a development token are accepted: beyond loopback, as through a proxy on this
    /// machine, only where somebody has said so.
    public var acceptsDevelopment: Bool { developmentLogin ?? (listen.isLoopback && !behindProxy) }
    /// Environment and file, for flags that only one service has.
    public var sources: SettingSources
    /// The certificate chain and the key of the listener, if it speaks TLS.
    public var tls: TLSPaths?

    /// The web pages that may call the service.
    public var cors = CORSPolicy.none
    /// The times without contact with the log, and their effects.
    public var contact = LogContact.Bounds()
    /// True if a new log may begin beside an older one's folders.
    public var beginsNewLog = false
    /// The share of a disk that is kept free, in percent; 0 for none.
    public var diskReservePercent = Limits.diskReservePercent
    /// The form of the process's log lines.
    public var logForm = LogOutput.Form.text
    /// True if every request has a line.
    public var logsRequests = false
    /// The wishes about traces; nil for none.
    public var traces: Traces.Options?
    /// True if an operator accepts that the log was put back (the auth-gateway's flag).
    public var acceptsRestore = false

    /// Two files that belong together.
    public struct TLSPaths: Sendable, Equatable {
        /// The certificate chain, PEM.
        public var certificate: String
        /// Its private key, PEM.
        public var key: String
    }

    /// Joins flags, environment, file and defaults.
    /// - Parameter port: the service's own default port.
    /// - Throws: `SRV-0101` to `SRV-0108`.
    public init(
        _ options: ServiceOptions, projection: ProjectionOptions? = nil, issuer: IssuerOptions? = nil,
        providers: ProviderOptions? = nil, admin: AdminOptions? = nil, secrets: SecretsOptions? = nil,
        port: Int,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(ServiceError) {
        sources = try SettingSources(config: options.config, environment: environment)
        dataFolder = options.data ?? sources.text("data") ?? "./mimeo-data"
        listen =
            try (options.listen ?? sources.text("listen"))
            .map { text throws(ServiceError) in try ListenAddress(text) }
            ?? ListenAddress(host: "127.0.0.1", port: port)
        log =
            try (options.log ?? sources.text("log"))
            .map { text throws(ServiceError) in try StorageURL(text, flag: "log") }
            ?? .sqlite(path: URL(fileURLWithPath: dataFolder).appendingPathComponent("log.sqlite").path)
        self.projection = try (projection?.projection ?? sources.text("projection"))
            .map { text throws(ServiceError) in try StorageURL(text, flag: "projection") }
        self.issuer = try (issuer?.issuer ?? sources.text("issuer"))
            .map { text throws(ServiceError) in try Origin(text) }
        self.providers = providers?.providers ?? sources.text("providers")
        secretsKey = providers?.secretsKey ?? secrets?.secretsKey ?? sources.text("secretsKey")
        adminToken = providers?.adminToken ?? admin?.adminToken ?? sources.text("adminToken")
        behindProxy = try sources.flag("behindProxy", over: options.behindProxy) ?? false
        isAdminLoopback = try sources.flag("adminLoopback", over: options.adminLoopback) ?? false
        logsRequests = try sources.flag("logRequests", over: options.logRequests) ?? false
        logForm = try form(options)
        traces = try traceOptions(options)
        showToken = try sources.flag("showToken", over: providers?.showToken)
        developmentLogin = try sources.flag("developmentLogin", over: providers?.developmentLogin)
        beginsNewLog = options.newLog
        acceptsRestore = options.newLog || providers?.acceptRestore ?? false
        let origins = options.corsOrigin.isEmpty ? sources.list("corsOrigin") : options.corsOrigin
        cors = try CORSPolicy(origins: origins)
        switch (
            options.tlsCertificate ?? sources.text("tlsCertificate"), options.tlsKey ?? sources.text("tlsKey")
        ) {
        case (let certificate?, let key?): tls = TLSPaths(certificate: certificate, key: key)
        case (nil, nil): tls = nil
        default:
            throw ServiceError(.certificateUnusable, "--tls-certificate and --tls-key go together: set both")
        }
        contact = try contactBounds(options)
        diskReservePercent = try reserve(options)
        drain =
            try number(options.drainSeconds, "drainSeconds").map { .seconds($0) }
            ?? (behindProxy ? Limits.proxyDrain : .zero)
        stop = try number(options.stopSeconds, "stopSeconds").map { .seconds($0) } ?? Limits.shutdownGrace
    }

    /// - Throws: `SRV-0104`, `SRV-0108` for an unknown form.
    private func form(_ options: ServiceOptions) throws(ServiceError) -> LogOutput.Form {
        let name = "logFormat"
        guard let text = options.logFormat ?? sources.text(name) else { return .text }
        guard let form = LogOutput.Form(rawValue: text) else {
            let problem = "must be text or json"
            guard options.logFormat == nil else {
                throw ServiceError(.configurationInvalid, "\(SettingSources.flag(name)) \(problem)")
            }
            throw sources.wrong(name, problem)
        }
        return form
    }

    /// - Throws: `SRV-0104`, `SRV-0108`.
    private func traceOptions(_ options: ServiceOptions) throws(ServiceError) -> Traces.Options? {
        let percent = try number(options.tracePercent, "tracePercent") ?? Traces.Options.usualPercent
        guard let target = text(options.traces, "traces") else { return nil }
        return try Traces.Options(target: target, percent: percent)
    }

    /// The settings of a command as this process uses them.
    func effective(of command: Setting.Command) -> [EffectiveSetting] {
        EffectiveSetting.all(
            of: command, arguments: Array(CommandLine.arguments.dropFirst()), sources: sources)
    }

    /// - Throws: `SRV-0104`, `SRV-0108` for a share of which nothing would be left to use.
    private func reserve(_ options: ServiceOptions) throws(ServiceError) -> Int {
        let name = "diskReservePercent"
        let percent = try number(options.diskReservePercent, name).map { Int($0) }
        guard percent ?? 0 <= Limits.mostReservePercent else {
            let problem = "must be at most \(Limits.mostReservePercent)"
            guard options.diskReservePercent == nil else {
                throw ServiceError(.configurationInvalid, "\(SettingSources.flag(name)) \(problem)")
            }
            throw sources.wrong(name, problem)
        }
        return percent ?? Limits.diskReservePercent
    }

    /// - Throws: `SRV-0104` if health would fail after credentials are refused.
    private func contactBounds(_ options: ServiceOptions) throws(ServiceError) -> LogContact.Bounds {
        let contact = try number(options.contactSeconds, "contactSeconds")
        let grace = try number(options.contactGraceSeconds, "contactGraceSeconds")
        let bounds = LogContact.Bounds()
        let (first, second) = (
            contact.map { .seconds($0) } ?? bounds.contact, grace.map { .seconds($0) } ?? bounds.grace
        )
        guard first <= second else {
            throw ServiceError(
                .configurationInvalid,
                "--contact-seconds must not be more than --contact-grace-seconds (default "
                    + "\(bounds.grace.components.seconds))")
        }
        return LogContact.Bounds(contact: first, grace: second)
    }

    /// A number of a flag that only one service has: the flag's, the environment's or the file's. The least
    /// one is that of its row in `Setting.all`.
    /// - Throws: `SRV-0104` or `SRV-0108` if it is beyond the flag's type, or too small.
    public func number<Number: FixedWidthInteger>(
        _ flag: Number?, _ name: String
    ) throws(ServiceError) -> Number? {
        var least: UInt64 = 0
        if case .number(let found) = SettingSources.setting(name).kind { least = found }
        if let flag {
            guard flag >= least else {
                let name = SettingSources.setting(name).flag
                throw ServiceError(.configurationInvalid, "--\(name): \(flag) is less than \(least)")
            }
            return flag
        }
        guard let number: Number = try sources.number(name) else { return nil }
        guard number >= least else { throw sources.wrong(name, "must be at least \(least)") }
        return number
    }

    /// A text of a flag that only one service has: the flag's, the environment's or the file's.
    public func text(_ flag: String?, _ name: String) -> String? { flag ?? sources.text(name) }

    /// Certificate and key of the listener; nil for clear text.
    /// - Throws: `SRV-0106`.
    public func tlsFiles(logger: Logger) throws(ServiceError) -> TLSFiles? {
        guard let tls else { return nil }
        return try TLSFiles(certificate: tls.certificate, key: tls.key, logger: logger)
    }

    /// The file of the key that seals the system database's secrets.
    public var secretsKeyFile: String {
        secretsKey ?? URL(fileURLWithPath: dataFolder).appendingPathComponent("auth/secrets.key").path
    }

    /// The file of the admin credential: the one set, or the auth-gateway's own.
    public var adminCredentialFile: String {
        adminToken ?? URL(fileURLWithPath: dataFolder).appendingPathComponent("auth/admin.token").path
    }

    static let temporaryName = "temporary"

    /// The folder of SQLite's temporary files.
    public var temporaryFolder: String {
        URL(fileURLWithPath: dataFolder).appendingPathComponent(Self.temporaryName).path
    }

    /// The path of a folder in the data folder, or of the data folder itself. Missing folders are created,
    /// readable by their owner only; a service's folders become so if they exist. A data folder that exists
    /// keeps its mode: it may be a volume, or a folder with other things in it, such as `/tmp`. A folder of
    /// the same name with those other things is refused, as is a link to somewhere else.
    /// - Throws: `SRV-0203`.
    public func folder(_ names: String...) throws(ServiceError) -> String {
        var url = URL(fileURLWithPath: dataFolder, isDirectory: true).standardizedFileURL
        try Self.make(url.deletingLastPathComponent(), permissions: nil)
        try Self.make(url, permissions: 0o700)
        for name in names {
            url.appendPathComponent(name, isDirectory: true)
            try PrivateFiles.refuseForeign(url.path)
            try Self.make(url, permissions: 0o700)
            try PrivateFiles.protect(url.path)
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
        guard !exists() else { return }
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
