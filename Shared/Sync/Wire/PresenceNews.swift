/// A peer's presence record as it travels: its content, and the author's signature over it.
public struct SignedRecord: Sendable, Equatable {
    /// The encoded content, see `PresenceRecord`.
    public var content: [UInt8]
    /// The author's signature.
    public var signature: [UInt8]

    /// A record of these parts.
    public init(content: [UInt8], signature: [UInt8]) {
        self.content = content
        self.signature = signature
    }
}

/// The age order of the records of one peer. No clock is compared: a device may wake up in 1970.
public struct PresenceRank: Sendable, Hashable {
    /// How often the peer's store was started.
    public var starts: UInt64
    /// Random bytes of this start: two stores with equal counts and other bytes are copies.
    public var start: UInt64
    /// Counts the records of this start.
    public var version: UInt64

    /// A rank of these parts.
    public init(starts: UInt64, start: UInt64, version: UInt64) {
        self.starts = starts
        self.start = start
        self.version = version
    }

    /// Returns whether a record of this rank takes the place of another one.
    public func isNewer(than other: PresenceRank) -> Bool {
        (starts, version) > (other.starts, other.version)
    }
}

/// News of presence: one frame between two peers. Every part may be empty.
public struct PresenceNews: Sendable, Equatable {
    /// The latest record that the sender has of a peer.
    public struct Digest: Sendable, Equatable {
        /// The peer's short name.
        public var peer: UInt64
        /// The record's rank.
        public var rank: PresenceRank

        /// A digest of these parts.
        public init(peer: UInt64, rank: PresenceRank) {
            self.peer = peer
            self.rank = rank
        }
    }

    /// A record on its way.
    public struct Carried: Sendable, Equatable {
        /// The record.
        public var record: SignedRecord
        /// The sum of the times that it lay at each peer.
        public var ageMilliseconds: UInt64

        /// A record of this age.
        public init(record: SignedRecord, ageMilliseconds: UInt64) {
            self.record = record
            self.ageMilliseconds = ageMilliseconds
        }
    }

    /// Digests of all records that the sender has; empty when they are not told.
    public var digests: [Digest] = []
    /// Records that the receiver may lack.
    public var records: [Carried] = []
    /// Short names of peers whose records the sender wants.
    public var wanted: [UInt64] = []
    /// Certificates that were wanted, in DER.
    public var certificates: [[UInt8]] = []
    /// Hashes of certificates that the sender wants.
    public var wantedCertificates: [[UInt8]] = []

    /// No news.
    public init() {}

    /// True if there is nothing in it.
    public var isEmpty: Bool {
        digests.isEmpty && records.isEmpty && wanted.isEmpty && certificates.isEmpty
            && wantedCertificates.isEmpty
    }
}
