import Testing

@testable import CRDT

/// Two peers that hold one document, for tables of what comes out when both write.
///
/// Times are logical: the greater one was written later.
struct Peers {
    var anna = Peer(1)
    var ben = Peer(2)

    /// Peers that both hold what Anna wrote first.
    static func sharing(_ body: (inout DocumentEditor) throws -> Void) throws -> Peers {
        var peers = Peers()
        try peers.anna.write(at: 1, body)
        peers.ben.document = peers.anna.document
        return peers
    }

    /// Exchanges both states and says what both read; they must agree to the byte.
    mutating func meet(sourceLocation: SourceLocation = #_sourceLocation) -> Value {
        let before = anna.document
        anna.document.merge(ben.document)
        ben.document.merge(before)
        #expect(anna.document.encoded() == ben.document.encoded(), sourceLocation: sourceLocation)
        return anna.value
    }
}

struct Peer {
    private let actor: ActorID
    var document = Document()

    init(_ number: UInt64) { actor = ActorID(number) }

    /// The value that a reader without declared types sees.
    var value: Value { .object(document.value) }

    /// One transaction at this time.
    mutating func write(at time: Timestamp, _ body: (inout DocumentEditor) throws -> Void) rethrows {
        var editor = DocumentEditor(document: document, stamp: Stamp(time: time, actor: actor))
        try body(&editor)
        document = editor.document
    }

    /// Eviction leaves nothing.
    mutating func evict() { document = Document() }
}

/// The writer whose clock is later, of two concurrent writes.
enum Later: CaseIterable {
    case anna, ben

    var times: (anna: Timestamp, ben: Timestamp) { self == .anna ? (20, 10) : (10, 20) }
}

extension TypeDeclaration {
    static let register = TypeDeclaration(kind: .register)
    static let attachment = TypeDeclaration(kind: .attachment)
    static let counter = TypeDeclaration(kind: .counter)
}

extension DocumentEditor {
    /// INSERT INTO … INITIAL DOCUMENTS.
    mutating func insertInitial(_ value: Value) throws {
        _ = try seed(try #require(value.objectValue))
    }
}
