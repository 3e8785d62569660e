import CRDT
import Exchange

@testable import Sync

/// One frame of every type and shape, with fixed contents: what the fixtures hold and hostile tests bend.
enum Exemplars {
    static let logID: LogID = {
        guard let id = LogID(bytes: Array(1...16)) else { preconditionFailure("sixteen bytes are an id") }
        return id
    }()
    static let position = LogPosition(
        logID: logID, offset: 300, hash: 0x0102_0304_0506_0708)
    static let actor = ActorID(0xA1A2_A3A4_A5A6_A7A8)
    static let error = SyncError(.readNotGranted, "no right to read é")

    static func key(_ id: Int64) -> DocumentKey {
        guard let id = try? DocumentID(.int(id)) else { preconditionFailure("an integer is an id") }
        return DocumentKey(collection: "cars", id: id)
    }

    /// An operation that changes nothing.
    static let operation = Operation(actor: actor, sequence: 1, timestamp: 9, changes: []).encoded()
    static let state = DocumentUpdate(key: key(1), content: .state([1, 2, 3]))
    static let delta = DocumentUpdate(
        key: key(2), content: .delta(Stamp(time: 0x0010_0000_0000_0001, actor: actor), [4, 5]))

    static let gone = DocumentUpdate(key: key(4), content: .gone(vector))
    static let vector = VersionVector([.init(actor: actor, time: 9)]).encoded()

    static var frames: [(name: String, frame: Frame)] { first + second + third + fourth }

    /// What the fourth version added.
    static let fourth: [(name: String, frame: Frame)] = [
        ("hello-mesh", .hello(meshHello(feed: logID, isServed: true))),
        ("hello-links", .hello(linked)),
        (
            "operations-candidates",
            .operations(
                Frame.Operations(
                    position: position, updates: [delta],
                    candidates: [DocumentVersion(key: key(3), vector: vector)]))
        ),
        ("deferred", .deferred(Deferral(actor: actor, sequence: 7, documents: [key(1), key(4)]))),
        ("hello-mesh-record", .hello(recorded)),
        ("hello-presence", .hello(present)),
        ("taken", .taken(position)),
        ("presence", .presence(news)),
        ("presence-nothing", .presence(PresenceNews())),
        ("hello-mesh-certificates", .hello(renewing)),
        ("certificate", .certificate([0x30, 1, 2])),
        (
            "operations-void",
            .operations(Frame.Operations(position: position, updates: [], candidates: [voided]))
        ),
        ("states-void", .states([(key: key(3), state: EncodedState([1]))], gone: [voided])),
        ("hello-void", .hello(takingVoid)),
        ("hello-mesh-void", .hello(meetingVoid)),
        ("chunk-last", .chunk(isLast: true, [], of: 0x0102_0304_0506_0708, at: 3)),
    ]

    private static var takingVoid: Frame.Hello {
        var hello = Frame.Hello(
            version: 4, databaseID: "d", peerKey: "key", wallMilliseconds: 0, credit: 0, actors: [])
        hello.takesVoid = true
        return hello
    }

    private static var meetingVoid: Frame.Hello {
        var hello = Frame.Hello(
            version: 4, databaseID: "d", peerKey: "key", wallMilliseconds: 0, credit: 0, actors: [])
        hello.mesh = MeshGreeting(feed: logID, starts: 1, start: 2)
        hello.mesh?.takesVoid = true
        return hello
    }

    private static let voided: DocumentVersion = {
        var version = DocumentVersion(key: key(3), vector: VersionVector().encoded())
        version.void = vector
        return version
    }()

    private static var renewing: Frame.Hello {
        var hello = Frame.Hello(
            version: 4, databaseID: "d", peerKey: "key", wallMilliseconds: 0, credit: 0, actors: [])
        hello.mesh = MeshGreeting(feed: logID, starts: 1, start: 2)
        hello.mesh?.takesCertificates = true
        return hello
    }

    private static let signed = SignedRecord(
        content: [0xA1, 0, 1], signature: [UInt8](repeating: 7, count: 64))

    private static var recorded: Frame.Hello {
        var hello = Frame.Hello(
            version: 4, databaseID: "d", peerKey: "key", wallMilliseconds: 0, credit: 0, actors: [])
        hello.mesh = MeshGreeting(feed: logID, starts: 1, start: 2)
        hello.mesh?.record = signed
        return hello
    }

    private static var present: Frame.Hello {
        var hello = Frame.Hello(
            version: 4, databaseID: "d", peerKey: "key", wallMilliseconds: 0, credit: 0, actors: [])
        hello.hasPresence = true
        return hello
    }

    private static var news: PresenceNews {
        var news = PresenceNews()
        news.digests = [
            PresenceNews.Digest(peer: 1, rank: PresenceRank(starts: 2, start: 3, version: 300)),
            PresenceNews.Digest(peer: .max, rank: PresenceRank(starts: 0, start: .max, version: 0)),
        ]
        news.records = [PresenceNews.Carried(record: signed, ageMilliseconds: 59_999)]
        news.wanted = [4, .max]
        news.certificates = [[0x30, 0]]
        news.wantedCertificates = [[UInt8](repeating: 9, count: 32)]
        return news
    }

    /// Another feed than `logID`.
    static let otherFeed: LogID = {
        guard let id = LogID(bytes: Array(repeating: 9, count: 16)) else { preconditionFailure("an id") }
        return id
    }()

    static func greeting(feed: LogID, isServed: Bool = false) -> MeshGreeting {
        MeshGreeting(
            feed: feed, starts: 3, start: 0x0102_0304_0506_0708, syncGroup: 5, isClockTrusted: isServed,
            hasServer: isServed)
    }

    /// One end of a link whose feed is `logID`.
    static func link(isDialer: Bool) -> Session.MeshLink {
        Session.MeshLink(isDialer: isDialer, greeting: greeting(feed: logID))
    }

    static func meshHello(feed: LogID, isServed: Bool = false) -> Frame.Hello {
        var hello = Frame.Hello(
            version: 4, databaseID: "d", peerKey: "key", wallMilliseconds: 0, credit: 1 << 20, actors: [],
            head: nil)
        hello.mesh = greeting(feed: feed, isServed: isServed)
        return hello
    }

    private static let linked: Frame.Hello = {
        var hello = Frame.Hello(
            version: 4, databaseID: "d", peerKey: "", wallMilliseconds: 0, credit: 0, actors: [], head: nil)
        hello.hasLinks = true
        return hello
    }()

    /// What the third version added.
    static let third: [(name: String, frame: Frame)] = [
        ("renewal", .renewal(token: "eyJ.eyJ.c2ln")),
        ("chunk", .chunk(isLast: false, [1, 2, 3], of: 0x0102_0304_0506_0708, at: 65_536)),
        ("hello-kept", .hello(keeping)),
        ("hello-proof", .hello(proving)),
        ("hello-declined", .hello(declined)),
        ("reconciled-declined", .reconciled(position, declined: [0, 0, 0, 0, 0, 0, 0, 1])),
        (
            "held-unmatched",
            .held(
                id: 5,
                [
                    DocumentVersion(key: key(3), vector: vector),
                    DocumentVersion(key: key(4), vector: vector, isUnmatched: true),
                ], isLast: true)
        ),
        ("want-held", .want([key(1), key(4)], held: [DocumentVersion(key: key(4), vector: vector)])),
        (
            "states-gone",
            .states(
                [(key: key(4), state: EncodedState([9]))], at: position,
                gone: [DocumentVersion(key: key(4), vector: vector)])
        ),
    ]

    /// What the second version added.
    static let second: [(name: String, frame: Frame)] = [
        ("subscribe-resume", .subscribe(resuming)),
        ("subscription-refused-hides", .subscriptionRefused(id: 5, error, hides: true)),
        ("catch-up-resume", .catchUp(page { $0.resume = [9, 8, 7] })),
        (
            "catch-up-listed",
            .catchUp(
                page {
                    $0.gone = [DocumentVersion(key: key(4), vector: vector)]
                    $0.hidden = [key(5), key(6)]
                })
        ),
        (
            "catch-up-end-rights",
            .catchUp(
                page {
                    $0.end = position
                    $0.rights = [0, 0, 0, 0, 0, 0, 0, 1]
                })
        ),
        ("catch-up-as-of", .catchUp(page { $0.asOf = position })),
        ("operations-gone", .operations(Frame.Operations(position: position, updates: [gone, delta]))),
        ("progress-skipped", .progress(position, skipped: true)),
        (
            "acknowledged-offset",
            .acknowledged([Acknowledgement(actor: actor, sequence: 65_536)], offset: 300)
        ),
        ("states-part", .states([(key: key(1), state: EncodedState([9]))], at: position, isPart: true)),
        ("list", .list(id: 5)),
        ("list-after", .list(id: 5, after: key(7).id)),
        ("held", .held(id: 5, [DocumentVersion(key: key(3), vector: vector)], isLast: false)),
        ("held-last", .held(id: 5, [], isLast: true)),
        ("granted", .granted),
    ]

    private static let keeping: Frame.Hello = {
        var hello = Frame.Hello(
            version: 3, databaseID: "d", peerKey: "", wallMilliseconds: 0, credit: 0, actors: [], head: nil)
        hello.kept = Frame.Kept(hash: 0x0102_0304_0506_0708, count: 65_536)
        return hello
    }()

    private static let proving: Frame.Hello = {
        var hello = Frame.Hello(
            version: 3, databaseID: "d", peerKey: "", wallMilliseconds: 0, credit: 0, actors: [], head: nil)
        hello.proof = Array(1...64)
        return hello
    }()

    private static let declined: Frame.Hello = {
        var hello = Frame.Hello(
            version: 3, databaseID: "d", peerKey: "", wallMilliseconds: 0, credit: 0, actors: [], head: nil)
        hello.declined = [0, 0, 0, 0, 0, 0, 0, 1]
        return hello
    }()

    private static func page(_ body: (inout Frame.CatchUp) -> Void) -> Frame.CatchUp {
        var page = Frame.CatchUp(id: 5, documents: [state])
        body(&page)
        return page
    }

    private static var resuming: Frame.Subscribe {
        var frame = subscribe(cursor: position)
        frame.resume = [9, 8, 7]
        frame.holds = true
        frame.rights = [0, 0, 0, 0, 0, 0, 0, 1]
        return frame
    }

    static let first: [(name: String, frame: Frame)] = [
        (
            "hello-peer",
            .hello(
                Frame.Hello(
                    version: 1, databaseID: "d", peerKey: "key", wallMilliseconds: 1_700_000_000_000,
                    credit: 4_194_304, actors: [ActorHead(actor: actor, sequence: 7, hash: 9)],
                    head: nil))
        ),
        (
            "hello-server",
            .hello(
                Frame.Hello(
                    version: 1, databaseID: "d", peerKey: "", wallMilliseconds: 0, credit: 0, actors: [],
                    head: position))
        ),
        ("subscribe", .subscribe(subscribe(cursor: nil))),
        ("subscribe-cursor", .subscribe(subscribe(cursor: position))),
        ("unsubscribe", .unsubscribe(id: 24)),
        ("subscription-refused", .subscriptionRefused(id: 5, error)),
        (
            "catch-up",
            .catchUp(
                Frame.CatchUp(
                    id: 5, documents: [state], candidates: [DocumentVersion(key: key(3), vector: [0])],
                    end: nil))
        ),
        ("catch-up-end", .catchUp(Frame.CatchUp(id: 5, documents: [], candidates: [], end: position))),
        ("operations", .operations(Frame.Operations(position: position, updates: [state, delta]))),
        ("progress", .progress(position)),
        ("upload", .upload([[1], [], [2, 3]])),
        ("acknowledged", .acknowledged([Acknowledgement(actor: actor, sequence: 65_536)])),
        ("want", .want([key(1), key(-1)])),
        ("states", .states([(key: key(1), state: EncodedState([9, 9])), (key: key(2), state: nil)])),
        ("credit", .credit(1_048_576)),
        ("refused", .refused(Refusal(actor: actor, sequence: 3, error: error))),
        (
            "refused-documents",
            .refused(
                Refusal(actor: actor, sequence: 3, error: error, documents: [key(1), key(2)]))
        ),
        (
            "hello-behind",
            .hello(
                Frame.Hello(
                    version: 1, databaseID: "d", peerKey: "", wallMilliseconds: 0, credit: 0, actors: [],
                    head: position, isBehind: true))
        ),
        (
            "hello-acknowledged",
            .hello(
                Frame.Hello(
                    version: 1, databaseID: "d", peerKey: "", wallMilliseconds: 0, credit: 0, actors: [],
                    head: nil, acknowledged: [Acknowledgement(actor: actor, sequence: 5)]))
        ),
        ("states-position", .states([(key: key(1), state: EncodedState([9]))], at: position)),
        ("holdings", .holdings([DocumentVersion(key: key(3), vector: [0])], isLast: false)),
        ("holdings-last", .holdings([], isLast: true)),
        ("reconciled", .reconciled(position)),
        ("close", .close(SyncError(.goingAway, "later"))),
    ]

    private static func subscribe(cursor: LogPosition?) -> Frame.Subscribe {
        Frame.Subscribe(
            id: 5, statement: "SELECT * FROM cars WHERE color = :color",
            arguments: .object(ObjectValue([(key: "color", value: .string("red"))])), cursor: cursor)
    }
}
