// The tables. `by`: the server, a link, or (nil) either.

extension MergeTable {
    /// The words about void stamps: those that count, and those that are told.
    static let words: [Row] = [
        Row([.voidStamps], .server, [], [.learn, .expectState]),
        Row([.voidStamps], .link, [.no(.known)], [.keepWord]),
        Row([.voidStamps], .link, [.yes(.known), .no(.accused), .no(.tainting)], [.learn]),
        Row([.voidStamps], .link, [.yes(.known), .no(.accused), .yes(.tainting)], [.keepWord]),
        Row(
            [.voidStamps], .link, [.yes(.known), .yes(.accused), .no(.tainting)], [.leaveActor, .learn]),
        Row(
            [.voidStamps], .link, [.yes(.known), .yes(.accused), .yes(.tainting)],
            [.leaveActor, .keepWord]),

        Row([.approach], .server, [.yes(.confirmed)], [.stateCame]),
        Row([.approach], .server, [.no(.confirmed), .no(.tainted)], []),
        Row([.approach], .server, [.no(.confirmed), .yes(.tainted)], [.acquit]),
        Row([.approach], .link, [.no(.announced)], []),
        Row([.approach], .link, [.yes(.announced), .no(.known)], []),
        Row(
            [.approach], .link, [.yes(.announced), .yes(.known), .no(.stillTainted)], [.learn, .dropWord]),
        Row([.approach], .link, [.yes(.announced), .yes(.known), .yes(.stillTainted)], [.dropWord]),

        Row([.state, .answer], nil, [.no(.void)], []),
        Row([.state, .answer], .server, [.yes(.void)], [.refute]),
        Row([.state, .answer], .link, [.yes(.void)], [.tellAgain]),

        Row([.merged], .server, [], []),
        Row([.merged], .link, [.no(.announced)], []),
        Row([.merged], .link, [.yes(.announced), .no(.tainting)], [.learn, .dropWord]),
        Row([.merged], .link, [.yes(.announced), .yes(.tainting)], [.dropWord]),

        Row([.delta], nil, [.yes(.tainted)], []),
        Row([.delta], nil, [.no(.tainted), .no(.void)], []),
        Row([.delta], .server, [.no(.tainted), .yes(.void)], [.refute]),
        Row([.delta], .link, [.no(.tainted), .yes(.void)], [.tellAgain]),
    ]

    /// The questions to the server: nobody has the last word on what a link brings.
    static let questions: [Row] = [
        Row([.state, .answer, .showing], .link, [], []),
        Row([.state, .answer], .server, [.yes(.tainted)], []),
        Row([.state, .answer], .server, [.no(.tainted), .no(.here), .yes(.empty)], []),
        Row(
            [.state, .answer], .server,
            [.no(.tainted), .no(.here), .no(.empty), .no(.lacksEvicted)], []),
        Row(
            [.state, .answer], .server,
            [.no(.tainted), .no(.here), .no(.empty), .yes(.lacksEvicted)], [.askAgain]),
        Row([.showing], .server, [.no(.lacksEvicted)], []),
        Row([.showing], .server, [.yes(.lacksEvicted)], [.askAgain]),

        Row([.answer], .server, [.no(.tainted), .yes(.here)], []),
        Row([.state], .server, [.no(.tainted), .yes(.here), .no(.news)], []),
        Row([.state], .server, [.no(.tainted), .yes(.here), .yes(.news), .no(.lacking)], []),
        Row(
            [.state], .server,
            [.no(.tainted), .yes(.here), .yes(.news), .yes(.lacking), .yes(.followed)], []),
        Row(
            [.state], .server,
            [.no(.tainted), .yes(.here), .yes(.news), .yes(.lacking), .no(.followed), .yes(.lacksOwn)], []
        ),
        Row(
            [.state], .server,
            [.no(.tainted), .yes(.here), .yes(.news), .yes(.lacking), .no(.followed), .no(.lacksOwn)],
            [.ask]),
    ]

    /// The document, and what becomes of it.
    static let documents: [Row] = [
        // States of the server.
        Row([.state, .answer, .end], .server, [.yes(.tainted), .no(.pending)], [.replace]),
        Row(
            [.state, .answer, .end], .server, [.yes(.tainted), .yes(.pending)], [.observe, .awaitRepair]),
        Row([.state, .answer], .server, [.no(.tainted), .no(.here), .yes(.empty)], []),
        Row([.state, .answer], .server, [.no(.tainted), .no(.here), .no(.empty)], [.insert]),
        Row([.state, .answer], .server, [.no(.tainted), .yes(.here), .yes(.contained)], []),
        Row([.state, .answer], .server, [.no(.tainted), .yes(.here), .no(.contained)], [.merge]),
        Row([.end], .server, [.no(.tainted)], []),

        // States of a link.
        Row([.state, .answer], .link, [.yes(.void)], []),
        Row([.state, .answer], .link, [.no(.void), .yes(.tainted)], [.replace]),
        Row([.state, .answer], .link, [.no(.void), .no(.tainted), .no(.here), .yes(.empty)], []),
        Row(
            [.state, .answer], .link, [.no(.void), .no(.tainted), .no(.here), .no(.empty)], [.insert]),
        Row([.state, .answer], .link, [.no(.void), .no(.tainted), .yes(.here), .yes(.contained)], []),
        Row(
            [.state, .answer], .link, [.no(.void), .no(.tainted), .yes(.here), .no(.contained)], [.merge]),
        Row([.end], .link, [.no(.noted)], []),
        Row([.end], .link, [.yes(.noted), .no(.pending)], []),
        Row([.end], .link, [.yes(.noted), .yes(.pending), .yes(.tainted)], []),
        Row([.end], .link, [.yes(.noted), .yes(.pending), .no(.tainted)], [.showOwn]),

        // Deltas.
        Row([.delta], .server, [.yes(.tainted)], [.lackBase]),
        Row([.delta], .server, [.no(.tainted), .yes(.presumed)], [.lackBase]),
        Row([.delta], .server, [.no(.tainted), .no(.presumed), .yes(.covered)], []),
        Row(
            [.delta], .server, [.no(.tainted), .no(.presumed), .no(.covered), .no(.based)], [.lackBase]),
        Row([.delta], .server, [.no(.tainted), .no(.presumed), .no(.covered), .yes(.based)], [.apply]),
        Row([.delta], .link, [.yes(.tainted)], []),
        Row([.delta], .link, [.no(.tainted), .yes(.void)], []),
        Row([.delta], .link, [.no(.tainted), .no(.void), .yes(.presumed)], [.lackBase]),
        Row([.delta], .link, [.no(.tainted), .no(.void), .no(.presumed), .yes(.covered)], []),
        Row(
            [.delta], .link,
            [.no(.tainted), .no(.void), .no(.presumed), .no(.covered), .no(.based)], [.lackBase]),
        Row(
            [.delta], .link,
            [.no(.tainted), .no(.void), .no(.presumed), .no(.covered), .yes(.based)], [.apply]),

        // A copy is forgotten whole. Where the document has moved on since it was listed, only the answer to
        // a question tells; and another subscription may match what the server has of it.
        Row([.forgetting, .listedForgetting, .reaping], .link, [], []),
        Row([.forgetting, .listedForgetting], .server, [.yes(.tainted)], []),
        Row([.forgetting, .listedForgetting], .server, [.no(.tainted), .no(.here)], []),
        Row(
            [.forgetting, .listedForgetting], .server, [.no(.tainted), .yes(.here), .yes(.withheld)], []),
        Row(
            [.forgetting, .listedForgetting], .server,
            [.no(.tainted), .yes(.here), .no(.withheld), .yes(.pending)], [.awaitRepair]),
        Row(
            [.forgetting], .server,
            [.no(.tainted), .yes(.here), .no(.withheld), .no(.pending), .yes(.whole)], [.drop]),
        Row(
            [.forgetting], .server,
            [.no(.tainted), .yes(.here), .no(.withheld), .no(.pending), .no(.whole)], [.drop, .askAgain]),
        Row(
            [.listedForgetting], .server,
            [.no(.tainted), .yes(.here), .no(.withheld), .no(.pending), .yes(.whole)], [.drop, .askAgain]),
        Row(
            [.listedForgetting], .server,
            [.no(.tainted), .yes(.here), .no(.withheld), .no(.pending), .no(.whole)], [.askAgain]),
        Row([.reaping], .server, [.yes(.linked)], []),
        Row([.reaping], .server, [.no(.linked), .no(.here)], []),
        Row([.reaping], .server, [.no(.linked), .yes(.here), .no(.forgettable)], []),
        Row([.reaping], .server, [.no(.linked), .yes(.here), .yes(.forgettable)], [.drop]),
        Row([.hiding], nil, [.no(.here)], []),
        Row([.hiding], nil, [.yes(.here)], [.drop]),
    ]
}
