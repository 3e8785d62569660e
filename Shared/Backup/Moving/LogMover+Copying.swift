import CRDT
import OperationLog

extension LogMover {
    /// Copies what its draft lacks, up to the head that the log has now.
    /// - Returns: the number of operations.
    func copy(_ traveller: inout Traveller) async throws -> UInt64 {
        for _ in 1...Limits.copyAttempts {
            do {
                return try await attempt(&traveller)
            } catch let error as OperationLogError
                where [.truncated, .noSnapshot].contains(error.code)
            {
                try await retire(&traveller)
            }
        }
        throw BackupError(
            .overtaken,
            "the log of database \(traveller.database) was truncated \(Limits.copyAttempts) times while it "
                + "was copied; raise --kept-operations")
    }

    private func attempt(_ traveller: inout Traveller) async throws -> UInt64 {
        let database = traveller.database
        let end = try await source.head(of: database).offset
        var writer = DraftWriter(log: target, draft: try await draft(of: &traveller))
        let start = try await target.head(of: writer.draft).offset
        var offset = start
        while offset < end {
            let entries = try await source.read(database, after: offset)
            let actors = Set(entries.map(\.actor)).subtracting(writer.keys.keys)
            for (actor, known) in try await frontiers(of: Array(actors), in: database) {
                writer.keys[actor] = known.authorKey
            }
            for entry in entries { try await writer.append(entry.record, at: entry.offset) }
            try await writer.flush()
            offset = entries.last?.offset ?? end
            progress.tell("copying \(database)", offset.rawValue, of: end.rawValue)
            try Task.checkCancellation()
        }
        // The chain says that each operation is the same.
        let copy = try await target.head(of: writer.draft)
        guard try await source.position(at: copy.offset, in: database) == copy else {
            throw BackupError(.restoreFailed, "the copy of database \(database) is not the log's")
        }
        return offset.rawValue - start.rawValue
    }

    /// The draft of an earlier round or attempt, if the log goes on where it ends; else a new one.
    /// - Throws: `LOG-0314` if this move had one that is gone.
    private func draft(of traveller: inout Traveller) async throws -> DatabaseID {
        let (database, name) = (traveller.database, traveller.name)
        let number = try await target.number(of: name)
        guard traveller.draft == nil || traveller.draft == number else { throw traveller.contended }
        if let number {
            let end = try await target.head(of: name)
            let cut = try await target.truncation(of: name)
            let base = cut.offset == 0 ? cut : try await target.snapshot(of: name)?.position
            if base == cut, try await source.position(at: end.offset, in: database) == end {
                traveller.draft = number
                return name
            }
            try await retire(&traveller, of: end.logID)
        }
        if try await source.truncation(of: database).offset > 0 {
            guard let snapshot = try await source.snapshot(of: database) else {
                throw OperationLogError.noSnapshot(database, 0)
            }
            _ = try await begin(database, with: snapshot)
        } else {
            let logID = try await source.head(of: database).logID
            _ = try await target.beginRestore(of: database, after: 0, hash: 0, as: logID)
        }
        traveller.draft = try await target.number(of: name)
        return name
    }

    /// Takes the name of a draft away that is of no use any more. One that a closed log names, or may name,
    /// is kept as the proof that it was not shown.
    private func retire(_ traveller: inout Traveller, of other: LogID? = nil) async throws {
        let name = traveller.name
        guard let number = try await target.number(of: name) else {
            guard traveller.draft == nil else { throw traveller.contended }
            return
        }
        guard traveller.draft == nil || traveller.draft == number else { throw traveller.contended }
        let own = try await source.head(of: traveller.database).logID
        let identity = other ?? own
        let isNamed = traveller.closing?.number == number || identity != own
        let grave = isNamed ? RestoreDraft.retired(traveller.database, identity, number) : nil
        try await target.rename([Renaming(name, number: number, to: grave)])
        traveller.draft = nil
    }

    /// Makes a draft that begins with the log's snapshot.
    private func begin(_ database: DatabaseID, with snapshot: LogSnapshot) async throws -> DatabaseID {
        let place = snapshot.position
        let draft = try await target.beginRestore(
            of: database, after: place.offset, hash: place.hash, as: place.logID)
        let copy = try await target.beginSnapshot(of: draft, at: place)
        var actors = SnapshotActors()
        var known: [ActorID: FrontierEntry] = [:]
        try await source.readSnapshot(snapshot, of: database) { chunk in
            try actors.take(chunk)
            var named: [ActorID] = []
            for case .actor(let actor) in try SnapshotChunk.records(in: chunk) { named.append(actor.actor) }
            known.merge(try await frontiers(of: named, in: database)) { $1 }
            try await target.add(chunk, to: copy, in: draft)
            progress.tell("copying \(database)", 0, of: place.offset.rawValue)
        }
        actors.keys = known.mapValues(\.authorKey)
        // The log knows the checksum of an operation that was its actor's last one.
        let ends = try actors.frontiers().map { actor, frontier in
            (actor, known[actor].flatMap { $0.sequence == frontier.sequence ? $0 : nil } ?? frontier)
        }
        try await DraftWriter(log: target, draft: draft)
            .register(Dictionary(uniqueKeysWithValues: ends))
        _ = try await target.finish(copy, in: draft)
        return draft
    }

    private func frontiers(
        of actors: [ActorID], in database: DatabaseID
    ) async throws -> [ActorID: FrontierEntry] {
        var found: [ActorID: FrontierEntry] = [:]
        for start in stride(from: 0, to: actors.count, by: Limits.actorsAtOnce) {
            let some = Array(actors[start..<min(start + Limits.actorsAtOnce, actors.count)])
            found.merge(try await source.frontier(of: some, in: database)) { $1 }
        }
        return found
    }
}
