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

    /// The bucket of all attachments; nil for folders on this machine.
    public var bucket: BucketAddress?

    /// The defaults.
    public init() {}
}

/// The flags of the place of attachments, which the doctor has too.
public struct AttachmentBucketFlags: ParsableArguments, Sendable {
    /// `http(s)://HOST[:PORT]/BUCKET[/PREFIX]`.
    @Option(setting: "attachmentBucket") public var attachmentBucket: String?
    /// The region that requests are signed for.
    @Option(setting: "attachmentBucketRegion") public var attachmentBucketRegion: String?
    /// The file with the credentials.
    @Option(setting: "attachmentBucketCredentials") public var attachmentBucketCredentials: String?

    /// Empty, for the parser.
    public init() {}

    /// The bucket that flags, environment or file name; nil if none does.
    /// - Parameter text: the value of a setting: the flag's, else the environment's or the file's.
    /// - Throws: `SRV-0104`.
    public func address(
        _ text: (_ flag: String?, _ name: String) -> String?
    ) throws(ServiceError) -> BucketAddress? {
        guard let url = text(attachmentBucket, "attachmentBucket") else { return nil }
        return try BucketAddress(
            url: url, region: text(attachmentBucketRegion, "attachmentBucketRegion"),
            credentialsFile: text(attachmentBucketCredentials, "attachmentBucketCredentials"))
    }
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
    /// The place of attachments.
    @OptionGroup public var place: AttachmentBucketFlags

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
        options.bucket = try place.address { configuration.text($0, $1) }
        return options
    }
}
