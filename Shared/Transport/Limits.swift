/// The module's limits: name with unit, value, reason.
public enum Limits {
    /// The pause before the second attempt to connect; it doubles with each failure and is jittered by half.
    public static let firstReconnectPause = Duration.milliseconds(500)
    /// The longest pause between two attempts: a returning server is found within it.
    public static let longestReconnectPause = Duration.seconds(15)
    /// A session of this length whose link then broke silently does not count as a failure: the next
    /// attempt comes after the first pause.
    public static let shortestSession = Duration.seconds(1)
    /// The most bytes of unsent frames: credit bounds data, this bounds everything else towards a side that
    /// asks and does not read. Room for the states of one read, each at the hard limit.
    public static let unsentBytes = 128 * 1_048_576
    /// Documents' changes of the live stream that a session handles on its event loop, which others share.
    static let shortChanges = 16
    /// Bytes of their states: what is encoded in some tens of microseconds.
    static let shortBytes = 65_536
    /// Bytes of a frame that a session handles on its event loop, which others share: some documents.
    static let cheapFrameBytes = 4_096
    /// Waiting bytes above which nothing large is read from the store for this side.
    public static let unsentPauseBytes = 8 * 1_048_576
    /// The pause before checking again whether the waiting bytes were sent.
    public static let unsentPause = Duration.milliseconds(10)
    /// Wanted documents loaded from the store when a session begins; later sessions load the rest.
    public static let wantedDocuments = 65_536
    /// Sessions in a row that may break within a list of what links brought before it goes in pages.
    static let wholeLists = 3
    /// The time in which the last frames of a session (with its close reason) must be sent.
    public static let lastFramesTimeout = Duration.seconds(2)
    /// Commits that links follow live, and their bytes; a link that is further behind catches up from the
    /// store.
    static let feedCommits = 1_024
    /// See `feedCommits`.
    static let feedBytes = 8 * 1_048_576
    /// Bytes of changes that a link is handed at a time.
    static let feedBatchBytes = 524_288
    /// Bytes of documents on a page of a catch-up of a link, documents that it visits, and names on it.
    static let linkPage = (bytes: 1_048_576, documents: 4_096, candidates: 4_096)
    /// How often a store looks after documents of links that were ahead of its clock: as late as one is taken
    /// at most.
    static let aheadInterval = Duration.seconds(5)
    /// Documents that a link is asked about at a time because they came from elsewhere.
    static let linkAsks = 1_024
    /// Bytes of a message in chunks after which its received part is kept for a later session.
    static let keptStepBytes = 65_536

    /// Bytes that wait for a socket above which news of presence wait for documents.
    static let presenceUnsentBytes = 65_536
    /// The longest time for which they wait: a graph is the same everywhere after some seconds.
    static let presencePatience = Duration.seconds(2)
    /// The pause before checking again whether the documents were sent.
    static let presenceLook = Duration.milliseconds(100)
    /// Frames of presence that wait for a link's session to be open: digests, and records of some moments.
    static let earlyNews = 8
    /// The shortest time between two notices to a link of what was stored.
    static let takenPause = Duration.milliseconds(500)

    // MARK: Links

    /// The first pause after a failed dial, unless the application names another; it doubles.
    public static let firstDialPause = Duration.seconds(5)
    /// The pauses after the first dials of an address at which nobody has answered yet: two peers that start
    /// together miss each other by the moment of opening a port.
    static let earlyDialPauses: [Duration] = [.milliseconds(200), .milliseconds(500), .seconds(1)]
    /// The longest pause between two dials of an address.
    static let longestDialPause = Duration.seconds(60)
    /// The longest pause after the application of one side has denied a link again and again.
    static let longestDenialPause = Duration.seconds(300)
    /// The time without any success after which the transport counts as failed.
    public static let dialFailureWindow = Duration.seconds(60)
    /// The time for a connection to be made: a host that does not answer is given up.
    static let connectTime = Duration.seconds(10)
    /// The time from a connection to the other side's greeting: a TLS handshake and one frame.
    static let greetingTime = Duration.seconds(10)
    /// Bytes that a connection may send before it has proven its key: certificates, and a greeting.
    static let openingBytes = 65_536
    /// Incoming connections that have not greeted yet; a newer one takes the place of the oldest.
    static let openingLinks = 32
    /// Incoming links that are open.
    static let incomingLinks = 32
    /// The time in which the application decides about a link.
    static let requestTime = Duration.seconds(10)
    /// The time that a second link waits for the peer with the smaller key to choose: some round trips.
    static let doubleLinkPatience = Duration.seconds(3)
    /// The time between two signs of life on a link.
    static let pingInterval = Duration.seconds(5)
    /// The time without a byte after which a link is lost.
    static let linkPatience = Duration.seconds(15)
    /// Bytes of a piece of a blob on a link: a document waits no longer for it than for a page of its own.
    public static let blobPieceBytes = 65_536
    /// Questions about blobs that wait at a link's end: several downloads with several pieces each.
    static let blobAsks = 64
    /// The time that a question about a blob waits for its answer; a peer may read a whole blob first, to
    /// compare it with its name.
    static let blobPatience = Duration.seconds(30)
    /// Bytes of a frame on a link.
    static let linkFrameBytes = 1_048_576
    /// Frames, and their bytes, that wait for the session before the socket is not read any more.
    static let unreadFrames = 8
    /// Bytes of these frames.
    static let unreadBytes = 524_288
    /// A peer's certificate is issued again when this part of its life is over.
    static let renewedLife = 0.5
    /// Newer certificates that a link brings at once and are verified, and the time after which it may bring
    /// one more: an honest side has one every few days, and looks for it every five seconds.
    static let renewals = (burst: 8, pause: Duration.seconds(5))
    /// Connections that wait to be accepted by the kernel.
    static let backlog: Int32 = 256
    /// Peers that were linked since the start and are listed with their status.
    static let knownPeers = 256

    // MARK: Discovery

    /// The UDP port of beacons.
    public static let multicastPort = 5_000
    /// The time between two beacons: a peer that came is known within it.
    public static let beaconInterval = Duration.seconds(3)
    /// The pauses after the first beacons of a start: one of them may be lost.
    static let firstBeacons: [Duration] = [.milliseconds(500), .seconds(1)]
    /// Intervals that a beacon counts: some may be lost.
    static let beaconLives = 5
    /// Bytes of a beacon; version 1 has 40 at most.
    static let beaconBytes = 128
    /// Bytes of a datagram that are read: a longer one shows by them that it is no beacon.
    static let datagramBytes = 256
    /// Addresses that are remembered.
    static let spots = 256
    /// Addresses of one peer: its interfaces, and some that others claim to be its.
    static let spotsOfPeer = 8
    /// Unknown addresses a second that are looked at: a flood costs a comparison of 128 bytes each.
    static let newSpots = 64
    /// Addresses a second that are dialed for the first time: nobody is made to storm others by hints.
    static let newTargets = 16
    /// The time between two looks at the network interfaces.
    static let interfaceLook = Duration.seconds(5)
    /// Changes a second that hints bring of known addresses and are looked at: a peer's links change now and
    /// then, and only a flood changes more often.
    static let changedSpots = 64
    /// Services of DNS-SD that are resolved, of all peers and interfaces.
    static let services = 256
    /// Strings of a service's text record that are read, and bytes of each: ours are 4 of 18 at most.
    static let serviceTexts = 16
    /// See `serviceTexts`.
    static let serviceTextBytes = 64
    /// Bytes of a message of the system's bus: avahi's have some hundreds.
    static let busMessageBytes = 65_536
    /// Bytes of a line of the bus's handshake.
    static let busLineBytes = 1_024
    /// The pause before the system's bus is tried again; it doubles.
    static let firstBusPause = Duration.seconds(5)
    /// The longest such pause: a device on which avahi is installed later finds peers within it.
    static let longestBusPause = Duration.seconds(60)
    /// How often one looks whether services had no place, or avahi refused something.
    static let serviceLook = Duration.seconds(60)
    /// Links that a peer dials to peers that it found.
    public static let chosenLinks = 4
    /// The time between two looks for a better choice of links.
    public static let churnInterval = Duration.seconds(120)
    /// The age from which a link may be given up for another one.
    public static let churnAge = Duration.seconds(60)
    /// The pause of an address after `finalFailures`.
    public static let blockTime = Duration.seconds(1_800)
    /// Failures in a row that another try will not mend: another authority, database or protocol.
    static let finalFailures = 3
}
