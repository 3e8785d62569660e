import CRDT

/// The session that has brought each operation, from before its append until it is folded: it is not sent
/// back there. Uploads are runs of one actor's sequences, so a run is noted, not each operation.
struct Origins {
    private struct Run {
        var sequences: ClosedRange<SequenceNumber>
        let session: UInt64
    }

    private var runs: [ActorID: [Run]] = [:]

    /// A session brings an actor's operations of these sequences.
    mutating func note(_ actor: ActorID, _ sequences: ClosedRange<SequenceNumber>, from session: UInt64) {
        // Repeated operations come from the session that brings them now.
        withdraw(actor, sequences)
        var known = runs[actor] ?? []
        if let last = known.last, last.session == session,
            last.sequences.upperBound.next == sequences.lowerBound
        {
            known.removeLast()
            known.append(Run(sequences: last.sequences.lowerBound...sequences.upperBound, session: session))
        } else {
            known.append(Run(sequences: sequences, session: session))
        }
        runs[actor] = known
    }

    /// These were not appended after all.
    mutating func withdraw(_ actor: ActorID, _ sequences: ClosedRange<SequenceNumber>) {
        guard let known = runs[actor], known.contains(where: { $0.sequences.overlaps(sequences) }) else {
            return
        }
        var left: [Run] = []
        for run in known {
            guard run.sequences.overlaps(sequences) else {
                left.append(run)
                continue
            }
            if run.sequences.lowerBound < sequences.lowerBound {
                let before = run.sequences.lowerBound...sequences.lowerBound.previous
                left.append(Run(sequences: before, session: run.session))
            }
            if run.sequences.upperBound > sequences.upperBound {
                let behind = sequences.upperBound.next...run.sequences.upperBound
                left.append(Run(sequences: behind, session: run.session))
            }
        }
        runs[actor] = left.isEmpty ? nil : left
    }

    /// The session that has brought an operation. It is folded now, and earlier ones of its actor are not
    /// asked for any more.
    mutating func take(_ actor: ActorID, _ sequence: SequenceNumber) -> UInt64? {
        guard let known = runs[actor],
            let place = known.firstIndex(where: { $0.sequences.contains(sequence) })
        else { return nil }
        let run = known[place]
        if run.sequences.upperBound > sequence {
            runs[actor]?[place].sequences = sequence.next...run.sequences.upperBound
        } else if known.count > 1 {
            runs[actor]?.remove(at: place)
        } else {
            runs[actor] = nil
        }
        return run.session
    }

    /// A session has ended.
    mutating func forget(_ session: UInt64) {
        runs = runs.compactMapValues { known in
            let left = known.filter { $0.session != session }
            return left.isEmpty ? nil : left
        }
    }
}
