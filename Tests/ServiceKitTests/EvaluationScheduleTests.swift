import Testing

@testable import ServiceKit

@Suite("Whose evaluation comes next")
struct EvaluationScheduleTests {
    /// Arrives, without seats but those given.
    private func arrive(
        _ schedule: inout EvaluationSchedule, _ credential: String, seats: [EvaluationSeats] = [],
        isUrgent: Bool = false
    ) -> UInt64 { schedule.arrive(credential, seats: seats, isUrgent: isUrgent) }

    @Test("turns compute in as many places as there are, the others wait")
    func places() {
        var schedule = EvaluationSchedule(places: 2)
        let turns = (0..<3).map { _ in arrive(&schedule, "a") }
        #expect(schedule.next()?.id == turns[0])
        #expect(schedule.next()?.id == turns[1])
        #expect(schedule.next() == nil && schedule.waiting == 1)
        schedule.end(turns[0], usedNanoseconds: 1)
        #expect(schedule.next()?.id == turns[2])
    }

    @Test("a newcomer comes before fifty long turns of another credential")
    func newcomer() {
        var schedule = EvaluationSchedule(places: 1)
        for _ in 0..<50 { _ = arrive(&schedule, "heavy") }
        for _ in 0..<1_000 {
            guard let turn = schedule.next() else { break }
            schedule.pause(turn.id, usedNanoseconds: 10_000_000)
        }
        let honest = arrive(&schedule, "honest")
        #expect(schedule.next()?.id == honest)
    }

    @Test("credentials share the places alike, however many turns each has")
    func shares() {
        var schedule = EvaluationSchedule(places: 1)
        var owners: [UInt64: String] = [:]
        for _ in 0..<40 { owners[arrive(&schedule, "many")] = "many" }
        owners[arrive(&schedule, "one")] = "one"
        var slices: [String: Int] = [:]
        for _ in 0..<400 {
            guard let turn = schedule.next(), let owner = owners[turn.id] else { break }
            slices[owner, default: 0] += 1
            schedule.pause(turn.id, usedNanoseconds: 10_000_000)
        }
        #expect(abs((slices["one"] ?? 0) - 200) <= 2, "\(slices)")
    }

    @Test("a credential's own short turn comes before its long ones")
    func ownShort() {
        var schedule = EvaluationSchedule(places: 1)
        let long = arrive(&schedule, "a")
        _ = schedule.next()
        schedule.pause(long, usedNanoseconds: 50_000_000)
        let short = arrive(&schedule, "a")
        #expect(schedule.next()?.id == short)
    }

    @Test("moments without a turn are charged: who is a whole credit ahead of others who wait has to queue")
    func brief() {
        var schedule = EvaluationSchedule(places: 1)
        let credit = Limits.evaluationCreditNanoseconds
        // Nobody pays while he is alone.
        schedule.charge(brief: "a", 100 * credit)
        #expect(schedule.mayComputeBriefly("a"))
        let running = arrive(&schedule, "b")
        _ = schedule.next()
        _ = arrive(&schedule, "b")
        schedule.charge(brief: "a", credit - 1)
        #expect(schedule.mayComputeBriefly("a"))
        schedule.charge(brief: "a", 1)
        #expect(!schedule.mayComputeBriefly("a"))
        #expect(schedule.mayComputeBriefly("c"))
        // The others have had their time.
        schedule.pause(running, usedNanoseconds: credit)
        #expect(schedule.mayComputeBriefly("a"))
    }

    @Test("what moments cost delays the credential's turns, and is forgotten when nobody has one")
    func briefTurns() {
        var schedule = EvaluationSchedule(places: 1)
        let first = arrive(&schedule, "b")
        _ = schedule.next()
        schedule.charge(brief: "a", 50_000_000)
        let turns = [arrive(&schedule, "a"), arrive(&schedule, "b")]
        schedule.end(first, usedNanoseconds: 10_000_000)
        #expect(schedule.next()?.id == turns[1])
        schedule.end(turns[1], usedNanoseconds: 0)
        #expect(schedule.next()?.id == turns[0])
        schedule.end(turns[0], usedNanoseconds: 0)
        let later = [arrive(&schedule, "a"), arrive(&schedule, "b")]
        #expect(schedule.next()?.id == later[0])
    }

    @Test("who computed alone pays for a moment of it at most")
    func credit() {
        var schedule = EvaluationSchedule(places: 1)
        let early = arrive(&schedule, "early")
        for _ in 0..<1_000 {
            _ = schedule.next()
            schedule.pause(early, usedNanoseconds: 10_000_000)
        }
        let late = arrive(&schedule, "late")
        var before = 0
        while let turn = schedule.next(), turn.id == late {
            before += 1
            schedule.pause(late, usedNanoseconds: 10_000_000)
        }
        #expect(before <= Int(Limits.evaluationCreditNanoseconds / 10_000_000) + 1)
    }

    @Test("all other work comes before a credential that has had the processor for a moment without a pause")
    func lasting() {
        var schedule = EvaluationSchedule(places: 2)
        let turns = (0..<4).map { _ in arrive(&schedule, "many") }
        let other = arrive(&schedule, "one")
        let urgent = arrive(&schedule, "many", isUrgent: true)
        let moment = Limits.evaluationMoment.wholeNanoseconds
        schedule.note(turns[0], processorNanoseconds: moment / 2)
        schedule.note(turns[1], processorNanoseconds: moment / 2 - 1)
        #expect(!turns.contains(where: schedule.isLasting))
        // The whole time of the turn is named each time.
        schedule.note(turns[0], processorNanoseconds: moment / 2 + 1)
        #expect(turns.allSatisfy(schedule.isLasting))
        #expect(!schedule.isLasting(other) && !schedule.isLasting(urgent))
        for id in turns + [urgent] where schedule.withdraw(id) {}
        #expect(!schedule.isLasting(arrive(&schedule, "many")))
    }

    @Test("turns of low priority, which may stand still, keep nobody else from a place")
    func placesOfOthers() {
        var schedule = EvaluationSchedule(places: 2)
        let heavy = (0..<4).map { _ in arrive(&schedule, "heavy") }
        #expect(schedule.next()?.id == heavy[0] && schedule.next()?.id == heavy[1])
        let light = ["a", "b", "c"].map { arrive(&schedule, $0) }
        #expect(schedule.next() == nil)
        schedule.note(heavy[0], processorNanoseconds: Limits.evaluationMoment.wholeNanoseconds)
        #expect(schedule.next()?.id == light[0] && schedule.next()?.id == light[1])
        #expect(schedule.next() == nil && schedule.computing == 4)
        schedule.end(light[0], usedNanoseconds: 1)
        #expect(schedule.next()?.id == light[2])
        // The heavy ones share their own places.
        schedule.end(light[1], usedNanoseconds: 1)
        schedule.end(light[2], usedNanoseconds: 1)
        #expect(schedule.next() == nil)
        schedule.end(heavy[0], usedNanoseconds: 1)
        #expect(schedule.next()?.id == heavy[2])
    }

    @Test("one credential takes half of the seats, and some are left to those who have none")
    func seats() {
        var schedule = EvaluationSchedule(places: 1_000)
        let seats = EvaluationSeats(32)
        for _ in 0..<100 { _ = arrive(&schedule, "greedy", seats: [seats]) }
        var taken = 0
        while schedule.next() != nil { taken += 1 }
        #expect(taken == 9)
        for number in 0..<100 { _ = arrive(&schedule, "other-\(number)", seats: [seats]) }
        while schedule.next() != nil { taken += 1 }
        #expect(taken == 27)
        let urgent = arrive(&schedule, "greedy", seats: [seats], isUrgent: true)
        #expect(schedule.next()?.id == urgent)
    }

    @Test("a seat is free again when its turn has ended, and a turn that waits can be withdrawn")
    func leaving() {
        var schedule = EvaluationSchedule(places: 4)
        let seats = EvaluationSeats(4)
        let first = arrive(&schedule, "a", seats: [seats])
        let second = arrive(&schedule, "a", seats: [seats])
        let third = arrive(&schedule, "a", seats: [seats])
        #expect(schedule.next()?.id == first)
        #expect(schedule.next() == nil)
        #expect(schedule.withdraw(second) && !schedule.withdraw(second) && !schedule.withdraw(first))
        schedule.end(first, usedNanoseconds: 5)
        #expect(schedule.next()?.id == third)
        schedule.end(third, usedNanoseconds: 5)
        #expect(schedule.count == 0 && schedule.waiting == 0 && schedule.computing == 0)
    }

    @Test("drawn histories keep the counts, and everybody's turn comes")
    func drawn() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<40 {
            var schedule = EvaluationSchedule(places: Int.random(in: 1...4, using: &generator))
            let seats = EvaluationSeats(Int.random(in: 4...12, using: &generator))
            var computing: [UInt64] = []
            var waiting: Set<UInt64> = []
            for _ in 0..<300 {
                switch Int.random(in: 0..<4, using: &generator) {
                case 0:
                    waiting.insert(
                        arrive(
                            &schedule, "c\(Int.random(in: 0..<4, using: &generator))", seats: [seats],
                            isUrgent: Int.random(in: 0..<10, using: &generator) == 0))
                case 1:
                    while let turn = schedule.next() {
                        #expect(waiting.remove(turn.id) != nil)
                        computing.append(turn.id)
                    }
                case 2 where !computing.isEmpty:
                    let id = computing.remove(at: Int.random(in: computing.indices, using: &generator))
                    schedule.pause(id, usedNanoseconds: UInt64.random(in: 0...20_000_000, using: &generator))
                    waiting.insert(id)
                case 3 where !computing.isEmpty:
                    let id = computing.remove(at: Int.random(in: computing.indices, using: &generator))
                    schedule.end(id, usedNanoseconds: UInt64.random(in: 0...20_000_000, using: &generator))
                default: break
                }
                #expect(schedule.computing == computing.count && schedule.waiting == waiting.count)
                #expect(schedule.count == computing.count + waiting.count)
            }
            var left = schedule.count
            for id in computing { schedule.end(id, usedNanoseconds: 1) }
            left -= computing.count
            while let turn = schedule.next() {
                schedule.end(turn.id, usedNanoseconds: 1)
                left -= 1
            }
            #expect(left == 0 && schedule.count == 0)
        }
    }
}
