import CRDT

/// The part of a document's note that says which of its stamps are void: all that are later than their
/// actor's time here (decision 0083). Words of the server are told apart from words of links, and a link's
/// word never changes a server's.
///
/// Stored as a version vector. The time of a stamp has 63 bits (`ReplicaLimits.stampMilliseconds`), so the
/// highest one marks a word of the server.
struct VoidNote: Equatable {
    private struct Word: Equatable {
        var time: Timestamp
        var isServers: Bool
    }

    private static let mark: Timestamp = 1 << 63
    /// Later than every stamp: by the server's word nothing of the actor is void.
    static let none = mark - 1

    private var words: [ActorID: Word] = [:]

    init() {}

    /// Words of links.
    init(_ told: VersionVector) { for entry in told.entries { take(entry) } }

    /// Throws CRDT errors for bytes that do not decode.
    init(decoding bytes: [UInt8]) throws {
        guard !bytes.isEmpty else { return }
        for entry in try VersionVector(decoding: bytes).entries {
            words[entry.actor] = Word(
                time: entry.time & ~Self.mark, isServers: entry.time & Self.mark != 0)
        }
    }

    /// The bytes to store; empty for no word.
    func encoded() -> [UInt8] {
        guard !words.isEmpty else { return [] }
        return VersionVector(
            words.map { .init(actor: $0, time: $1.isServers ? $1.time | Self.mark : $1.time) }
        ).encoded()
    }

    var isEmpty: Bool { words.isEmpty }
    var count: Int { words.count }

    /// The times after which stamps are void. An actor of which nothing is void has a time later than every
    /// stamp.
    var times: VersionVector { VersionVector(words.map { .init(actor: $0, time: $1.time) }) }

    /// The times that links are told: of the actors of which something is void.
    var told: VersionVector {
        VersionVector(words.filter { $1.time < Self.none }.map { .init(actor: $0, time: $1.time) })
    }

    /// Returns whether there is a word about an actor.
    func names(_ actor: ActorID) -> Bool { words[actor] != nil }

    // MARK: Words that come

    /// The server says that stamps are void.
    mutating func confirm(_ entry: VersionVector.Entry) {
        words[entry.actor] = Word(time: entry.time, isServers: true)
    }

    /// The server says that stamps of an actor are not void.
    mutating func clear(_ actor: ActorID) { words[actor] = Word(time: Self.none, isServers: true) }

    /// The server shows stamps: those of them that count as void are not.
    mutating func clear(shown: VersionVector) {
        for entry in times.entries where shown[entry.actor] ?? 0 > entry.time { clear(entry.actor) }
    }

    /// A link says that stamps are void. The word with the least time counts: no link takes back a stamp that
    /// another has told.
    mutating func take(_ entry: VersionVector.Entry) {
        guard entry.time < Self.none else { return }
        switch words[entry.actor] {
        case let known? where known.isServers || known.time <= entry.time: break
        default: words[entry.actor] = Word(time: entry.time, isServers: false)
        }
    }
}
