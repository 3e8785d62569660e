import CRDT
import Exchange

extension Frame {
    /// Decodes one frame. Throws `malformedFrame`, `unknownMessage` or `frameTooLarge`; never traps on any
    /// bytes.
    public init(decoding bytes: [UInt8], limit: Int = Limits.messageBytes) throws(SyncError) {
        guard bytes.count <= limit else {
            throw SyncError(.frameTooLarge, "a frame of \(bytes.count) bytes exceeds \(limit)")
        }
        let result = bytes.withUnsafeBytes { raw -> Result<Frame, any Error> in
            Result { try Frame(reading: raw) }
        }
        switch result {
        case .success(let frame): self = frame
        case .failure(let error as SyncError): throw error
        case .failure(let error): throw SyncError(.malformedFrame, "a frame does not decode: \(error)")
        }
    }

    private init(reading bytes: UnsafeRawBufferPointer) throws {
        var decoder = CBORDecoder(bytes)
        var fields = FrameFields()
        var type: UInt64?
        for index in 0..<(try decoder.map()) {
            let key = try decoder.unsigned()
            if index == 0 {
                guard key == 0 else { throw SyncError(.malformedFrame, "a frame begins with its type") }
                type = try decoder.unsigned()
            } else {
                try fields.read(key, of: type.flatMap(FrameType.init), &decoder)
            }
        }
        guard decoder.isAtEnd else { throw SyncError(.malformedFrame, "bytes follow the frame") }
        guard let type else { throw SyncError(.malformedFrame, "a frame has no type") }
        guard let known = FrameType(rawValue: type) else {
            throw SyncError(.unknownMessage, "message type \(type) is not known here")
        }
        self = try fields.frame(known)
    }
}

/// The fields a frame can have, gathered by key before its type puts them together.
private struct FrameFields {
    var numbers: [UInt64: UInt64] = [:]
    var texts: [UInt64: String] = [:]
    var binaries: [UInt64: [UInt8]] = [:]
    var positions: [UInt64: LogPosition] = [:]
    var flag: Bool?
    var second: Bool?
    var value: Value?
    var actors: [ActorHead]?
    var hashes: [OperationHashes]?
    var kept: Frame.Kept?
    var mesh: MeshGreeting?
    var updates: [DocumentUpdate]?
    var candidates: [DocumentVersion]?
    var places: [UInt64] = []
    var gone: [DocumentVersion]?
    var uploads: [[UInt8]]?
    var acknowledgements: [Acknowledgement]?
    var keys: [DocumentKey]?
    var states: [(key: DocumentKey, state: EncodedState?)]?
    var hasPresence = false
    var takesVoid = false
    var news = PresenceNews()

    /// Reads one field, by message type and key; a key that is unknown is skipped.
    mutating func read(_ key: UInt64, of type: FrameType?, _ decoder: inout CBORDecoder) throws {
        switch (type, key) {
        case (.hello, 1), (.hello, 4), (.hello, 5), (.subscribe, 1), (.unsubscribe, 1),
            (.subscriptionRefused, 1),
            (.catchUp, 1), (.credit, 1), (.refused, 2), (.list, 1), (.held, 1), (.acknowledged, 2),
            (.chunk, 4), (.deferred, 2):
            numbers[key] = try decoder.unsigned()
        case (.hello, 2), (.hello, 3), (.subscribe, 2), (.subscriptionRefused, 2), (.subscriptionRefused, 3),
            (.refused, 3), (.refused, 4), (.close, 1), (.close, 2), (.renewal, 1):
            texts[key] = try decoder.text()
        case (.hello, 7), (.subscribe, 4), (.catchUp, 4), (.catchUp, 9), (.operations, 1), (.progress, 1),
            (.states, 2), (.reconciled, 1), (.taken, 1):
            positions[key] = try decoder.position()
        case (.refused, 1), (.chunk, 3), (.deferred, 1): numbers[key] = try decoder.fixed64()
        case (.subscribe, 5), (.subscribe, 7), (.catchUp, 7), (.catchUp, 8), (.reconciled, 2), (.hello, 13):
            binaries[key] = try decoder.token()
        case (.catchUp, 5), (.states, 4): gone = try decoder.list { try $0.candidate() }
        case (.catchUp, 6): keys = try decoder.list { try $0.listedKey() }
        case (.subscribe, 6), (.subscriptionRefused, 4), (.progress, 2), (.states, 3), (.held, 3),
            (.hello, 15):
            second = try decoder.bool()
        case (.hello, 16): hasPresence = try decoder.bool()
        case (.hello, 17): takesVoid = try decoder.bool()
        case (.hello, 6): actors = try decoder.list { try $0.actorHead() }
        case (.hello, 10): hashes = try decoder.list { try $0.operationHashes() }
        case (.hello, 11): kept = try decoder.kept()
        case (.hello, 14): mesh = try decoder.meshGreeting()
        case (.subscribe, 3): value = try decoder.value()
        case (.catchUp, 2): updates = try decoder.list { try $0.state() }
        case (.operations, 2): updates = try decoder.list { try $0.update() }
        case (.catchUp, 3), (.operations, 3): candidates = try decoder.list { try $0.candidate() }
        case (.upload, 1), (.certificate, 1): uploads = try decoder.list { try $0.binary() }
        case (.acknowledged, 1), (.hello, 9): acknowledgements = try decoder.list { try $0.acknowledgement() }
        case (.want, 1): keys = try decoder.list { try $0.listedKey() }
        case (.states, 1): states = try decoder.list { try $0.stateItem() }
        case (.chunk, 1), (.hello, 8), (.holdings, 2): flag = try decoder.bool()
        case (.holdings, 1), (.held, 2), (.want, 2): candidates = try decoder.list { try $0.candidate() }
        case (.held, 4): places = try decoder.list { try $0.unsigned() }
        case (.refused, 5), (.deferred, 3): keys = try decoder.list { try $0.listedKey() }
        case (.chunk, 2), (.list, 2), (.hello, 12): binaries[key] = try decoder.binary()
        case (.presence, 1): news.digests = try decoder.list { try $0.digest() }
        case (.presence, 2): news.records = try decoder.list { try $0.carriedRecord() }
        case (.presence, 3): news.wanted = try decoder.list { try $0.fixed64() }
        case (.presence, 4): news.certificates = try decoder.list { try $0.binary() }
        case (.presence, 5): news.wantedCertificates = try decoder.list { try $0.binary() }
        default: _ = try decoder.value()
        }
    }

    func frame(_ type: FrameType) throws -> Frame {
        switch type {
        case .hello: return .hello(try hello())
        case .subscribe:
            return .subscribe(try subscribe())
        case .unsubscribe: return .unsubscribe(id: try required(numbers[1]))
        case .subscriptionRefused:
            return .subscriptionRefused(
                id: try required(numbers[1]), try error(from: 2), hides: second ?? false)
        case .catchUp:
            return .catchUp(try catchUp())
        case .operations:
            return .operations(
                Frame.Operations(
                    position: try required(positions[1]), updates: try required(updates),
                    candidates: candidates ?? []))
        case .progress: return .progress(try required(positions[1]), skipped: second ?? false)
        case .upload: return .upload(try required(uploads))
        case .certificate:
            guard let der = try required(uploads).last, der.count <= Limits.certificateBytes else {
                throw SyncError(.malformedFrame, "no certificate, or one that is too large")
            }
            return .certificate(der)
        case .acknowledged:
            return .acknowledged(try required(acknowledgements), offset: Offset(numbers[2] ?? 0))
        case .want: return .want(try required(keys), held: candidates ?? [])
        case .states:
            return .states(
                try required(states), at: positions[2], isPart: second ?? false, gone: gone ?? [])
        case .credit: return .credit(try required(numbers[1]))
        case .chunk:
            return .chunk(
                isLast: try required(flag), try required(binaries[2]), of: try required(numbers[3]),
                at: try required(numbers[4]))
        case .refused:
            return .refused(
                Refusal(
                    actor: ActorID(try required(numbers[1])),
                    sequence: SequenceNumber(try required(numbers[2])),
                    error: try error(from: 3), documents: keys ?? []))
        case .close: return .close(try error(from: 1))
        case .holdings: return .holdings(try required(candidates), isLast: try required(flag))
        case .reconciled: return .reconciled(try required(positions[1]), declined: binaries[2])
        case .list:
            return .list(
                id: try required(numbers[1]), after: try binaries[2].map { try DocumentID(canonical: $0) })
        case .held:
            return .held(id: try required(numbers[1]), try listed(), isLast: try required(second))
        case .granted: return .granted
        case .deferred:
            return .deferred(
                Deferral(
                    actor: ActorID(try required(numbers[1])),
                    sequence: SequenceNumber(try required(numbers[2])),
                    documents: try required(keys)))
        case .renewal: return .renewal(token: try required(texts[1]))
        case .taken: return .taken(try required(positions[1]))
        case .presence: return .presence(news)
        }
    }

    private func listed() throws -> [DocumentVersion] {
        var listed = try required(candidates)
        for place in places {
            guard place < listed.count else {
                throw SyncError(.malformedFrame, "a list of what is held names a place that it has not")
            }
            listed[Int(place)].isUnmatched = true
        }
        return listed
    }

    private func subscribe() throws -> Frame.Subscribe {
        var frame = Frame.Subscribe(
            id: try required(numbers[1]), statement: try required(texts[2]), arguments: try required(value),
            cursor: positions[4])
        frame.resume = binaries[5]
        frame.holds = second ?? false
        frame.rights = binaries[7]
        return frame
    }

    private func catchUp() throws -> Frame.CatchUp {
        var page = Frame.CatchUp(
            id: try required(numbers[1]), documents: try required(updates),
            candidates: try required(candidates), end: positions[4])
        page.gone = gone ?? []
        page.hidden = keys ?? []
        page.resume = binaries[7]
        page.rights = binaries[8]
        page.asOf = positions[9]
        return page
    }

    private func hello() throws -> Frame.Hello {
        var hello = Frame.Hello(
            version: try required(numbers[1]), databaseID: DatabaseID(try required(texts[2])),
            peerKey: texts[3] ?? "",
            wallMilliseconds: try required(numbers[4]), credit: try required(numbers[5]),
            actors: actors ?? [],
            head: positions[7], isBehind: flag ?? false, acknowledged: acknowledgements ?? [],
            hashes: hashes ?? [])
        hello.kept = kept
        hello.proof = binaries[12]
        hello.declined = binaries[13]
        hello.mesh = mesh
        hello.hasLinks = second ?? false
        hello.hasPresence = hasPresence
        hello.takesVoid = takesVoid
        return hello
    }

    private func error(from key: UInt64) throws -> SyncError {
        SyncError(code: try required(texts[key]), message: try required(texts[key + 1]))
    }

    private func required<Field>(_ field: Field?) throws -> Field {
        guard let field else { throw SyncError(.malformedFrame, "a frame lacks a field") }
        return field
    }
}

extension CBORDecoder {
    fileprivate mutating func list<Item>(_ body: (inout CBORDecoder) throws -> Item) throws -> [Item] {
        var items: [Item] = []
        let count = try array()
        // The announced items are not there yet: no more room than the commonest frames need.
        items.reserveCapacity(min(count, 1_024))
        for _ in 0..<count { items.append(try body(&self)) }
        return items
    }

    fileprivate mutating func tuple(_ count: Int) throws {
        guard try array() == count else { throw SyncError(.malformedFrame, "an array has the wrong length") }
    }

    fileprivate mutating func fixed64() throws -> UInt64 {
        let bytes = try binary()
        guard bytes.count == 8 else {
            throw SyncError(.malformedFrame, "a 64-bit field has \(bytes.count) bytes")
        }
        return bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }

    fileprivate mutating func operationHashes() throws -> OperationHashes {
        try tuple(3)
        let actor = ActorID(try fixed64())
        let first = try unsigned()
        let bytes = try binary()
        let (_, overflows) = first.addingReportingOverflow(UInt64(bytes.count / 8))
        guard first > 0, bytes.count % 8 == 0, !overflows else {
            throw SyncError(.malformedFrame, "checksums of operations are eight bytes each, from 1")
        }
        let hashes = stride(from: 0, to: bytes.count, by: 8).map { place in
            bytes[place..<place + 8].reduce(0) { $0 << 8 | UInt64($1) }
        }
        return OperationHashes(actor: actor, first: SequenceNumber(first), hashes: hashes)
    }

    fileprivate mutating func kept() throws -> Frame.Kept {
        try tuple(2)
        return Frame.Kept(hash: try fixed64(), count: try unsigned())
    }

    fileprivate mutating func meshGreeting() throws -> MeshGreeting {
        var greeting: MeshGreeting?
        for _ in 0..<(try map()) {
            let key = try unsigned()
            if key == 0 {
                guard let feed = LogID(bytes: try binary()) else {
                    throw SyncError(.malformedFrame, "a feed id has the wrong length")
                }
                greeting = MeshGreeting(feed: feed)
                continue
            }
            switch key {
            case 1:
                try tuple(2)
                let starts = try unsigned()
                greeting?.starts = starts
                let start = try fixed64()
                greeting?.start = start
            case 2:
                let group = try unsigned()
                greeting?.syncGroup = group
            case 3:
                let record = try record()
                greeting?.record = record
            case 5:
                let isTrusted = try bool()
                greeting?.isClockTrusted = isTrusted
            case 6:
                let hasServer = try bool()
                greeting?.hasServer = hasServer
            case 7:
                let takes = try bool()
                greeting?.takesCertificates = takes
            case 8:
                let takes = try bool()
                greeting?.takesVoid = takes
            default: _ = try value()
            }
        }
        guard let greeting else { throw SyncError(.malformedFrame, "a small peer's greeting has no feed") }
        return greeting
    }

    private mutating func record() throws -> SignedRecord {
        try tuple(2)
        return SignedRecord(content: try binary(), signature: try binary())
    }

    fileprivate mutating func carriedRecord() throws -> PresenceNews.Carried {
        try tuple(2)
        return PresenceNews.Carried(record: try record(), ageMilliseconds: try unsigned())
    }

    fileprivate mutating func digest() throws -> PresenceNews.Digest {
        try tuple(3)
        let peer = try fixed64()
        try tuple(2)
        let (starts, start) = (try unsigned(), try fixed64())
        return PresenceNews.Digest(
            peer: peer, rank: PresenceRank(starts: starts, start: start, version: try unsigned()))
    }

    /// A token that one side keeps for the other without looking into it.
    fileprivate mutating func token() throws -> [UInt8] {
        let bytes = try binary()
        guard bytes.count <= Limits.tokenBytes else {
            throw SyncError(.malformedFrame, "a token has \(bytes.count) bytes")
        }
        return bytes
    }

    fileprivate mutating func position() throws -> LogPosition {
        try tuple(3)
        guard let logID = LogID(bytes: try binary()) else {
            throw SyncError(.malformedFrame, "a log id has the wrong length")
        }
        return LogPosition(logID: logID, offset: Offset(try unsigned()), hash: try fixed64())
    }

    fileprivate mutating func key() throws -> DocumentKey {
        let collection = try text()
        guard !collection.isEmpty, collection.utf8.count <= CRDT.Limits.collectionNameBytes else {
            throw SyncError(.malformedFrame, "a collection name is empty or too long")
        }
        return DocumentKey(
            collection: CollectionName(collection), id: try DocumentID(canonical: try binary()))
    }

    fileprivate mutating func listedKey() throws -> DocumentKey {
        try tuple(2)
        return try key()
    }

    fileprivate mutating func stateItem() throws -> (key: DocumentKey, state: EncodedState?) {
        try tuple(3)
        let key = try key()
        switch try value() {
        case .null: return (key, nil)
        case .binary(let state): return (key, EncodedState(state))
        default: throw SyncError(.malformedFrame, "a state is neither bytes nor null")
        }
    }

    fileprivate mutating func update() throws -> DocumentUpdate {
        let count = try array()
        guard (3...5).contains(count) else {
            throw SyncError(.malformedFrame, "an update has the wrong length")
        }
        let key = try key()
        let bytes = try binary()
        if count == 3 { return DocumentUpdate(key: key, content: .state(EncodedState(bytes))) }
        if count == 4 {
            guard case .null = try value() else {
                throw SyncError(.malformedFrame, "an update is neither state, delta nor gone")
            }
            return DocumentUpdate(key: key, content: .gone(bytes))
        }
        let actor = ActorID(try fixed64())
        let stamp = Stamp(time: try fixed64(), actor: actor)
        return DocumentUpdate(key: key, content: .delta(stamp, EncodedDelta(bytes)))
    }

    fileprivate mutating func state() throws -> DocumentUpdate {
        let update = try update()
        guard case .state = update.content else {
            throw SyncError(.malformedFrame, "a catch-up page holds full states only")
        }
        return update
    }

    fileprivate mutating func candidate() throws -> DocumentVersion {
        let count = try array()
        guard (3...5).contains(count) else {
            throw SyncError(.malformedFrame, "a candidate has the wrong length")
        }
        var candidate = DocumentVersion(key: try key(), vector: try binary())
        // Versions before 4 told there what was gone of the document: the server says so now.
        if count > 3 {
            switch try value() {
            case .null, .binary: break
            default: throw SyncError(.malformedFrame, "a candidate's fourth member is neither bytes nor null")
            }
        }
        if count == 5 { candidate.void = try binary() }
        return candidate
    }

    fileprivate mutating func actorHead() throws -> ActorHead {
        try tuple(3)
        return ActorHead(
            actor: ActorID(try fixed64()), sequence: SequenceNumber(try unsigned()), hash: try fixed64())
    }

    fileprivate mutating func acknowledgement() throws -> Acknowledgement {
        try tuple(2)
        return Acknowledgement(
            actor: ActorID(try fixed64()), sequence: SequenceNumber(try unsigned()))
    }
}
