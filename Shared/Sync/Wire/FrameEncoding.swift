import CRDT
import Exchange

/// The number of each message type, key 0 of every frame.
enum FrameType: UInt64, CaseIterable {
    case hello = 1
    case subscribe = 2
    case unsubscribe = 3
    case subscriptionRefused = 4
    case catchUp = 5
    case operations = 6
    case progress = 7
    case upload = 8
    case acknowledged = 9
    case want = 10
    case states = 11
    case credit = 12
    case chunk = 13
    case refused = 14
    case close = 15
    case holdings = 16
    case reconciled = 17
    case list = 18
    case held = 19
    case granted = 20
    case renewal = 21
    case deferred = 32
    case certificate = 28
    case taken = 29
    case presence = 31
}

extension Frame {
    /// The frame's bytes: deterministic CBOR, keys ascending.
    public func encoded() -> [UInt8] {
        var writer = CBORWriter()
        writer.reserve(sizeHint)
        switch self {
        case .hello(let hello): writer.hello(hello)
        case .subscribe(let subscribe): writer.subscribe(subscribe)
        case .unsubscribe(let id):
            writer.begin(.unsubscribe, fields: 1)
            writer.field(1) { $0.unsigned(id) }
        case .subscriptionRefused(let id, let error, let hides):
            writer.begin(.subscriptionRefused, fields: hides ? 4 : 3)
            writer.field(1) { $0.unsigned(id) }
            writer.error(error, from: 2)
            if hides { writer.field(4) { $0.bool(true) } }
        case .catchUp(let page): writer.catchUp(page)
        case .operations(let operations):
            writer.begin(.operations, fields: operations.candidates.isEmpty ? 2 : 3)
            writer.field(1) { $0.position(operations.position) }
            writer.field(2) { $0.list(operations.updates) { $0.update($1) } }
            writer.candidates(operations.candidates, at: 3)
        case .progress(let position, let skipped):
            writer.begin(.progress, fields: skipped ? 2 : 1)
            writer.field(1) { $0.position(position) }
            if skipped { writer.field(2) { $0.bool(true) } }
        case .upload(let operations):
            writer.begin(.upload, fields: 1)
            writer.field(1) { $0.list(operations) { $0.binary($1) } }
        case .acknowledged(let acknowledgements, let offset):
            writer.begin(.acknowledged, fields: offset > 0 ? 2 : 1)
            writer.acknowledgements(acknowledgements, at: 1)
            if offset > 0 { writer.field(2) { $0.unsigned(offset.rawValue) } }
        default: encodeRest(&writer)
        }
        return writer.bytes
    }

    /// About how many bytes a frame of documents or operations takes; what is less is no matter.
    private var sizeHint: Int {
        switch self {
        case .catchUp(let page): page.documents.reduce(256) { $0 + $1.size + 24 }
        case .operations(let operations): operations.updates.reduce(256) { $0 + $1.size + 24 }
        case .upload(let operations): operations.reduce(64) { $0 + $1.count + 8 }
        default: 0
        }
    }

    private func encodeRest(_ writer: inout CBORWriter) {
        switch self {
        case .want(let keys, let held):
            writer.begin(.want, fields: held.isEmpty ? 1 : 2)
            writer.keys(keys, at: 1)
            writer.candidates(held, at: 2)
        case .states(let states, let position, let isPart, let gone):
            let optional = [position != nil, isPart, !gone.isEmpty]
            writer.begin(.states, fields: 1 + optional.count { $0 })
            writer.field(1) {
                $0.list(states) { writer, item in
                    writer.array(count: 3)
                    writer.key(item.key)
                    if let state = item.state { writer.binary(state.bytes) } else { writer.null() }
                }
            }
            if let position { writer.field(2) { $0.position(position) } }
            if isPart { writer.field(3) { $0.bool(true) } }
            writer.candidates(gone, at: 4)
        case .credit(let bytes):
            writer.begin(.credit, fields: 1)
            writer.field(1) { $0.unsigned(bytes) }
        case .chunk(let isLast, let bytes, let hash, let place):
            writer.begin(.chunk, fields: 4)
            writer.field(1) { $0.bool(isLast) }
            writer.field(2) { $0.binary(bytes) }
            writer.field(3) { $0.fixed64(hash) }
            writer.field(4) { $0.unsigned(place) }
        case .refused(let refusal):
            writer.begin(.refused, fields: refusal.documents.isEmpty ? 4 : 5)
            writer.field(1) { $0.fixed64(refusal.actor.rawValue) }
            writer.field(2) { $0.unsigned(refusal.sequence.rawValue) }
            writer.error(refusal.error, from: 3)
            if !refusal.documents.isEmpty { writer.keys(refusal.documents, at: 5) }
        case .close(let error):
            writer.begin(.close, fields: 2)
            writer.error(error, from: 1)
        case .holdings(let candidates, let isLast):
            writer.begin(.holdings, fields: 2)
            writer.field(1) { $0.list(candidates) { $0.candidate($1) } }
            writer.field(2) { $0.bool(isLast) }
        case .reconciled(let position, let declined):
            writer.begin(.reconciled, fields: declined == nil ? 1 : 2)
            writer.field(1) { $0.position(position) }
            if let declined { writer.field(2) { $0.binary(declined) } }
        case .list(let id, let last):
            writer.begin(.list, fields: last == nil ? 1 : 2)
            writer.field(1) { $0.unsigned(id) }
            if let last { writer.field(2) { $0.binary(last.bytes) } }
        case .held(let id, let candidates, let isLast):
            let unmatched = candidates.indices.filter { candidates[$0].isUnmatched }
            writer.begin(.held, fields: unmatched.isEmpty ? 3 : 4)
            writer.field(1) { $0.unsigned(id) }
            writer.field(2) { $0.list(candidates) { $0.candidate($1) } }
            writer.field(3) { $0.bool(isLast) }
            if !unmatched.isEmpty { writer.field(4) { $0.list(unmatched) { $0.unsigned(UInt64($1)) } } }
        case .granted: writer.begin(.granted, fields: 0)
        case .renewal(let token):
            writer.begin(.renewal, fields: 1)
            writer.field(1) { $0.text(token) }
        default: encodeLate(&writer)
        }
    }

    /// The frames that came last: types from 22 on.
    private func encodeLate(_ writer: inout CBORWriter) {
        switch self {
        case .deferred(let deferral):
            writer.begin(.deferred, fields: 3)
            writer.field(1) { $0.fixed64(deferral.actor.rawValue) }
            writer.field(2) { $0.unsigned(deferral.sequence.rawValue) }
            writer.keys(deferral.documents, at: 3)
        case .taken(let position):
            writer.begin(.taken, fields: 1)
            writer.field(1) { $0.position(position) }
        case .presence(let news): writer.presence(news)
        case .certificate(let der):
            writer.begin(.certificate, fields: 1)
            writer.field(1) { $0.list([der]) { $0.binary($1) } }
        default: preconditionFailure("every other frame is encoded above")
        }
    }
}

extension CBORWriter {
    fileprivate mutating func begin(_ type: FrameType, fields: Int) {
        map(count: fields + 1)
        field(0) { $0.unsigned(type.rawValue) }
    }

    fileprivate mutating func field(_ key: UInt64, _ body: (inout CBORWriter) -> Void) {
        unsigned(key)
        body(&self)
    }

    fileprivate mutating func list<Item>(_ items: [Item], _ body: (inout CBORWriter, Item) -> Void) {
        array(count: items.count)
        for item in items { body(&self, item) }
    }

    fileprivate mutating func error(_ error: SyncError, from key: UInt64) {
        field(key) { $0.text(error.code) }
        field(key + 1) { $0.text(error.message) }
    }

    fileprivate mutating func fixed64(_ number: UInt64) {
        withUnsafeBytes(of: number.bigEndian) { binary($0) }
    }

    fileprivate mutating func position(_ position: LogPosition) {
        array(count: 3)
        binary(position.logID.bytes)
        unsigned(position.offset.rawValue)
        fixed64(position.hash)
    }

    fileprivate mutating func key(_ key: DocumentKey) {
        text(key.collection.text)
        binary(key.id.bytes)
    }

    /// A field that is left out where there is nothing to name.
    fileprivate mutating func candidates(_ candidates: [DocumentVersion], at number: UInt64) {
        if !candidates.isEmpty { field(number) { $0.list(candidates) { $0.candidate($1) } } }
    }

    fileprivate mutating func keys(_ keys: [DocumentKey], at number: UInt64) {
        field(number) {
            $0.list(keys) { writer, key in
                writer.array(count: 2)
                writer.key(key)
            }
        }
    }

    fileprivate mutating func acknowledgements(_ items: [Acknowledgement], at number: UInt64) {
        field(number) {
            $0.list(items) { writer, item in
                writer.array(count: 2)
                writer.fixed64(item.actor.rawValue)
                writer.unsigned(item.sequence.rawValue)
            }
        }
    }

    fileprivate mutating func candidate(_ candidate: DocumentVersion) {
        array(count: candidate.void == nil ? 3 : 5)
        key(candidate.key)
        binary(candidate.vector)
        if let void = candidate.void {
            null()
            binary(void)
        }
    }

    fileprivate mutating func update(_ update: DocumentUpdate) {
        switch update.content {
        case .state(let state):
            array(count: 3)
            key(update.key)
            binary(state.bytes)
        case .delta(let stamp, let delta):
            array(count: 5)
            key(update.key)
            binary(delta.bytes)
            fixed64(stamp.actor.rawValue)
            fixed64(stamp.time)
        // Void is told in answers only.
        case .gone(let bytes), .void(let bytes):
            array(count: 4)
            key(update.key)
            binary(bytes)
            null()
        }
    }

    fileprivate mutating func hello(_ hello: Frame.Hello) {
        let optional = [
            hello.head != nil, hello.isBehind, !hello.acknowledged.isEmpty, !hello.hashes.isEmpty,
            hello.kept != nil, hello.proof != nil, hello.declined != nil, hello.mesh != nil, hello.hasLinks,
            hello.hasPresence, hello.takesVoid,
        ]
        begin(.hello, fields: 6 + optional.count { $0 })
        field(1) { $0.unsigned(hello.version) }
        field(2) { $0.text(hello.databaseID.text) }
        field(3) { $0.text(hello.peerKey) }
        field(4) { $0.unsigned(hello.wallMilliseconds) }
        field(5) { $0.unsigned(hello.credit) }
        field(6) {
            $0.list(hello.actors) { writer, head in
                writer.array(count: 3)
                writer.fixed64(head.actor.rawValue)
                writer.unsigned(head.sequence.rawValue)
                writer.fixed64(head.hash)
            }
        }
        if let head = hello.head { field(7) { $0.position(head) } }
        if hello.isBehind { field(8) { $0.bool(true) } }
        if !hello.acknowledged.isEmpty { acknowledgements(hello.acknowledged, at: 9) }
        if !hello.hashes.isEmpty { hashes(hello.hashes) }
        if let kept = hello.kept {
            field(11) {
                $0.array(count: 2)
                $0.fixed64(kept.hash)
                $0.unsigned(kept.count)
            }
        }
        if let proof = hello.proof { field(12) { $0.binary(proof) } }
        if let declined = hello.declined { field(13) { $0.binary(declined) } }
        if let mesh = hello.mesh { field(14) { $0.greeting(mesh) } }
        if hello.hasLinks { field(15) { $0.bool(true) } }
        if hello.hasPresence { field(16) { $0.bool(true) } }
        if hello.takesVoid { field(17) { $0.bool(true) } }
    }

    private mutating func greeting(_ greeting: MeshGreeting) {
        map(
            count: 3
                + [
                    greeting.record != nil, greeting.isClockTrusted, greeting.hasServer,
                    greeting.takesCertificates, greeting.takesVoid,
                ].count { $0 })
        field(0) { $0.binary(greeting.feed.bytes) }
        field(1) {
            $0.array(count: 2)
            $0.unsigned(greeting.starts)
            $0.fixed64(greeting.start)
        }
        field(2) { $0.unsigned(greeting.syncGroup) }
        if let record = greeting.record { field(3) { $0.record(record) } }
        if greeting.isClockTrusted { field(5) { $0.bool(true) } }
        if greeting.hasServer { field(6) { $0.bool(true) } }
        if greeting.takesCertificates { field(7) { $0.bool(true) } }
        if greeting.takesVoid { field(8) { $0.bool(true) } }
    }

    private mutating func record(_ record: SignedRecord) {
        array(count: 2)
        binary(record.content)
        binary(record.signature)
    }

    fileprivate mutating func presence(_ news: PresenceNews) {
        let parts = [
            !news.digests.isEmpty, !news.records.isEmpty, !news.wanted.isEmpty, !news.certificates.isEmpty,
            !news.wantedCertificates.isEmpty,
        ]
        begin(.presence, fields: parts.count { $0 })
        if parts[0] {
            field(1) {
                $0.list(news.digests) { writer, digest in
                    writer.array(count: 3)
                    writer.fixed64(digest.peer)
                    writer.array(count: 2)
                    writer.unsigned(digest.rank.starts)
                    writer.fixed64(digest.rank.start)
                    writer.unsigned(digest.rank.version)
                }
            }
        }
        if parts[1] {
            field(2) {
                $0.list(news.records) { writer, carried in
                    writer.array(count: 2)
                    writer.record(carried.record)
                    writer.unsigned(carried.ageMilliseconds)
                }
            }
        }
        if parts[2] { field(3) { $0.list(news.wanted) { $0.fixed64($1) } } }
        if parts[3] { field(4) { $0.list(news.certificates) { $0.binary($1) } } }
        if parts[4] { field(5) { $0.list(news.wantedCertificates) { $0.binary($1) } } }
    }

    private mutating func hashes(_ hashes: [OperationHashes]) {
        field(10) {
            $0.list(hashes) { writer, part in
                writer.array(count: 3)
                writer.fixed64(part.actor.rawValue)
                writer.unsigned(part.first.rawValue)
                var bytes: [UInt8] = []
                for hash in part.hashes {
                    withUnsafeBytes(of: hash.bigEndian) { bytes.append(contentsOf: $0) }
                }
                writer.binary(bytes)
            }
        }
    }

    fileprivate mutating func subscribe(_ subscribe: Frame.Subscribe) {
        let optional = [
            subscribe.cursor != nil, subscribe.resume != nil, subscribe.holds, subscribe.rights != nil,
        ]
        begin(.subscribe, fields: 3 + optional.count { $0 })
        field(1) { $0.unsigned(subscribe.id) }
        field(2) { $0.text(subscribe.statement) }
        field(3) { $0.value(subscribe.arguments) }
        if let cursor = subscribe.cursor { field(4) { $0.position(cursor) } }
        if let resume = subscribe.resume { field(5) { $0.binary(resume) } }
        if subscribe.holds { field(6) { $0.bool(true) } }
        if let rights = subscribe.rights { field(7) { $0.binary(rights) } }
    }

    fileprivate mutating func catchUp(_ page: Frame.CatchUp) {
        let optional = [
            page.end != nil, !page.gone.isEmpty, !page.hidden.isEmpty, page.resume != nil,
            page.rights != nil, page.asOf != nil,
        ]
        begin(.catchUp, fields: 3 + optional.count { $0 })
        field(1) { $0.unsigned(page.id) }
        field(2) { $0.list(page.documents) { $0.update($1) } }
        field(3) {
            $0.list(page.candidates) { $0.candidate($1) }
        }
        if let end = page.end { field(4) { $0.position(end) } }
        if !page.gone.isEmpty {
            field(5) {
                $0.list(page.gone) { $0.candidate($1) }
            }
        }
        if !page.hidden.isEmpty { keys(page.hidden, at: 6) }
        if let resume = page.resume { field(7) { $0.binary(resume) } }
        if let rights = page.rights { field(8) { $0.binary(rights) } }
        if let position = page.asOf { field(9) { $0.position(position) } }
    }
}
