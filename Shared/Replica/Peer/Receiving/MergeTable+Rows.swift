// The tables. `by`: the server, a link, or (nil) either.

extension MergeTable {
    /// The words about void stamps: those that count, and those that are told.
    static let words: [Row] = [
        Row([.voidStamps], .server, [], [.learn, .expectState]),
        Row([.voidStamps], .link, [.no(.known)], [.keepWord]),
        Row([.voidStamps], .link, [.yes(.known), .no(.accused), .no(.quarantining)], [.learn]),
        Row([.voidStamps], .link, [.yes(.known), .no(.accused), .yes(.quarantining)], [.keepWord]),
        Row(
            [.voidStamps], .link, [.yes(.known), .yes(.accused), .no(.quarantining)], [.leaveActor, .learn]),
        Row(
            [.voidStamps], .link, [.yes(.known), .yes(.accused), .yes(.quarantining)],
            [.leaveActor, .keepWord]),

        Row([.approach], .server, [.yes(.confirmed)], [.stateCame]),
        Row([.approach], .server, [.no(.confirmed), .no(.quarantined)], []),
        Row([.approach], .server, [.no(.confirmed), .yes(.quarantined)], [.acquit]),
        Row([.approach], .link, [.no(.announced)], []),
        Row([.approach], .link, [.yes(.announced), .no(.known)], []),
        Row(
            [.approach], .link, [.yes(.announced), .yes(.known), .no(.stillQuarantined)],
            [.learn, .dropWord]),
        Row([.approach], .link, [.yes(.announced), .yes(.known), .yes(.stillQuarantined)], [.dropWord]),

        Row([.state, .answer], nil, [.no(.void)], []),
        Row([.state, .answer], .server, [.yes(.void)], [.refute]),
        Row([.state, .answer], .link, [.yes(.void)], [.tellAgain]),

        Row([.merged], .server, [], []),
        Row([.merged], .link, [.no(.announced)], []),
        Row([.merged], .link, [.yes(.announced), .no(.quarantining)], [.learn, .dropWord]),
        Row([.merged], .link, [.yes(.announced), .yes(.quarantining)], [.dropWord]),

        Row([.delta], nil, [.yes(.quarantined)], []),
        Row([.delta], nil, [.no(.quarantined), .no(.void)], []),
        Row([.delta], .server, [.no(.quarantined), .yes(.void)], [.refute]),
        Row([.delta], .link, [.no(.quarantined), .yes(.void)], [.tellAgain]),
    ]

    /// The questions to the server: nobody has the last word on what a link brings.
    static let questions: [Row] = [
        Row([.state, .answer, .showing], .link, [], []),
        Row([.state, .answer], .server, [.yes(.quarantined)], []),
        Row([.state, .answer], .server, [.no(.quarantined), .no(.here), .yes(.empty)], []),
        Row(
            [.state, .answer], .server,
            [.no(.quarantined), .no(.here), .no(.empty), .no(.lacksEvicted)], []),
        Row(
            [.state, .answer], .server,
            [.no(.quarantined), .no(.here), .no(.empty), .yes(.lacksEvicted)], [.askAgain]),
        Row([.showing], .server, [.no(.lacksEvicted)], []),
        Row([.showing], .server, [.yes(.lacksEvicted)], [.askAgain]),

        Row([.answer], .server, [.no(.quarantined), .yes(.here)], []),
        Row([.state], .server, [.no(.quarantined), .yes(.here), .no(.news)], []),
        Row([.state], .server, [.no(.quarantined), .yes(.here), .yes(.news), .no(.lacking)], []),
        Row(
            [.state], .server,
            [.no(.quarantined), .yes(.here), .yes(.news), .yes(.lacking), .yes(.followed)], []),
        Row(
            [.state], .server,
            [.no(.quarantined), .yes(.here), .yes(.news), .yes(.lacking), .no(.followed), .yes(.lacksOwn)], []
        ),
        Row(
            [.state], .server,
            [.no(.quarantined), .yes(.here), .yes(.news), .yes(.lacking), .no(.followed), .no(.lacksOwn)],
            [.ask]),
    ]

    /// The document, and what becomes of it.
    static let documents: [Row] = [
        // States of the server.
        Row([.state, .answer, .end], .server, [.yes(.quarantined), .no(.pending)], [.replace]),
        Row(
            [.state, .answer, .end], .server, [.yes(.quarantined), .yes(.pending)], [.observe, .awaitRepair]),
        Row([.state, .answer], .server, [.no(.quarantined), .no(.here), .yes(.empty)], []),
        Row([.state, .answer], .server, [.no(.quarantined), .no(.here), .no(.empty)], [.insert]),
        Row([.state, .answer], .server, [.no(.quarantined), .yes(.here), .yes(.contained)], []),
        Row([.state, .answer], .server, [.no(.quarantined), .yes(.here), .no(.contained)], [.merge]),
        Row([.end], .server, [.no(.quarantined)], []),

        // States of a link.
        Row([.state, .answer], .link, [.yes(.void)], []),
        Row([.state, .answer], .link, [.no(.void), .yes(.quarantined)], [.replace]),
        Row([.state, .answer], .link, [.no(.void), .no(.quarantined), .no(.here), .yes(.empty)], []),
        Row(
            [.state, .answer], .link, [.no(.void), .no(.quarantined), .no(.here), .no(.empty)], [.insert]),
        Row([.state, .answer], .link, [.no(.void), .no(.quarantined), .yes(.here), .yes(.contained)], []),
        Row(
            [.state, .answer], .link,
            [.no(.void), .no(.quarantined), .yes(.here), .no(.contained)], [.merge]),
        Row([.end], .link, [.no(.noted)], []),
        Row([.end], .link, [.yes(.noted), .no(.pending)], []),
        Row([.end], .link, [.yes(.noted), .yes(.pending), .yes(.quarantined)], []),
        Row([.end], .link, [.yes(.noted), .yes(.pending), .no(.quarantined)], [.showOwn]),

        // Deltas.
        Row([.delta], .server, [.yes(.quarantined)], [.lackBase]),
        Row([.delta], .server, [.no(.quarantined), .yes(.presumed)], [.lackBase]),
        Row([.delta], .server, [.no(.quarantined), .no(.presumed), .yes(.covered)], []),
        Row(
            [.delta], .server, [.no(.quarantined), .no(.presumed), .no(.covered), .no(.based)], [.lackBase]),
        Row([.delta], .server, [.no(.quarantined), .no(.presumed), .no(.covered), .yes(.based)], [.apply]),
        Row([.delta], .link, [.yes(.quarantined)], []),
        Row([.delta], .link, [.no(.quarantined), .yes(.void)], []),
        Row([.delta], .link, [.no(.quarantined), .no(.void), .yes(.presumed)], [.lackBase]),
        Row([.delta], .link, [.no(.quarantined), .no(.void), .no(.presumed), .yes(.covered)], []),
        Row(
            [.delta], .link,
            [.no(.quarantined), .no(.void), .no(.presumed), .no(.covered), .no(.based)], [.lackBase]),
        Row(
            [.delta], .link,
            [.no(.quarantined), .no(.void), .no(.presumed), .no(.covered), .yes(.based)], [.apply]),

        // A copy is forgotten whole. Where the document has moved on since it was listed, only the answer to
        // a question tells; and another subscription may match what the server has of it.
        Row([.forgetting, .listedForgetting, .reaping], .link, [], []),
        Row([.forgetting, .listedForgetting], .server, [.yes(.quarantined)], []),
        Row([.forgetting, .listedForgetting], .server, [.no(.quarantined), .no(.here)], []),
        Row(
            [.forgetting, .listedForgetting], .server, [.no(.quarantined), .yes(.here), .yes(.withheld)], []),
        Row(
            [.forgetting, .listedForgetting], .server,
            [.no(.quarantined), .yes(.here), .no(.withheld), .yes(.pending)], [.awaitRepair]),
        Row(
            [.forgetting], .server,
            [.no(.quarantined), .yes(.here), .no(.withheld), .no(.pending), .yes(.whole)], [.drop]),
        Row(
            [.forgetting], .server,
            [.no(.quarantined), .yes(.here), .no(.withheld), .no(.pending), .no(.whole)], [.drop, .askAgain]),
        Row(
            [.listedForgetting], .server,
            [.no(.quarantined), .yes(.here), .no(.withheld), .no(.pending), .yes(.whole)],
            [.drop, .askAgain]),
        Row(
            [.listedForgetting], .server,
            [.no(.quarantined), .yes(.here), .no(.withheld), .no(.pending), .no(.whole)], [.askAgain]),
        Row([.reaping], .server, [.yes(.linked)], []),
        Row([.reaping], .server, [.no(.linked), .no(.here)], []),
        Row([.reaping], .server, [.no(.linked), .yes(.here), .no(.forgettable)], []),
        Row([.reaping], .server, [.no(.linked), .yes(.here), .yes(.forgettable)], [.drop]),
        Row([.hiding], nil, [.no(.here)], []),
        Row([.hiding], nil, [.yes(.here)], [.drop]),
    ]
}
