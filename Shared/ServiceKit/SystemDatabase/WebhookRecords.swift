import CRDT
import Identity

/// A webhook that gets the changes of a database.
public struct WebhookRecord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.webhooks
    /// Random.
    public var id: String
    /// The database.
    public var databaseID: DatabaseID { DatabaseID(database) }
    /// The same as the document has it.
    private let database: String
    /// The address that is called; a part of it may be a secret.
    public var url: String
    /// Changes of these collections only; nil for all.
    public var collections: [String]?
    /// A condition of DQL over the new value, or over the old one of a removed document.
    public var condition: String?
    /// `new`, `both`, `none` or `changes`.
    public var values: String
    /// The signing secret in base64, sealed.
    public var sealedSecret: String
    /// The offset after which it begins.
    public var since: Int64
    /// Seconds since 1970.
    public var createdAtSeconds: Int64

    /// A webhook of these facts.
    public init(
        id: String, database: DatabaseID, url: String, collections: [String]?, condition: String?,
        values: String, sealedSecret: String, since: Int64, createdAtSeconds: Int64
    ) {
        self.id = id
        self.database = database.text
        self.url = url
        self.collections = collections
        self.condition = condition
        self.values = values
        self.sealedSecret = sealedSecret
        self.since = since
        self.createdAtSeconds = createdAtSeconds
    }
}

/// How far a webhook has got.
public struct WebhookPosition: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.webhookPositions
    /// The webhook's id.
    public var id: String
    /// The offset of the last operation that it has taken.
    public var offset: Int64
    /// Seconds since 1970, of the last call that it has taken; nil before the first.
    public var deliveredAtSeconds: Int64?

    /// A position.
    public init(id: String, offset: Int64, deliveredAtSeconds: Int64?) {
        self.id = id
        self.offset = offset
        self.deliveredAtSeconds = deliveredAtSeconds
    }
}
