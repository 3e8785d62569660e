/// A download as a state machine: no socket, no clock, no file. Its driver asks for the next step, does it,
/// and says how it went.
///
/// The blob comes from one source at a time, from the byte on that is missing. Each MiB is compared with the
/// hash that a source told beforehand, so a wrong byte costs a MiB and not the blob; a source that sends
/// wrong bytes comes after the others. The list of hashes is only as good as its source: if chunks go on
/// failing, it is dropped, and the comparison of the whole with the id decides. A source that fails rests,
/// each time twice as long.
///
/// Invariants: `received` never exceeds the length. After `over` no step and no problem follows: at most one
/// end. Times are durations since a moment of the driver's choice.
public struct Download: Sendable {
    /// The next thing to do.
    public enum Step: Sendable, Equatable {
        /// Ask a source for the hashes of the chunks.
        case askChunks(source: String)
        /// Receive bytes of a source from an offset on, up to the end.
        case receive(source: String, from: Int64)
        /// Compare the whole with the id, and store it.
        case finish
        /// Nothing until sources change, at most for this long.
        case wait(Duration)
        /// Nothing any more.
        case over(Outcome)
    }

    /// The end of a download.
    public enum Outcome: Sendable, Equatable {
        /// The blob is stored.
        case completed
        /// The blob is nowhere, and nobody will bring it.
        case deleted
        /// The driver wanted no more.
        case stopped
    }

    /// A reason why a download does not go on.
    public enum Problem: Sendable, Equatable {
        /// No source has sent a byte for this long.
        case noSource(Duration)
        /// A source sends bytes that are not the attachment's.
        case wrongBytes(source: String)
        /// The bytes cannot be stored here.
        case storage
    }

    /// How a source failed.
    public enum Failure: Sendable, Equatable {
        /// It cannot be reached, or its answer broke off.
        case unreachable
        /// It does not have the blob.
        case missing
        /// It had the blob, which was collected.
        case collected
        /// It sends more than there is, or hashes that fit no blob of this length.
        case wrong
    }

    private struct Source {
        var name: String
        var isPresent = true
        var rests = Duration.zero
        var pause: Duration
        var faults = 0
        /// True if it has no list of hashes.
        var isListless = false
        /// True if its latest answer was that it does not have the blob.
        var isWithout = false
        /// True if it had the blob, which was collected.
        var hasCollected = false
    }

    private enum State { case running, finishing, over(Outcome) }

    private let length: Int64
    private let patience: Duration
    private var sources: [Source] = []
    private var state = State.running
    private var failedChunks = 0
    private var lastByte: Duration
    private var problems: [Problem] = []

    /// The hashes of the chunks, once a source has told them.
    public private(set) var chunks: ChunkList?
    /// The bytes that are here, from the beginning.
    public private(set) var received: Int64

    /// - Parameters:
    ///   - received: bytes that an earlier download left.
    ///   - chunks: the hashes with which they were compared.
    ///   - patience: time without a byte after which it is a problem.
    public init(
        length: Int64, received: Int64, chunks: ChunkList?, now: Duration, patience: Duration
    ) {
        precondition(0...max(0, length) ~= received, "a part is no larger than the whole")
        (self.length, self.received, self.chunks) = (length, received, chunks)
        (lastByte, self.patience) = (now, patience)
    }

    // MARK: What is next

    /// The next step.
    public mutating func next(now: Duration) -> Step {
        if case .over(let outcome) = state { return .over(outcome) }
        guard received < length else {
            state = .finishing
            return .finish
        }
        let ready = sources.filter { $0.isPresent && $0.rests <= now }
        // The order among equals is the driver's.
        guard let best = ready.enumerated().min(by: { ($0.1.faults, $0.0) < ($1.1.faults, $1.0) })?.1 else {
            return .wait(rest(now))
        }
        if chunks == nil, !best.isListless, length > ChunkList.chunkBytes {
            return .askChunks(source: best.name)
        }
        return .receive(source: best.name, from: received)
    }

    /// Until the next source is ready, or somebody has to be told.
    private mutating func rest(_ now: Duration) -> Duration {
        if now - lastByte >= patience {
            problems.append(.noSource(now - lastByte))
            lastByte = now
        }
        let moments = sources.filter(\.isPresent).map(\.rests) + [lastByte + patience]
        return max(.milliseconds(1), (moments.min() ?? now) - now)
    }

    /// A problem to tell, once.
    public mutating func takeProblem() -> Problem? { problems.isEmpty ? nil : problems.removeFirst() }

    // MARK: What has happened

    /// The sources that there are now, the preferred one first.
    public mutating func setSources(_ names: [String]) {
        for index in sources.indices where !names.contains(sources[index].name) {
            sources[index].isPresent = false
        }
        for name in names {
            if let index = index(of: name) {
                sources[index].isPresent = true
            } else {
                sources.append(Source(name: name, pause: Limits.firstSourcePause))
            }
        }
    }

    /// Sources may have what they did not have: all of them are asked again at once.
    public mutating func retry() {
        for index in sources.indices {
            sources[index].rests = .zero
            (sources[index].isWithout, sources[index].hasCollected) = (false, false)
            sources[index].pause = Limits.firstSourcePause
        }
    }

    /// A source's list of hashes; nil if it has none.
    public mutating func tellChunks(_ list: ChunkList?, source: String, now: Duration) {
        guard case .running = state, let index = index(of: source) else { return }
        guard let list else {
            sources[index].isListless = true
            return
        }
        guard list.length == length else { return fail(source, .wrong, now: now) }
        chunks = list
    }

    /// Bytes have come and are stored.
    public mutating func tellBytes(_ count: Int, source: String, now: Duration) {
        guard case .running = state else { return }
        received += Int64(count)
        precondition(received <= length, "a driver stores no more bytes than there are")
        lastByte = now
        if let index = index(of: source) {
            sources[index].pause = Limits.firstSourcePause
            (sources[index].isWithout, sources[index].hasCollected) = (false, false)
        }
    }

    /// A chunk is not what its hash says; the driver has dropped all from `offset` on.
    public mutating func tellWrongChunk(source: String, keeping offset: Int64, now: Duration) {
        guard case .running = state else { return }
        received = offset
        failedChunks += 1
        // Perhaps it is the list that is wrong.
        if failedChunks >= Limits.failedChunks {
            (chunks, failedChunks) = (nil, 0)
            for index in sources.indices { sources[index].isListless = true }
        }
        fault(source, now: now)
    }

    /// A source failed before the end.
    public mutating func fail(_ source: String, _ failure: Failure, now: Duration) {
        guard case .running = state, let index = index(of: source) else { return }
        switch failure {
        case .wrong: fault(source, now: now)
        case .unreachable: rest(index, now)
        case .missing, .collected:
            sources[index].isWithout = true
            sources[index].hasCollected = failure == .collected
            // Somebody has removed it for good, and nobody else has it.
            let present = sources.filter(\.isPresent)
            if present.allSatisfy(\.isWithout), present.contains(where: \.hasCollected) {
                return state = .over(.deleted)
            }
            rest(index, now)
        }
    }

    /// The whole was compared with the id.
    /// - Parameter source: the last one that sent bytes.
    public mutating func tellFinished(isRight: Bool, source: String?, now: Duration) {
        guard case .finishing = state else { return }
        guard !isRight else { return state = .over(.completed) }
        state = .running
        (received, chunks) = (0, nil)
        if let source { fault(source, now: now) }
    }

    /// The bytes cannot be stored; the driver tries again after a pause.
    public mutating func tellStorageFailed(keeping offset: Int64, now: Duration) {
        if case .finishing = state { state = .running }
        guard case .running = state else { return }
        received = offset
        problems.append(.storage)
        for index in sources.indices { rest(index, now) }
    }

    /// Nothing mentions the blob any more.
    public mutating func tellUnmentioned() {
        guard case .running = state else { return }
        state = .over(.deleted)
    }

    /// Ends it.
    public mutating func stop() {
        if case .over = state { return }
        state = .over(.stopped)
    }

    private mutating func fault(_ source: String, now: Duration) {
        guard let index = index(of: source) else { return }
        sources[index].faults += 1
        problems.append(.wrongBytes(source: source))
        if sources[index].faults > 1 { rest(index, now) }
    }

    private mutating func rest(_ index: Int, _ now: Duration) {
        sources[index].rests = now + sources[index].pause
        sources[index].pause = min(sources[index].pause * 2, Limits.longestSourcePause)
    }

    private func index(of name: String) -> Int? { sources.firstIndex { $0.name == name } }
}
