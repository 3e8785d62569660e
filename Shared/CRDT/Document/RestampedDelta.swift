extension Delta {
    /// The same edit under another actor's stamp. A store that has to close its actor moves its unseen
    /// writes to the new actor this way (rules 9, 20, 21).
    ///
    /// `document` is the state as the others have it, with this store's earlier writes already moved.
    /// `admitted` is the greatest time of the closing actor that the others took; nil when they took none.
    /// Observations of the closing actor beyond that become observations of the new one. Precondition: the
    /// stamp exceeds the base.
    public func restamped(_ new: Stamp, on document: Document, admitted: Timestamp?) -> Delta {
        var entries = base.entries.compactMap { entry -> VersionVector.Entry? in
            guard entry.actor == stamp.actor else { return entry }
            return admitted.map { VersionVector.Entry(actor: entry.actor, time: min(entry.time, $0)) }
        }
        if let moved = document.vector[new.actor] {
            entries.append(VersionVector.Entry(actor: new.actor, time: moved))
        }
        return restamped(new, on: document, base: VersionVector(entries))
    }

    /// As `restamped(_:on:admitted:)`, but on a base from the caller, for several actors of one store that
    /// close at once. In that base each closing actor is lowered to the time that the others took, and the
    /// new actor's last stamp is added. Observations beyond that base become observations of `document` as
    /// far as the base goes.
    public func restamped(_ new: Stamp, on document: Document, base given: VersionVector) -> Delta {
        let edit = Moving(new: new.actor, base: given).edit(root, document.root)
        var needed = given
        if let seedStamp { needed.insert(seedStamp) }
        // A delta that only seeds needs no base.
        if seed != nil, edit.isEmpty { needed = VersionVector() }
        precondition(
            needed.greatestTime.map { $0 < new.time } ?? true,
            "a stamp must exceed everything its author has seen")
        return Delta(stamp: new, base: needed, root: edit, seed: seed)
    }
}

/// Rewrites the counter baselines in an edit's removals: the closing actors' increments that nobody took now
/// belong to the new actor.
private struct Moving {
    let new: ActorID
    let base: VersionVector

    func edit(_ edit: MapEdit, _ node: MapNode?) -> MapEdit {
        var result = edit
        for index in result.fields.indices
        where !result.fields[index].slot.isPlain || result.fields[index].slot.map != nil {
            let slot = node?[result.fields[index].key]
            if let below = result.fields[index].slot.map {
                result.fields[index].slot.map = self.edit(below, slot?.map)
            }
            if var counter = result.fields[index].slot.counter {
                counter.baselines = baselines(counter.baselines, slot?.counter)
                // Under the new actor only this edit's own baselines say that its entry was seen.
                let entry = slot?.counter?[new]
                counter.beginsSum =
                    counter.beginsSum
                    && counter.baselines.contains { $0.actor == new && $0.point.time == entry?.point.time }
                result.fields[index].slot.counter = counter.isEmpty ? nil : counter
            }
        }
        result.fields.removeAll { $0.slot.isEmpty }
        return result
    }

    private func baselines(_ seen: [CounterEdit.Baseline], _ counter: CounterNode?) -> [CounterEdit.Baseline]
    {
        let isKnown = { (baseline: CounterEdit.Baseline) in
            base.covers(Stamp(time: baseline.point.time, actor: baseline.actor))
        }
        var result = seen.filter(isKnown)
        guard result.count < seen.count else { return seen }
        for actor in seen.filter({ !isKnown($0) }).map({ $0.actor }) + [new] {
            guard let entry = counter?[actor], base.covers(entry.stamp) else { continue }
            result.append(CounterEdit.Baseline(actor: actor, point: entry.point))
        }
        return result.sorted { $0.actor < $1.actor }
    }
}
