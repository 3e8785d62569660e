import CRDT
import DQL
import Identity
import Sync

/// What one device may, beside what everybody may: changes while its sessions run.
struct Rights: Equatable, CustomStringConvertible {
    /// What may be read of `Collections.guarded`.
    enum Reading: UInt64, CaseIterable {
        case nothing, all, even, odd
    }

    var reading = Reading.all
    /// Whether `Collections.kept` may be written.
    var mayWrite = true

    func mayRead(_ key: DocumentKey) -> Bool {
        guard key.collection == Collections.guarded else { return Collections.mayRead(key) }
        let isOdd = (key.id.bytes.last ?? 0) % 2 == 1
        switch reading {
        case .nothing: return false
        case .all: return true
        case .even: return !isOdd
        case .odd: return isOdd
        }
    }

    func mayRead(collection name: CollectionName) -> Bool {
        name == Collections.guarded
            ? reading != .nothing : Collections.grant.allowsReading(collection: name)
    }

    /// As the session takes it: a predicate, and a number that stands for it.
    var access: ReadAccess {
        ReadAccess(
            collection: { mayRead(collection: CollectionName($0.text)) }, document: { mayRead($0) },
            mark: { $0 == Collections.guarded ? reading.rawValue : 1 })
    }

    /// As the token says it. (A token speaks of whole collections; which documents of one may be read is the
    /// predicate's.)
    var grant: Grant {
        var grant = Collections.grant
        if reading == .nothing {
            grant.read.queriesByCollection[CollectionName(Collections.guarded.text)] = nil
        }
        if !mayWrite { grant.write.queriesByCollection[CollectionName(Collections.kept.text)] = nil }
        return grant
    }

    var description: String { "reads \(reading) of \(Collections.guarded), writes \(mayWrite)" }
}
