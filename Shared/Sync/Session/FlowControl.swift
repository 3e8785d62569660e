import CRDT
import Exchange

/// The way out of a session, and its credit: the actions of the present event, the credit of
/// both sides, and the frames that wait for credit.
///
/// Every machine of a session is handed this one value. So a machine that sends sees the remaining credit at
/// once, and all actions of an event stand in the order of their decisions.
///
/// Invariants: no data frame leaves without credit; frames that wait leave in order; once the session is
/// closed nothing leaves. Bounds: nothing more is read to be sent while a frame waits (`canSendData`), so
/// `waitingBytes` holds what was under way: one page, one run of operations, one upload.
struct FlowControl: Sendable {
    private enum Phase: Sendable {
        /// Only a hello and a close may leave.
        case greeting
        case open
        case closed
    }

    private var phase = Phase.greeting
    private var actions: [Action] = []
    /// Bytes of data frames that this side may still send.
    private(set) var sendCredit = 0
    /// Bytes of data frames that the other side may still send.
    private(set) var receiveCredit: Int
    private var outbox = Queue<(frame: [UInt8], isData: Bool)>()
    /// Bytes of the frames that wait; bounded by `Limits.waitingBytes`.
    private(set) var waitingBytes = 0
    /// The part of a message that the other side has from an earlier session, until that message is sent.
    private var theirKept: Frame.Kept?
    /// About how large a message becomes now; grows to `batchBytes`.
    private var burst: Int
    /// About how large a message becomes at most.
    let batchBytes: Int
    /// The version that both sides speak; known with the other side's hello.
    private(set) var version = Limits.protocolVersion
    /// True if the other side reads what is void of a document; known with its hello.
    private var tellsVoid = false
    private let trace: (@Sendable (Transition) -> Void)?

    init(creditBytes: Int, batchBytes: Int, trace: (@Sendable (Transition) -> Void)?) {
        receiveCredit = creditBytes
        self.batchBytes = batchBytes
        burst = min(Limits.firstBurstBytes, batchBytes)
        self.trace = trace
    }

    // MARK: The life of a session

    /// True from the end of the handshake to the close.
    var isOpen: Bool { phase == .open }
    var isClosed: Bool { phase == .closed }

    /// The other side's hello: what it speaks, has kept and accepts.
    mutating func greeted(_ hello: Frame.Hello) {
        version = min(hello.version, Limits.meshVersion)
        theirKept = hello.kept
        tellsVoid = hello.takesVoid || hello.mesh?.takesVoid ?? false
        sendCredit = Int(min(hello.credit, UInt64(2 * Limits.messageBytes)))
    }

    /// The handshake is complete on this side.
    mutating func open() {
        precondition(phase == .greeting, "a session opens once; it is \(phase)")
        phase = .open
    }

    /// Nothing more leaves.
    mutating func close() { phase = .closed }

    /// Hands over the actions of an event.
    mutating func takeActions() -> [Action] {
        defer { actions = [] }
        return actions
    }

    /// The name of a machine's state, if somebody hears of transitions.
    func traced(_ name: @autoclosure () -> String) -> String? { trace == nil ? nil : name() }

    /// Tells that a machine was in one state and is in another.
    func trace(_ machine: Transition.Machine, from: String?, to: @autoclosure () -> String) {
        guard let trace, let from else { return }
        let to = to()
        if from != to { trace(Transition(machine: machine, from: from, to: to)) }
    }

    // MARK: Sending

    /// True if a data frame may leave at once: the condition for reading more to send.
    var canSendData: Bool { phase == .open && sendCredit > 0 && outbox.isEmpty }

    /// Asks the driver for something.
    mutating func perform(_ action: Action) { actions.append(action) }

    /// Sends a frame, or lets it wait behind data that has no credit. Frames that the other side needs in
    /// order to give credit (credit itself, answers to its wants) never wait. `shared` are the frame's bytes
    /// if another session has encoded it before.
    mutating func send(_ frame: Frame, shared: [UInt8]? = nil) {
        let bytes = shared ?? (tellsVoid ? frame : frame.withoutVoid).encoded()
        if frame.waitsItsTurn && (!outbox.isEmpty || (frame.isData && sendCredit <= 0)) {
            outbox.append((bytes, frame.isData))
            waitingBytes += bytes.count
        } else if case .hello = frame {
            actions.append(.send(bytes))
        } else {
            transmit(bytes, isData: frame.isData)
        }
    }

    /// Drops the frames that wait: positions and documents that the other side may not see any more.
    /// - Returns: whether there were any.
    mutating func withdrawWaiting() -> Bool {
        defer {
            outbox = Queue()
            waitingBytes = 0
        }
        return waitingBytes > 0
    }

    private mutating func transmit(_ bytes: [UInt8], isData: Bool) {
        if isData { sendCredit -= bytes.count }
        divide(bytes)
    }

    /// Hands a message to the transport, in chunks if it is too large for one frame.
    private mutating func divide(_ bytes: [UInt8]) {
        let isSlow = burst < batchBytes
        guard phase == .open, bytes.count > (isSlow ? 2 * burst : Limits.frameBytes) else {
            return actions.append(.send(bytes))
        }
        let size = isSlow ? burst : Limits.chunkBytes
        let name = hash64(bytes)
        var place = 0
        if let theirs = theirKept, theirs.hash == name, theirs.count < UInt64(bytes.count) {
            place = Int(theirs.count)
        }
        // At the first chunk of another message the other side drops the part that it has kept.
        theirKept = nil
        while place < bytes.count {
            let end = min(place + size, bytes.count)
            let chunk = Frame.chunk(
                isLast: end == bytes.count, Array(bytes[place..<end]), of: name, at: UInt64(place))
            actions.append(.send(chunk.encoded()))
            place = end
        }
    }

    /// About how many bytes are read for one message now.
    var readBytes: Int { min(burst, batchBytes) }

    // MARK: Credit

    /// Counts a data frame that has come. One message may overdraw: its sender cannot know its size before
    /// it is put together.
    mutating func spend(_ size: Int) throws(SyncError) {
        guard receiveCredit > 0 else { throw SyncError(.creditExceeded, "data arrived without credit") }
        receiveCredit -= size
    }

    /// Gives credit back for data that is stored now.
    mutating func returnCredit(_ size: Int) {
        guard size > 0 else { return }
        receiveCredit += size
        send(.credit(UInt64(size)))
    }

    /// The other side has stored something: frames that wait may leave, and messages become larger.
    mutating func credited(_ bytes: UInt64) throws(SyncError) {
        guard bytes <= UInt64(Limits.messageBytes) else {
            throw SyncError(.malformedFrame, "more credit than a message can have")
        }
        sendCredit = min(sendCredit + Int(bytes), 2 * Limits.messageBytes)
        burst = min(2 * burst, max(burst, batchBytes))
        while let next = outbox.first, !next.isData || sendCredit > 0 {
            outbox.removeFirst()
            waitingBytes -= next.frame.count
            transmit(next.frame, isData: next.isData)
        }
    }

    func checkInvariants() {
        precondition(actions.isEmpty, "actions of the last event were not handed over")
        precondition(waitingBytes == outbox.items.reduce(0) { $0 + $1.frame.count }, "bytes that wait")
    }
}

/// A change of state of a session, or of one of its machines, for a log.
public struct Transition: Sendable, Equatable {
    /// The machines of a session.
    public enum Machine: String, Sendable {
        /// The session itself: its handshake, its opening and its end.
        case session
        /// Asks for documents and stores them.
        case reader
        /// Uploads own operations.
        case writer
        /// Serves subscriptions.
        case publisher
        /// Takes operations to the log.
        case admitter
    }

    /// The machine.
    public let machine: Machine
    /// The name of the state that it left.
    public let from: String
    /// The name of the state that it is in.
    public let to: String
}
