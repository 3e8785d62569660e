import ArgumentParser
import Attachments
import ServiceKit

/// The bounds of attachments.
public struct AttachmentOptions: Sendable, Equatable {
    /// The largest attachment to accept.
    public var maximumBytes = Attachments.Limits.blobBytes
    /// The bytes that a database's attachments may have together; 0 for no bound.
    public var quotaBytes: Int64 = 0
    /// How long an attachment stays that no document mentions; nil for ever.
    public var graceSeconds: Int64? = Limits.graceHours * 3_600
    /// Time between two collections.
    public var collectionSeconds: Int64 = Limits.collectionSeconds

    /// The defaults.
    public init() {}
}

/// The flags of attachments.
public struct AttachmentFlags: ParsableArguments, Sendable {
    /// In bytes.
    @Option(help: .setting("maxAttachmentBytes")) public var maxAttachmentBytes: Int64?
    /// In bytes, for each database.
    @Option(help: .setting("attachmentQuotaBytes")) public var attachmentQuotaBytes: Int64?
    /// In hours; 0 for ever.
    @Option(help: .setting("attachmentGraceHours")) public var attachmentGraceHours: Int64?
    /// In seconds.
    @Option(help: .setting("attachmentCollectionSeconds")) public var attachmentCollectionSeconds: Int64?

    /// Empty, for the parser.
    public init() {}

    /// The options, with environment and configuration file.
    /// - Throws: `SRV-0104`, `SRV-0108`.
    public func options(_ configuration: ServiceConfiguration) throws(ServiceError) -> AttachmentOptions {
        var options = AttachmentOptions()
        if let most = try configuration.number(maxAttachmentBytes, "maxAttachmentBytes") {
            options.maximumBytes = most
        }
        if let quota = try configuration.number(attachmentQuotaBytes, "attachmentQuotaBytes") {
            options.quotaBytes = quota
        }
        if let hours = try configuration.number(attachmentGraceHours, "attachmentGraceHours") {
            options.graceSeconds = hours == 0 ? nil : min(hours, Limits.longestGraceHours) * 3_600
        }
        if let pause = try configuration.number(attachmentCollectionSeconds, "attachmentCollectionSeconds") {
            options.collectionSeconds = pause
        }
        return options
    }
}
