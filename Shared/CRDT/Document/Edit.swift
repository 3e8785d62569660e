// The effect of one transaction on one document, as a tree: first remove what was observed, then write.
//
// Edits compose: applying the parts one after another within one transaction equals applying their
// composition, because a removal or write also observes its own transaction's earlier writes.

/// The change of one MAP.
struct MapEdit: Sendable, Equatable {
    /// Remove everything observed in this map, its presence included. `fields` must also name the baselines
    /// of counters beneath.
    var clears = false
    /// Write the map's presence (it was created, or written as a whole).
    var writesPresence = false
    /// Changes below, ascending by key bytes.
    var fields: [FieldEdit] = []

    struct FieldEdit: Sendable, Equatable {
        let key: String
        var slot: SlotEdit

        static func == (left: FieldEdit, right: FieldEdit) -> Bool {
            utf8Equal(left.key, right.key) && left.slot == right.slot
        }
    }

    var isEmpty: Bool { !clears && !writesPresence && fields.isEmpty }

    subscript(key: String) -> SlotEdit? {
        let place = place(of: key)
        return place < fields.count && utf8Equal(fields[place].key, key) ? fields[place].slot : nil
    }

    mutating func withSlot(_ key: String, _ body: (inout SlotEdit) -> Void) {
        let place = place(of: key)
        if place == fields.count || !utf8Equal(fields[place].key, key) {
            fields.insert(FieldEdit(key: key, slot: SlotEdit()), at: place)
        }
        body(&fields[place].slot)
    }

    private func place(of key: String) -> Int {
        // Objects are written in the order of their keys.
        guard let last = fields.last, !utf8Precedes(last.key, key) else { return fields.count }
        var low = 0
        var high = fields.count
        while low < high {
            let middle = (low + high) / 2
            if utf8Precedes(fields[middle].key, key) { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Adds a later edit of the same transaction. The result has the effect of both, one after the other.
    mutating func compose(_ later: MapEdit) {
        if later.clears || isEmpty {
            self = later
            return
        }
        writesPresence = writesPresence || later.writesPresence
        for field in later.fields { withSlot(field.key) { $0.compose(field.slot) } }
    }
}

/// The change under one key.
struct SlotEdit: Sendable, Equatable {
    /// Remove the observed values of the register; implied by a write.
    var clearsRegister = false
    /// The register's new value.
    var register: Value?
    /// The change of the map under this key.
    var map: MapEdit?
    private var others: Box<Others>?

    init(clearsRegister: Bool = false, map: MapEdit? = nil) {
        self.clearsRegister = clearsRegister
        self.map = map
    }

    /// Parts that few edits have, stored apart so that most edits stay small.
    private struct Others: Sendable, Equatable {
        var counter: CounterEdit?
        var clearsAttachment = false
        var attachment: Value?
    }

    /// The change of the counter under this key.
    var counter: CounterEdit? {
        get { others?.content.counter }
        set { setOthers { $0.counter = newValue } }
    }

    /// Remove the observed tokens; implied by a write.
    var clearsAttachment: Bool {
        get { others?.content.clearsAttachment ?? false }
        set { setOthers { $0.clearsAttachment = newValue } }
    }

    /// The attachment's new token.
    var attachment: Value? {
        get { others?.content.attachment }
        set { setOthers { $0.attachment = newValue } }
    }

    /// True if it changes neither counter nor attachment.
    var isPlain: Bool { others == nil }

    private mutating func setOthers(_ change: (inout Others) -> Void) {
        var content = others?.content ?? Others()
        change(&content)
        others = content == Others() ? nil : Box(content)
    }

    var isEmpty: Bool { !clearsRegister && register == nil && map == nil && others == nil }

    mutating func compose(_ later: SlotEdit) {
        if later.clearsRegister {
            clearsRegister = true
            register = nil
        }
        if let value = later.register { register = value }
        if let below = later.map {
            var composed = map ?? MapEdit()
            composed.compose(below)
            map = composed
        }
        guard !later.isPlain else { return }
        // An editor restates all changes of a counter by its transaction.
        if let whole = later.counter { counter = whole }
        if later.clearsAttachment {
            clearsAttachment = true
            attachment = nil
        }
        if let token = later.attachment { attachment = token }
    }
}

/// The change of one COUNTER, applied in this order: baselines and the removal of RESTARTs, a RESTART, an
/// amount.
///
/// It holds the amount, not the author's new total. The delta's base covers the author's old total, and the
/// amount stays right where the counter has started again since (reaped, or under a new actor).
struct CounterEdit: Sendable, Equatable {
    /// One actor's entry as a removal or RESTART saw it.
    struct Baseline: Sendable, Equatable {
        let actor: ActorID
        let point: CounterNode.Point

        init(actor: ActorID, point: CounterNode.Point) {
            self.actor = actor
            self.point = CounterNode.Point(time: point.time, total: point.total)
        }
    }

    /// The author's entry as it was before the transaction; nil when there was none.
    struct Before: Sendable {
        let point: CounterNode.Point?
    }

    /// The entries that the removal or RESTART saw, ascending by actor; never its own transaction's
    /// increments (rule 1).
    var baselines: [Baseline] = []
    /// Remove the observed RESTARTs; implied by a RESTART.
    var clearsRestarts = false
    /// The value of a RESTART.
    var restart: Value?
    /// The transaction's net increment.
    var amount: Value?
    /// The increment begins a new sum: removals had seen all of the author's earlier ones.
    var beginsSum = false
    /// The entry from which the transaction's increments count. Only set while the transaction is open; no
    /// part of the edit.
    var before: Before?

    var isEmpty: Bool { baselines.isEmpty && !clearsRestarts && restart == nil && amount == nil }

    static func == (left: CounterEdit, right: CounterEdit) -> Bool {
        left.baselines == right.baselines && left.clearsRestarts == right.clearsRestarts
            && left.restart == right.restart && left.amount == right.amount
            && left.beginsSum == right.beginsSum
    }
}
