import Sync
import Testing

@testable import Transport

@Suite("The states of a pump")
struct PumpMachineTests {
    private enum Step {
        case begin, put, claim, putBack, next, goesOn
    }

    /// Takes the steps; the answer to each as a word.
    private static func take(_ steps: Step..., of machine: inout PumpMachine<Int>) -> [String] {
        steps.map { step in
            switch step {
            case .begin:
                machine.begin(7)
                return "begun"
            case .put:
                switch machine.put({ $0.put(.unsubscribe(key: [1])) }) {
                case .waits: return "waits"
                case .wakes(let run): return "wakes \(run)"
                case .refused: return "refused"
                }
            case .claim: return machine.claim().map { "runs \($0)" } ?? "nobody"
            case .putBack:
                machine.putBack(frame: [1], handled: {})
                return "put back"
            case .next: return machine.next().map { $0.handled == nil ? "event" : "frame" } ?? "rests"
            case .goesOn: return machine.goesOn() ? "goes on" : "rests"
            }
        }
    }

    @Test("events wait for the beginning, and then for the one who runs the session")
    func beginning() {
        var machine = PumpMachine<Int>()
        #expect(Self.take(.put, .claim, of: &machine) == ["waits", "nobody"])
        #expect(Self.take(.begin, .put, .next, .next, of: &machine) == ["begun", "waits", "event", "event"])
        #expect(!machine.isIdle)
        #expect(Self.take(.next, of: &machine) == ["rests"])
        #expect(machine.isIdle)
    }

    @Test("an event of a session at rest wakes one who runs it, and no second")
    func waking() {
        var machine = PumpMachine<Int>()
        #expect(
            Self.take(.begin, .next, .put, .put, .claim, of: &machine)
                == ["begun", "rests", "wakes 7", "waits", "nobody"])
        #expect(
            Self.take(.next, .next, .next, .claim, of: &machine) == ["event", "event", "rests", "runs 7"])
    }

    @Test("one claims a session at rest for an event at hand, and goes on with what came meanwhile")
    func claiming() {
        var machine = PumpMachine<Int>()
        _ = Self.take(.begin, .next, of: &machine)
        #expect(Self.take(.claim, .claim, .goesOn, of: &machine) == ["runs 7", "nobody", "rests"])
        #expect(
            Self.take(.claim, .put, .goesOn, .next, .next, of: &machine)
                == ["runs 7", "waits", "goes on", "event", "rests"])
    }

    @Test("a frame that is put back keeps its place among the events")
    func puttingBack() {
        var machine = PumpMachine<Int>()
        _ = Self.take(.begin, .next, .claim, of: &machine)
        #expect(
            Self.take(.putBack, .put, .goesOn, .next, .next, .next, of: &machine)
                == ["put back", "waits", "goes on", "frame", "event", "rests"])
    }

    @Test("the end hands out what waits and what is under way, and refuses everything after it")
    func ending() {
        var machine = PumpMachine<Int>()
        _ = Self.take(.begin, .put, of: &machine)
        machine.perform { _ in Task {} }
        machine.perform { _ in Task {} }
        machine.performed(1)
        let ended = machine.end()
        #expect(!ended.waiting.isEmpty)
        #expect(ended.performing.count == 1)
        #expect(Self.take(.put, .claim, of: &machine) == ["refused", "nobody"])
        machine.perform { _ in
            Issue.record("nothing is performed after the end")
            return Task {}
        }
        machine.performed(2)
    }
}
