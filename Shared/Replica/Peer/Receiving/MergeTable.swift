/// Decides what becomes of a document when something comes of it: a pure function from what came, by whose
/// authority, and the facts of the situation, to effects. `Merger` reads the facts and performs the effects.
///
/// A table has one row for each situation: its conditions exclude each other, and none is left out
/// (`MergeTableTests` enumerates all). Everything that came is looked up in each table that knows it, and the
/// effects follow one another. Conditions are read from the left, so a fact is asked for only where those
/// before it hold.
enum MergeTable {
    /// Something that comes of a document.
    enum Came: Int, CaseIterable {
        /// Void stamps are told (decision 0083); maybe a state follows.
        case voidStamps
        /// A state is about to be merged: an answer of the server, or any of a link.
        case approach
        /// A state of the stream or of a page.
        case state
        /// A state that was asked for.
        case answer
        /// A state was merged.
        case merged
        case delta
        /// The server has the copy forgotten, because of a question.
        case forgetting
        /// The server has the copy forgotten, because of a list of earlier holdings.
        case listedForgetting
        /// The server has reaped the tombstone.
        case reaping
        /// The document may not be read here any more.
        case hiding
        /// A staged state became visible as it was.
        case showing
        /// A message has ended that told void stamps (server), or changed the document (link).
        case end
    }

    /// Something that is true or not of a document and of what comes.
    enum Fact: UInt32, CaseIterable {
        // The document.
        /// The document is here, if only as a tombstone.
        case here
        /// A note of void stamps is here.
        case noted
        /// The document or a note of it is here.
        case known
        /// It holds a void stamp, and what comes does not show by the server's authority that it is not void.
        case quarantined
        /// Own writes to it are not acknowledged.
        case pending
        /// It holds writes that are withheld from the server.
        case withheld
        /// The store tells links what is void, and keeps tombstones for them.
        case linked

        // A state.
        /// It, or a delta, holds a stamp that is void here.
        case void
        /// It is of a document that nobody has written.
        case empty
        /// It lacks own writes from before an eviction.
        case lacksEvicted
        /// Its vector is covered here.
        case contained
        /// It is not covered here, or is alive and the document here deleted.
        case news
        /// It lacks something that is shown here and not withheld.
        case lacking
        /// A subscription matches the document here, so the server tells what became of the rest.
        case followed
        /// All that it lacks is of this actor, and pending.
        case lacksOwn

        // A delta.
        /// The sender presumes a document that is not here.
        case presumed
        /// All of it is here.
        case covered
        /// Its base is here.
        case based

        // A vector.
        /// It covers all of the document.
        case whole
        /// It covers the document, which is a tombstone without remains.
        case forgettable

        // Void stamps that are told.
        /// They are of this actor.
        case accused
        /// A link's would make the document quarantined.
        case quarantining
        /// A link has told them before this state.
        case announced
        /// The state that comes after them would be quarantined itself.
        case stillQuarantined
        /// The server has told them before this state.
        case confirmed
    }

    /// Something to be done.
    enum Effect: CaseIterable {
        /// The state becomes the document.
        case insert
        /// The delta is applied.
        case apply
        /// The state is merged.
        case merge
        /// The state, or nothing, takes the place of a quarantined document; own writes go on top.
        case replace
        /// Own writes are shown again as far as their bases have come.
        case showOwn
        /// The document is forgotten whole (rule 10).
        case drop
        /// The clock passes what comes.
        case observe
        /// The server is asked for the document.
        case ask
        /// The same; what came does not settle the question.
        case askAgain
        /// A repair moves the own writes first.
        case awaitRepair
        /// The base of a delta is missing: all of the message is put off.
        case lackBase
        /// The void stamps that were told count.
        case learn
        /// By the server's word nothing of the document is void.
        case acquit
        /// The server shows what counted as void: it does not count any more.
        case refute
        /// Links are told again what is void.
        case tellAgain
        /// This actor does not write the document again.
        case leaveActor
        /// The message's end replaces the document, unless a state does before.
        case expectState
        /// No state is expected any more.
        case stateCame
        /// The link's void stamps wait for the state after them.
        case keepWord
        /// They wait no longer.
        case dropWord
    }

    /// A fact that holds, or one that does not.
    enum Condition {
        case yes(Fact)
        case no(Fact)

        var fact: Fact {
            switch self {
            case .yes(let fact), .no(let fact): fact
            }
        }
        var isYes: Bool { if case .yes = self { true } else { false } }
    }

    /// The effects of one situation.
    struct Row {
        let came: [Came]
        /// Nil for both.
        let by: Authority?
        let conditions: [Condition]
        let effects: [Effect]

        init(_ came: [Came], _ by: Authority?, _ conditions: [Condition], _ effects: [Effect]) {
            self.came = came
            self.by = by
            self.conditions = conditions
            self.effects = effects
        }
    }

    /// Decides what is done about something that came. `holds` is asked for each fact once at most.
    static func effects(
        of came: Came, by authority: Authority, where holds: (Fact) throws -> Bool
    ) rethrows -> [Effect] {
        var known = KnownFacts()
        var effects: [Effect] = []
        for rows in tables(for: came, authority) {
            var chosen: Row?
            for row in rows where try known.meet(row.conditions, holds) {
                chosen = row
                break
            }
            guard let chosen else { preconditionFailure("no row for \(came) by \(authority)") }
            effects += chosen.effects
        }
        return effects
    }

    /// The rows of each table that knows something.
    static func tables(for came: Came, _ authority: Authority) -> [[Row]] {
        chosen[2 * came.rawValue + (authority == .server ? 0 : 1)]
    }

    private static let chosen: [[[Row]]] = Came.allCases.flatMap { came in
        [Authority.server, .link].map { authority in
            [words, questions, documents].map { rows in
                rows.filter { $0.came.contains(came) && ($0.by ?? authority) == authority }
            }.filter { !$0.isEmpty }
        }
    }

    /// The facts that were asked for, and those of them that hold.
    private struct KnownFacts {
        private var asked: UInt32 = 0
        private var held: UInt32 = 0

        mutating func meet(
            _ conditions: [Condition], _ holds: (Fact) throws -> Bool
        ) rethrows -> Bool {
            for condition in conditions {
                let bit: UInt32 = 1 << condition.fact.rawValue
                if asked & bit == 0 {
                    if try holds(condition.fact) { held |= bit }
                    asked |= bit
                }
                if (held & bit != 0) != condition.isYes { return false }
            }
            return true
        }
    }
}
