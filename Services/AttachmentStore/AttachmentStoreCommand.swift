import ArgumentParser
import Attachments
import Logging
import OperationLog
import ServiceKit

/// `attachment-store`: the attachment store in its own process.
public struct AttachmentStoreCommand: AsyncParsableCommand {
    /// Name and purpose.
    public static let configuration = CommandConfiguration(
        commandName: "attachment-store", abstract: "Stores and serves attachments over HTTP.")

    @OptionGroup private var options: ServiceOptions
    @OptionGroup private var issuer: IssuerOptions

    @Option(
        help: ArgumentHelp(
            "Largest attachment to accept (default \(Attachments.Limits.blobBytes)).", valueName: "bytes"))
    private var maxAttachmentBytes: Int64?

    /// Empty, for the parser.
    public init() {}

    /// Prints `url:`, then serves until it is told to stop.
    public func run() async throws {
        let configuration = try ServiceConfiguration(
            options, issuer: issuer, port: AttachmentStore.defaultPort)
        let logger = Logger(label: "attachment-store")
        let room = configuration.diskRoom()
        let log = try configuration.openLog(room: room, logger: logger)
        let system = SystemDatabase(log: log, folder: try configuration.folder("system"), logger: logger)
        let store = try AttachmentStore(
            folder: configuration.folder("attachments"), log: log,
            documents: configuration.folder("attachment-documents"),
            authenticator: Authenticator(configuration, system: system, logger: logger),
            maximumBytes: try configuration.number(maxAttachmentBytes, "maxAttachmentBytes")
                ?? Attachments.Limits.blobBytes, room: room, logger: logger)
        let host = ServiceHost(
            parts: [SystemDatabasePart(system), StoragePart(log: log, room: room), store],
            listen: configuration.listen,
            tls: try configuration.tlsFiles(logger: logger), cors: configuration.cors, logger: logger
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
