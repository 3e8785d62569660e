import CRDT
import Testing

@testable import Mimeo

@Suite("Parsing legacy queries on the command line")
struct ParseLegacyTests {
    @Test("a legacy query is shown as its tree and as DQL, a wrong one with its place")
    func legacy() {
        let good = ParseCommand.legacyAnswer("color == 'red' && sold != true")
        #expect(good["ok"] == true)
        #expect(good["dql"] == "color = 'red' AND sold != TRUE")
        #expect(good["ast"]?["node"] == "and")
        let bad = ParseCommand.legacyAnswer("color = = 'red'")
        #expect(bad["ok"] == false)
        #expect(bad["error"]?["column"] == 9)
    }
}
