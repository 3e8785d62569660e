import CRDT
import DQL
import Identity
import Replica
import Transport

/// One device: its store, its clock, what its application subscribes to and has done.
///
/// `@unchecked Sendable`: a simulation has one thread.
final class Peer: @unchecked Sendable {
    let number: Int
    /// Which key pair it has; a copy has its original's.
    var keyNumber: Int
    var folder: String
    let disk: Machine
    var replica: PeerReplica
    var link: Link?
    /// What the application subscribes to, by canonical key.
    var subscriptions: [[UInt8]: LiveSubscription] = [:]
    /// Whether it holds `Collections.everything` from beginning to end.
    let holdsEverything: Bool
    /// How far its clock is ahead of true time, in milliseconds.
    var skew: Int64 = 0
    /// How much faster its clock runs, in millionths.
    var drift: Int64 = 0
    /// It does not connect before.
    var isAwayUntil: UInt64 = 0
    var isConnectPlanned = false
    /// The world's number of each write, by commit.
    var commits: [UInt64: Int] = [:]
    /// The position that every cursor has been stored at, by subscription key.
    var stored: [[UInt8]: LogPosition] = [:]
    /// The offset of the states that its last repair showed; 0 when its cursors have passed it.
    var repairedAt: Offset = 0
    /// Each document as it was looked at last.
    var looked: [DocumentKey: EncodedState] = [:]
    /// Marks that its application has seen.
    var seenMarks: Set<Int> = []
    /// Documents that it has written: it may be told of them outside its subscriptions (rule 16).
    var written: Set<DocumentKey> = []
    /// Documents that it evicted while no subscription of its matched them: nothing asks for them again.
    var released: Set<DocumentKey> = []
    /// What its token lets it do.
    var rights = Rights()
    /// The collections that its application withholds from the server.
    var withheld: [CollectionName] = []
    /// Whether it has forgotten a cursor: nobody tells it then what it may not read any more.
    var isForgetful = false
    /// What broken connections have brought of a large message.
    let kept = KeptMessage()
    /// What was sent of large messages, to it and by it.
    var told = Messages()
    var said = Messages()
    /// What of the latter has arrived.
    var heard = Messages()
    /// What it has told that it holds and shows as matching: it may be told what became of that.
    var listed: Set<DocumentKey> = []
    /// All that it has told that it holds: it may be told to forget it.
    var named: Set<DocumentKey> = []
    /// Documents that it named to a restored log while it might not write them: the log takes none of them.
    var ungiven: Set<DocumentKey> = []
    /// What it once was: the store's files, and what the world knew of it.
    var earlier: Backup?
    var rollBacks = 0

    struct Backup {
        let folder: String
        let commits: [UInt64: Int]
        let repairedAt: Offset
    }

    /// Its public key's text.
    var key: String { "pk\(keyNumber)" }

    /// What its token says.
    var identity: Identity {
        Identity(
            userID: "user \(number)", databaseID: SimulatedLog.database, peerKey: key,
            grant: rights.grant, expiresAtSeconds: .max)
    }

    init(number: Int, folder: String, disk: Machine, replica: PeerReplica, holdsEverything: Bool) {
        self.number = number
        keyNumber = number
        self.folder = folder
        self.disk = disk
        self.replica = replica
        self.holdsEverything = holdsEverything
    }
}
