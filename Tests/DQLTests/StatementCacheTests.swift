import CRDT
import DQL
import DQLCorpus
import TestSupport
import Testing

@Suite("Statement cache")
struct StatementCacheTests {
    private func statement(_ text: String) throws -> PreparedStatement { try StatementCompiler.compile(text) }

    @Test("a text that was inserted is found, another one is not")
    func lookup() throws {
        var cache = StatementCache(capacity: 4)
        #expect(cache.lookup("SELECT 1 FROM c") == nil)
        cache.insert(try statement("SELECT 1 FROM c"))
        #expect(cache.lookup("SELECT 1 FROM c")?.text == "SELECT 1 FROM c")
        #expect(cache.lookup("select 1 from c") == nil)
        #expect(cache.statistics.hits == 1 && cache.statistics.misses == 2)
    }

    @Test("the least recently used statement goes first")
    func order() throws {
        var cache = StatementCache(capacity: 3)
        let texts = (0..<5).map { "SELECT \($0) FROM c" }
        for text in texts[..<3] { cache.insert(try statement(text)) }
        #expect(cache.lookup(texts[0]) != nil)
        cache.insert(try statement(texts[3]))
        #expect(cache.lookup(texts[1]) == nil)
        cache.insert(try statement(texts[4]))
        #expect(texts.map { cache.lookup($0) != nil } == [true, false, false, true, true])
        #expect(cache.statistics.evictions == 2)
        #expect(cache.count == 3)
    }

    @Test("inserting again changes nothing")
    func twice() throws {
        var cache = StatementCache(capacity: 3)
        cache.insert(try statement("SELECT 1 FROM c"))
        cache.insert(try statement("SELECT 1 FROM c"))
        #expect(cache.count == 1)
    }

    @Test("a capacity of zero holds nothing, and resizing drops what is too much")
    func resizing() throws {
        var none = StatementCache(capacity: 0)
        none.insert(try statement("SELECT 1 FROM c"))
        #expect(none.lookup("SELECT 1 FROM c") == nil)
        var cache = StatementCache(capacity: 3)
        for number in 0..<3 { cache.insert(try statement("SELECT \(number) FROM c")) }
        cache.resize(to: 1)
        #expect(cache.count == 1)
        #expect(cache.lookup("SELECT 2 FROM c") != nil)
        cache.resize(to: 2)
        cache.insert(try statement("SELECT 7 FROM c"))
        #expect(cache.count == 2)
    }

    @Test("texts that are equal for Swift and differ in bytes are two statements")
    func bytes() throws {
        var cache = StatementCache(capacity: 4)
        cache.insert(try statement("SELECT 'e\u{301}' FROM c"))
        #expect(cache.lookup("SELECT '\u{e9}' FROM c") == nil)
    }

    @Test("long texts are not held, and all texts together are bounded")
    func textBytes() throws {
        var cache = StatementCache(capacity: 10_000)
        let filler = String(repeating: "x", count: DQLLimits.cachedTextBytes)
        cache.insert(try statement("SELECT '\(filler)' FROM c"))
        #expect(cache.count == 0)
        let most = String(repeating: "x", count: DQLLimits.cachedTextBytes - 100)
        for number in 0..<300 { cache.insert(try statement("SELECT \(number), '\(most)' FROM c")) }
        #expect(cache.count < 300)
        #expect(
            cache.count * DQLLimits.cachedTextBytes <= DQLLimits.cacheTextBytes + DQLLimits.cachedTextBytes)
        #expect(cache.lookup("SELECT 299, '\(most)' FROM c") != nil)
    }

    @Test("rows tell the statements, the most recently used first")
    func rows() throws {
        var cache = StatementCache(capacity: 4)
        cache.insert(try statement("SELECT * FROM c"))
        cache.insert(try statement("DELETE FROM c"))
        _ = cache.lookup("SELECT * FROM c")
        #expect(cache.rows.map { $0["statement"] } == ["SELECT * FROM c", "DELETE FROM c"])
        #expect(cache.rows.map { $0["uses"] } == [2, 1])
        #expect(cache.rows.map { $0["queryType"] } == ["select", "delete"])
    }

    @Test("it agrees with a list that is searched", arguments: Depth.cases(fast: 20, deep: 200))
    func model(seed: Int) throws {
        var random = Choices(seed: UInt64(seed) + 77)
        var cache = StatementCache(capacity: 5)
        var model: [String] = []
        for _ in 0..<300 {
            let text = "SELECT \(random.below(9)) FROM c"
            let isHeld = model.contains(text)
            #expect((cache.lookup(text) != nil) == isHeld)
            model.removeAll { $0 == text }
            model.insert(text, at: 0)
            if !isHeld { cache.insert(try statement(text)) }
            model = Array(model.prefix(5))
        }
        #expect(cache.rows.compactMap { $0["statement"]?.stringValue } == model)
    }
}
