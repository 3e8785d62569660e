import CRDT
import Exchange

/// The token that a subscriber keeps for a server: how far its staged pages go.
enum ResumeToken {
    /// Everything that last changed up to a position, under these rights.
    case pages(LogPosition, namesAfter: Offset, rights: [UInt8])
    /// Holdings up to an id were compared; changes follow from a position on.
    case listing(LogPosition, after: DocumentID, rights: [UInt8])

    func encoded() -> [UInt8] {
        func values(_ position: LogPosition) -> [Value] {
            [
                .binary(position.logID.bytes), .int(Int64(bitPattern: position.offset.rawValue)),
                .int(Int64(bitPattern: position.hash)),
            ]
        }
        switch self {
        case .pages(let position, let namesAfter, let rights):
            let parts = values(position) + [.int(Int64(bitPattern: namesAfter.rawValue)), .binary(rights)]
            return CBOR.encode(.array(parts))
        case .listing(let position, let last, let rights):
            return CBOR.encode(.array(values(position) + [.binary(last.bytes), .binary(rights)]))
        }
    }

    /// Nil for anything that this version has not written.
    init?(decoding bytes: [UInt8]) {
        guard case .array(let parts)? = try? CBOR.decode(bytes), parts.count == 5,
            case .binary(let log) = parts[0], let logID = LogID(bytes: log), case .int(let offset) = parts[1],
            case .int(let hash) = parts[2], case .binary(let rights) = parts[4]
        else { return nil }
        let position = LogPosition(
            logID: logID, offset: Offset(UInt64(bitPattern: offset)), hash: UInt64(bitPattern: hash))
        switch parts[3] {
        case .int(let names):
            self = .pages(position, namesAfter: Offset(UInt64(bitPattern: names)), rights: rights)
        case .binary(let last):
            guard let id = try? DocumentID(canonical: last) else { return nil }
            self = .listing(position, after: id, rights: rights)
        default: return nil
        }
    }
}
