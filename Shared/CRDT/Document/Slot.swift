/// Everything under one key: up to one variant of each kind.
struct Slot: Sendable, Equatable {
    var register = Leaves()
    var map: MapNode?
    private var others: Box<Others>?

    init(map: MapNode? = nil) { self.map = map }

    /// Variants that few fields have, stored apart so that most slots stay small.
    private struct Others: Sendable, Equatable {
        var counter: CounterNode?
        var attachment = Leaves()
    }

    var counter: CounterNode? {
        get { others?.content.counter }
        set { setOthers(Others(counter: newValue, attachment: attachment)) }
    }

    /// Tokens, with the rules of a register's values.
    var attachment: Leaves {
        get { others?.content.attachment ?? Leaves() }
        set { setOthers(Others(counter: counter, attachment: newValue)) }
    }

    /// True if there is neither counter nor attachment.
    var isPlain: Bool { others == nil }

    private mutating func setOthers(_ content: Others) {
        others = content.counter == nil && content.attachment.isEmpty ? nil : Box(content)
    }

    /// True if nothing at all is left here, so that the key goes.
    var isEmpty: Bool { register.isEmpty && map == nil && others == nil }

    /// True if readers see something here. They do not see the residue of a removed counter.
    var isVisible: Bool {
        if !register.isEmpty || map?.isVisible == true { return true }
        return others.map { !$0.content.attachment.isEmpty || $0.content.counter?.isVisible == true } ?? false
    }

    /// The greatest surviving stamp; nil when nothing is visible.
    var maxStamp: Stamp? {
        let greatest = map == nil ? register.newest : greater(register.newest, map?.maxStamp)
        return isPlain
            ? greatest : greater(greatest, greater(counter?.maxStamp, attachment.newest))
    }

    /// The greatest surviving stamp of one kind; nil when that variant is not visible.
    func maxStamp(of kind: FieldKind) -> Stamp? {
        switch kind {
        case .register: register.newest
        case .map: map?.maxStamp
        case .counter: counter?.maxStamp
        case .attachment: attachment.newest
        }
    }

    /// Returns whether a variant of the kind, or of any kind when nil, is visible.
    func holds(_ kind: FieldKind?) -> Bool {
        switch kind {
        case nil: isVisible
        case .register?: !register.isEmpty
        case .map?: map?.isVisible == true
        case .counter?: counter?.isVisible == true
        case .attachment?: !attachment.isEmpty
        }
    }

    /// The kind written most recently; a tie within one transaction goes to the later kind of `FieldKind`.
    var newestKind: FieldKind? {
        if map == nil, isPlain { return register.isEmpty ? nil : .register }
        var newest: (kind: FieldKind, stamp: Stamp)?
        for kind in FieldKind.allCases {
            guard let stamp = maxStamp(of: kind), newest.map({ $0.stamp <= stamp }) ?? true else { continue }
            newest = (kind, stamp)
        }
        return newest?.kind
    }

    /// The value of the newest kind; nil when nothing is visible.
    var value: Value? { newestKind.flatMap { value(of: $0) } }

    /// The value of one kind; nil when that variant is not visible.
    func value(of kind: FieldKind) -> Value? {
        switch kind {
        case .register: register.last?.value
        case .map: map.flatMap { $0.isVisible ? .object($0.value) : nil }
        case .counter: counter.flatMap { $0.isVisible ? $0.value : nil }
        case .attachment: attachment.last?.value
        }
    }

    /// The concurrent values of the REGISTER or of the ATTACHMENT, whichever was written last; greatest
    /// stamp first.
    var conflicts: [Value] {
        let showsAttachment = attachment.newest.map { stamp in register.newest.map { $0 <= stamp } ?? true }
        return (showsAttachment ?? false ? attachment : register).reversed().map { $0.value }
    }
}

/// The kinds a field can have. One key holds up to one variant of each.
public enum FieldKind: UInt8, Sendable, CaseIterable {
    /// Any value as one unit; the greatest stamp shows, concurrent losers are kept until the next write.
    case register = 0
    /// Children that are written one by one; true add-wins.
    case map = 1
    /// A sum of increments, with an observed RESTART. Serves PN_COUNTER too.
    case counter = 2
    /// A token that names a blob; otherwise a register.
    case attachment = 3
}

func greater(_ left: Stamp?, _ right: Stamp?) -> Stamp? {
    guard let left, let right else { return left ?? right }
    return max(left, right)
}

/// An immutable value in a reference, so that it can be shared.
final class Box<Content: Sendable>: Sendable {
    let content: Content
    init(_ content: Content) { self.content = content }
}

extension Box: Equatable where Content: Equatable {
    static func == (left: Box, right: Box) -> Bool {
        left === right || left.content == right.content
    }
}
