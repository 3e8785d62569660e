import CRDT
import ServiceKit
import TestSupport
import Testing

/// Statements of two and three writers, interleaved in every way, against the answers and documents that the
/// same statements give one after the other in some order.
///
/// Writers of one service meet in its lane: their statements are drafted, appended and folded in groups.
/// Writers of several services meet in the log: one drafts, the others write, and the first one appends.
@Suite("Interleavings of writers", .timeLimit(.minutes(10)))
struct InterleavingTests {
    /// Statements on a collection `$`, which begins with the documents 1 and 2.
    private static let statements = [
        "UPDATE $ SET n = n + 1 WHERE _id = 1",
        "UPDATE $ SET n = n * 2 + 5 WHERE _id = 1",
        "DELETE FROM $ WHERE _id = 1",
        "INSERT INTO $ DOCUMENTS ({'_id': 1, 'n': 7})",
        "INSERT INTO $ DOCUMENTS ({'_id': 3, 'n': 5}) ON ID CONFLICT DO UPDATE",
        "UPDATE $ SET n = n + 100 WHERE n < 3",
        "UPDATE $ SET n = (SELECT RAW MAX(n) FROM $) + 1 WHERE _id = 2",
        "UPDATE $ SET n = (SELECT RAW COUNT(*) FROM $ WHERE n >= 0) * 10 WHERE _id = 1",
        "INSERT INTO $ SELECT 's' AS _id, SUM(n) AS n FROM $ WHERE _id IN (1, 2) ON ID CONFLICT DO UPDATE",
    ]

    /// The sets of two and three of them, by their places.
    private static let sets: [[Int]] = {
        var sets: [[Int]] = []
        for first in statements.indices {
            for second in statements.indices where second > first {
                sets.append([first, second])
                for third in statements.indices where third > second { sets.append([first, second, third]) }
            }
        }
        return sets
    }()

    /// Some of the sets: other ones in each run, and all in a deep one.
    private static func drawn(_ fast: Int, _ random: inout SplitMix64) -> [[Int]] {
        Array(sets.shuffled(using: &random).prefix(Depth.pick(fast: fast, deep: sets.count)))
    }

    private static func orders(_ places: [Int]) -> [[Int]] {
        guard places.count > 1 else { return [places] }
        return places.flatMap { first in orders(places.filter { $0 != first }).map { [first] + $0 } }
    }

    /// The answers by statement, and the documents at the end.
    private struct Outcome: Hashable, CustomStringConvertible {
        var answers: [Int: String] = [:]
        var rows: [String] = []
        var description: String { "\(answers.sorted { $0.key < $1.key }.map(\.value)) \(rows)" }
    }

    /// Gives collections names of their own. Used by one task at a time.
    private actor Names {
        private var count = 0

        func next() -> String {
            count += 1
            return "c\(count)"
        }
    }

    private let names = Names()
    /// A machine that does much else may take its time; no statement ends for that.
    private static let patient = {
        var options = EvaluationOptions()
        options.statementTime = .seconds(300)
        return options
    }()

    private func collection(_ client: QueryClient) async throws -> String {
        let name = await names.next()
        let made = try await client.execute(
            "INSERT INTO \(name) DOCUMENTS ({'_id': 1, 'n': 1}), ({'_id': 2, 'n': 2})")
        #expect(made.status == 200)
        return name
    }

    private static func answer(
        of place: Int, in collection: String, _ client: QueryClient
    ) async throws -> String {
        let statement = statements[place].replacing("$", with: collection)
        let answer = try await client.execute(statement)
        let ids = answer.body["mutatedDocumentIds"].map { JSONText.print($0) } ?? ""
        return "\(answer.status) \(answer.code ?? "") \(ids)"
    }

    private static func rows(of collection: String, _ client: QueryClient) async throws -> [String] {
        try await client.execute("SELECT * FROM \(collection)").rows
    }

    /// The outcomes of the statements one after the other, in every order.
    private func serial(_ places: [Int], _ client: QueryClient) async throws -> Set<Outcome> {
        var outcomes: Set<Outcome> = []
        for order in Self.orders(places) {
            let collection = try await collection(client)
            var outcome = Outcome()
            for place in order {
                outcome.answers[place] = try await Self.answer(of: place, in: collection, client)
            }
            outcome.rows = try await Self.rows(of: collection, client)
            outcomes.insert(outcome)
        }
        return outcomes
    }

    @Test("writers who meet in the lane of a service are answered as in some order")
    func ofOneService() async throws {
        let seed = Depth.seed
        try await QueryBench.each { bench in
            let log = try await bench.openLog()
            let token = bench.token(user: "bob")
            try await bench.serving(log, evaluation: Self.patient) { ada async throws in
                var random = SplitMix64(seed: seed)
                let bob = ada.with(token: token)
                for places in Self.drawn(2, &random) {
                    let serial = try await serial(places, ada)
                    for order in Self.orders(places) {
                        let outcome = try await meeting(order, ada, bob)
                        #expect(serial.contains(outcome), "\(seed): \(order): \(outcome)")
                    }
                }
            }
            await log.close()
        }
    }

    /// All statements at once, behind a write that keeps the lane busy.
    private func meeting(_ order: [Int], _ ada: QueryClient, _ bob: QueryClient) async throws -> Outcome {
        let collection = try await collection(ada)
        return try await withThrowingTaskGroup(of: (Int, String)?.self) { group in
            group.addTask {
                _ = try await ada.execute("INSERT INTO busy DOCUMENTS ({'n': 1})")
                return nil
            }
            for (number, place) in order.enumerated() {
                group.addTask {
                    let client = number.isMultiple(of: 2) ? bob : ada
                    return (place, try await Self.answer(of: place, in: collection, client))
                }
            }
            var outcome = Outcome()
            for try await one in group {
                if let (place, answer) = one { outcome.answers[place] = answer }
            }
            outcome.rows = try await Self.rows(of: collection, ada)
            return outcome
        }
    }

    @Test("writers of several services, one of whom drafts before and appends after others write, too")
    func ofSeveralServices() async throws {
        let seed = Depth.seed
        try await QueryBench.each { bench in
            let logs = [MeddledLog(try await bench.openLog()), MeddledLog(try await bench.openLog())]
            let last = try await bench.openLog()
            try await bench.serving(logs[0], projection: "one", evaluation: Self.patient) {
                one async throws in
                try await bench.serving(logs[1], projection: "two", evaluation: Self.patient) {
                    two async throws in
                    try await bench.serving(last, projection: "three", evaluation: Self.patient) {
                        three async throws in
                        var random = SplitMix64(seed: seed)
                        let clients = [one, two, three]
                        for places in Self.drawn(1, &random) {
                            let serial = try await serial(places, three)
                            for order in Self.orders(places) {
                                for isNested in order.count > 2 ? [false, true] : [false] {
                                    let outcome = try await interleaved(order, isNested, clients, logs)
                                    #expect(
                                        serial.contains(outcome), "\(seed): \(order) \(isNested): \(outcome)")
                                }
                            }
                        }
                    }
                }
            }
            for log in logs { await log.close() }
            await last.close()
        }
    }

    /// The first statement drafts; the others write; it appends. Nested, the second one drafts, the third one
    /// writes, the second one appends, and then the first one.
    private func interleaved(
        _ order: [Int], _ isNested: Bool, _ clients: [QueryClient], _ logs: [MeddledLog]
    ) async throws -> Outcome {
        let collection = try await collection(clients[2])
        let answers = Answers()
        @Sendable func write(_ number: Int) async throws {
            let answer = try await Self.answer(of: order[number], in: collection, clients[number])
            await answers.note(order[number], answer)
        }
        logs[0].meddle {
            if isNested { logs[1].meddle { try await write(2) } }
            for number in order.indices.dropFirst() where !(isNested && number == 2) {
                try await write(number)
            }
        }
        try await write(0)
        // One that had nothing to append has not let the others in.
        logs[0].meddle {}
        logs[1].meddle {}
        for number in order.indices where await answers.all[order[number]] == nil { try await write(number) }
        return Outcome(answers: await answers.all, rows: try await Self.rows(of: collection, clients[2]))
    }

    private actor Answers {
        private(set) var all: [Int: String] = [:]

        func note(_ place: Int, _ answer: String) { all[place] = answer }
    }
}
