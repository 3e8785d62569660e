import ArgumentParser
import Logging
import OperationLog
import ServiceKit

/// `attachment-store`: the attachment store in its own process.
public struct AttachmentStoreCommand: AsyncParsableCommand {
    /// Name and purpose.
    public static let configuration = CommandConfiguration(
        commandName: "attachment-store", abstract: "Stores and serves attachments over HTTP.",
        version: BuildVersion.text)

    @OptionGroup private var options: ServiceOptions
    @OptionGroup private var issuer: IssuerOptions
    @OptionGroup private var admin: AdminOptions
    @OptionGroup private var attachments: AttachmentFlags

    /// Empty, for the parser.
    public init() {}

    /// Prints `url:`, then serves until it is told to stop.
    public func run() async throws {
        let configuration = try ServiceConfiguration(
            options, issuer: issuer, admin: admin, port: AttachmentStore.defaultPort)
        let logger = Logger(label: "attachment-store")
        let room = configuration.diskRoom()
        let log = try configuration.openLog(room: room, logger: logger)
        let system = try configuration.systemDatabase(on: log, logger: logger)
        let store = try AttachmentStore(
            folder: configuration.folder("attachments"), log: log,
            documents: Materializations(
                of: log, folder: configuration.folder("attachment-documents"), logger: logger),
            authenticator: Authenticator(configuration, system: system, logger: logger),
            options: try attachments.options(configuration),
            admin: AdminCredential(configuration, system: system), room: room, logger: logger)
        let host = try ServiceHost(
            configuration,
            parts: [
                SystemDatabasePart(system),
                StoragePart(log: log, room: room, temporary: configuration.temporaryFolder), store,
            ],
            logger: logger
        ) { address in
            ServiceMain.say("url: \(address.origin)")
        }
        do {
            try await host.run(signals: ServiceMain.stopSignals)
        } catch {
            await log.close()
            throw error
        }
        await log.close()
    }

    /// Entry point for `main.swift`.
    public static func runAsProcess() async -> Never { await ServiceMain.run(Self.self) }
}
