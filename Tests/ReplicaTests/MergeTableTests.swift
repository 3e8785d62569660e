import Testing

@testable import Replica

@Suite("The merge table")
struct MergeTableTests {
    private typealias Fact = MergeTable.Fact
    private typealias Effect = MergeTable.Effect

    /// Something that comes by somebody's authority.
    private struct Coming: CustomStringConvertible {
        let came: MergeTable.Came
        let authority: Authority

        var description: String { "\(came) by \(authority)" }

        /// Each set of facts that the tables ask for.
        var situations: [Set<Fact>] {
            let rows = MergeTable.tables(for: came, authority).joined()
            return Coming.subsets(of: Set(rows.flatMap(\.conditions).map(\.fact)))
        }

        func effects(_ situation: Set<Fact>) -> [Effect] {
            MergeTable.effects(of: came, by: authority) { situation.contains($0) }
        }

        static func subsets(of facts: Set<Fact>) -> [Set<Fact>] {
            facts.reduce(into: [[]]) { subsets, fact in subsets += subsets.map { $0.union([fact]) } }
        }

        static let all = MergeTable.Came.allCases.flatMap { came in
            [Authority.server, .link].map { Coming(came: came, authority: $0) }
        }
    }

    private func matches(_ row: MergeTable.Row, _ situation: Set<Fact>) -> Bool {
        row.conditions.allSatisfy { situation.contains($0.fact) == $0.isYes }
    }

    @Test("each situation has exactly one row in each table that knows what came")
    func oneRow() {
        var faults: [String] = []
        var count = 0
        for coming in Coming.all {
            for rows in MergeTable.tables(for: coming.came, coming.authority) {
                for situation in Coming.subsets(of: Set(rows.flatMap(\.conditions).map(\.fact))) {
                    count += 1
                    let chosen = rows.count { matches($0, situation) }
                    if chosen != 1 { faults.append("\(coming): \(chosen) rows for \(situation)") }
                }
            }
        }
        #expect(faults.isEmpty)
        #expect(count > 500)
    }

    @Test("everything that comes is in a table, and each fact and effect in a row")
    func whole() {
        for coming in Coming.all {
            #expect(!MergeTable.tables(for: coming.came, coming.authority).isEmpty, "\(coming)")
        }
        let rows = MergeTable.words + MergeTable.questions + MergeTable.documents
        #expect(Set(rows.flatMap(\.conditions).map(\.fact)) == Set(Fact.allCases))
        #expect(Set(rows.flatMap(\.effects)) == Set(Effect.allCases))
    }

    @Test("a fact is asked for once at most, and only where those before it hold")
    func asked() {
        for coming in Coming.all {
            for situation in coming.situations {
                var asked: [Fact] = []
                _ = MergeTable.effects(of: coming.came, by: coming.authority) { fact in
                    asked.append(fact)
                    return situation.contains(fact)
                }
                #expect(asked.count == Set(asked).count, "\(coming): \(asked)")
            }
        }
        var asked: [Fact] = []
        _ = MergeTable.effects(of: .state, by: .server) { fact in
            asked.append(fact)
            return false
        }
        #expect(asked == [.void, .quarantined, .here, .empty, .lacksEvicted])
    }

    // MARK: Rules that hold in all situations

    @Test("nothing is merged into a quarantined document, and none is merged into others")
    func quarantined() {
        let mixing: Set<Effect> = [.insert, .apply, .merge]
        for coming in Coming.all {
            for situation in coming.situations where situation.contains(.quarantined) {
                #expect(mixing.isDisjoint(with: coming.effects(situation)), "\(coming): \(situation)")
            }
            for situation in coming.situations where coming.authority == .link {
                guard situation.contains(.void) else { continue }
                #expect(mixing.isDisjoint(with: coming.effects(situation)), "\(coming): \(situation)")
            }
        }
    }

    @Test("own writes that the server lacks are never forgotten or replaced by its word")
    func pending() {
        let removing: Set<Effect> = [.drop, .replace]
        for coming in Coming.all where coming.authority == .server && coming.came != .hiding {
            for situation in coming.situations where situation.contains(.pending) {
                #expect(removing.isDisjoint(with: coming.effects(situation)), "\(coming): \(situation)")
            }
        }
    }

    @Test("a link has nothing forgotten, asks for nothing, and takes no word of the server back")
    func link() {
        let lastWords: Set<Effect> = [
            .drop, .ask, .askAgain, .awaitRepair, .acquit, .refute, .expectState,
        ]
        for coming in Coming.all where coming.authority == .link && coming.came != .hiding {
            for situation in coming.situations {
                #expect(lastWords.isDisjoint(with: coming.effects(situation)), "\(coming): \(situation)")
            }
        }
    }

    @Test("what is merged is merged once, and a delta without its base changes nothing")
    func once() {
        let changing: [Effect] = [.insert, .apply, .merge, .replace, .drop, .lackBase]
        for coming in Coming.all {
            for situation in coming.situations {
                let effects = coming.effects(situation)
                #expect(effects.count { changing.contains($0) } <= 1, "\(coming): \(situation)")
                #expect(effects.count == Set(effects).count, "\(coming): \(situation)")
            }
        }
    }

    // MARK: The rows, told

    private struct Story: CustomTestStringConvertible {
        let testDescription: String
        let came: [MergeTable.Came]
        let by: [Authority]
        let facts: Set<Fact>
        let effects: [Effect]

        init(
            _ text: String, _ came: [MergeTable.Came], _ by: [Authority], _ facts: Set<Fact>,
            _ effects: [Effect]
        ) {
            testDescription = text
            self.came = came
            self.by = by
            self.facts = facts
            self.effects = effects
        }
    }

    private static let states: [MergeTable.Came] = [.state, .answer]
    private static let both: [Authority] = [.server, .link]

    private static let merging: [Story] = [
        Story("a state of a document that is not here becomes it", states, both, [.news], [.insert]),
        Story("one of nobody's document does not", states, both, [.empty], []),
        Story(
            "one without own writes from before an eviction is asked for", states, [.server],
            [.news, .lacksEvicted], [.askAgain, .insert]),
        Story("a link is not asked", states, [.link], [.news, .lacksEvicted], [.insert]),
        Story("a state that is not covered is merged", states, both, [.here, .news], [.merge]),
        Story("one that is covered changes nothing", states, both, [.here, .contained], []),
        Story(
            "a state without what is shown here is asked for", [.state], [.server],
            [.here, .news, .lacking], [.ask, .merge]),
        Story(
            "a living one of a document that is deleted here too", [.state], [.server],
            [.here, .contained, .news, .lacking], [.ask]),
        Story(
            "not where the server follows the document", [.state], [.server],
            [.here, .news, .lacking, .followed], [.merge]),
        Story(
            "nor for own writes that it will get", [.state], [.server],
            [.here, .news, .lacking, .lacksOwn], [.merge]),
        Story("nor after an answer", [.answer], [.server], [.here, .news, .lacking], [.merge]),
        Story(
            "a staged document that is shown is asked for after an eviction", [.showing], [.server],
            [.lacksEvicted], [.askAgain]),
        Story("a delta is applied where its base is", [.delta], both, [.here, .based], [.apply]),
        Story("onto nothing too, if it needs none", [.delta], both, [.based], [.apply]),
        Story("a known one changes nothing", [.delta], both, [.here, .covered, .based], []),
        Story("one without its base waits", [.delta], both, [.here], [.lackBase]),
        Story(
            "one of a document that was evicted unnoticed waits", [.delta], both,
            [.presumed, .based], [.lackBase]),
    ]

    private static let forgetting: [Story] = [
        Story(
            "a copy is forgotten by the server's order", [.forgetting], [.server],
            [.here, .whole], [.drop]),
        Story(
            "one with more than the order names is forgotten and asked for", [.forgetting], [.server],
            [.here], [.drop, .askAgain]),
        Story(
            "a listed one is asked for: another subscription may match it", [.listedForgetting],
            [.server], [.here, .whole], [.drop, .askAgain]),
        Story(
            "a listed one that has moved on is only asked for", [.listedForgetting], [.server],
            [.here], [.askAgain]),
        Story(
            "own writes are moved first", [.forgetting, .listedForgetting], [.server],
            [.here, .whole, .pending], [.awaitRepair]),
        Story(
            "withheld writes keep the copy", [.forgetting, .listedForgetting], [.server],
            [.here, .whole, .withheld, .pending], []),
        Story(
            "a quarantined one waits for its clean state", [.forgetting, .listedForgetting], [.server],
            [.here, .whole, .quarantined], []),
        Story(
            "nothing is forgotten by a link's order", [.forgetting, .listedForgetting, .reaping],
            [.link], [.here, .whole, .forgettable], []),
        Story(
            "a tombstone is forgotten with the server's", [.reaping], [.server],
            [.here, .forgettable], [.drop]),
        Story("one with remains stays", [.reaping], [.server], [.here], []),
        Story(
            "a store with links keeps it for them", [.reaping], [.server],
            [.here, .forgettable, .linked], []),
        Story(
            "a document that may not be read is dropped, pending or not", [.hiding], both,
            [.here, .pending], [.drop]),
    ]

    private static let void: [Story] = [
        Story("the server's void stamps count", [.voidStamps], [.server], [], [.learn, .expectState]),
        Story(
            "a link's count at once where they quarantine nothing", [.voidStamps], [.link], [.known], [.learn]
        ),
        Story(
            "else they wait for the state after them", [.voidStamps], [.link],
            [.known, .here, .quarantining], [.keepWord]),
        Story("and for a document that is not here", [.voidStamps], [.link], [], [.keepWord]),
        Story(
            "an accused actor does not write the document again", [.voidStamps], [.link],
            [.known, .here, .accused, .quarantining], [.leaveActor, .keepWord]),
        Story(
            "with a clean state they count", [.approach], [.link], [.announced, .known],
            [.learn, .dropWord]),
        Story(
            "with a quarantined one they do not", [.approach], [.link],
            [.announced, .known, .stillQuarantined], [.dropWord]),
        Story(
            "the state of a document that was not here is merged first", [.approach], [.link],
            [.announced], []),
        Story(
            "then they count, if it is clean", [.merged], [.link], [.announced], [.learn, .dropWord]),
        Story(
            "not if they would quarantine it", [.merged], [.link], [.announced, .quarantining], [.dropWord]),
        Story(
            "an answer without a word of the server acquits", [.approach], [.server],
            [.here, .quarantined], [.acquit]),
        Story(
            "an answer after its word does not", [.approach], [.server],
            [.here, .quarantined, .confirmed], [.stateCame]),
        Story(
            "a clean state takes a quarantined document's place", states, both,
            [.here, .quarantined, .news], [.replace]),
        Story(
            "own writes that the server lacks are moved first", states, [.server],
            [.here, .quarantined, .pending], [.observe, .awaitRepair]),
        Story(
            "a link's state with a void stamp is told so", states, [.link],
            [.here, .void, .news], [.tellAgain]),
        Story(
            "the server's shows that the stamp is not void", states, [.server],
            [.here, .void, .news], [.refute, .merge]),
        Story(
            "without a state the message's end leaves nothing", [.end], [.server],
            [.here, .quarantined], [.replace]),
        Story(
            "own writes are shown again when their bases have come", [.end], [.link],
            [.here, .noted, .pending], [.showOwn]),
        Story(
            "a delta to a quarantined document waits for the server's state", [.delta], [.server],
            [.here, .quarantined, .based], [.lackBase]),
        Story("a link's is passed over", [.delta], [.link], [.here, .quarantined, .based], []),
        Story(
            "a link's void delta is told so", [.delta], [.link], [.here, .void, .based], [.tellAgain]),
        Story(
            "the server's is not void", [.delta], [.server], [.here, .void, .based], [.refute, .apply]),
    ]

    @Test("the table gives each story its effects", arguments: merging + forgetting + void)
    private func told(_ story: Story) {
        for came in story.came {
            for authority in story.by {
                let found = Coming(came: came, authority: authority).effects(story.facts)
                #expect(found == story.effects, "\(came) by \(authority)")
            }
        }
    }
}
