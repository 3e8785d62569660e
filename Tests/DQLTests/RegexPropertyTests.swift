import DQLCorpus
import TestSupport
import Testing

@testable import DQL

@Suite("Regular expressions at random and under attack")
struct RegexPropertyTests {
    @Test("agrees with a naive matcher", arguments: Depth.cases(fast: 50, deep: 2_000))
    func agrees(seed: Int) throws {
        var choices = Choices(seed: UInt64(seed) + 777)
        for _ in 0..<40 {
            let sample = SamplePattern.random(&choices, depth: 3)
            let ignoresCase = choices.below(3) == 0
            let flags = try RegexFlags(ignoresCase ? "i" : "")
            let constant = try RegexPattern(sample.text, flags: flags)
            let computed = try RegexPattern(sample.text, flags: flags, isConstant: false)
            for _ in 0..<6 {
                let scalars = (0..<choices.below(9)).map { _ in
                    choices.pick(SamplePattern.alphabet)
                }
                let text = String(String.UnicodeScalarView(scalars))
                let naive = NaiveMatcher(text: scalars, ignoresCase: ignoresCase)
                let expected =
                    scalars.indices.contains { !naive.ends(of: sample, from: $0).isEmpty }
                    || !naive.ends(of: sample, from: scalars.count).isEmpty
                #expect(constant.matches(text) == expected, "\(sample.text) on \(text.debugDescription)")
                #expect(computed.matches(text) == expected, "\(sample.text) on \(text.debugDescription)")
            }
        }
    }

    @Test(
        "a hostile pattern takes twice as many steps for twice the text",
        arguments: [
            "(a*)*b", "(a|a)*b", "(a+)+$b", "((a*)*)*b", "(a|aa)+b", "(.*)*x", "(.*.*.*.*)*x",
            "((a{0,9}){0,9}){0,9}b",
            "(a?){40}a{40}b", "(\\b|a)*c", "^(([a-z])+.)+[A-Z]([a-z])+$", "(x+x+)+y", "(a|b|ab)*c",
        ])
    func linear(pattern: String) throws {
        let once = try Self.steps(pattern, String(repeating: "a", count: 2_000))
        let twice = try Self.steps(pattern, String(repeating: "a", count: 4_000))
        #expect(twice <= 2 * once)
        #expect(twice >= 4_000)
    }

    @Test("a pattern with more states than fit costs at most its size for each character")
    func manyStates() throws {
        var choices = Choices(seed: 5)
        let text = String((0..<24_000).map { _ in choices.pick(["a", "b"] as [Character]) })
        let pattern = "(a|b)*a(a|b){40}c"
        let program = try RegexProgram(RegexParser.parse(pattern, RegexFlags()), isWhole: false)
        var matcher = RegexMatcher(program)
        #expect(!Self.run(&matcher, text))
        #expect(matcher.tablesThrownAway > 0)
        #expect(matcher.steps <= (text.utf8.count + 1) * (program.instructions.count + 1))
    }

    @Test("any run of characters is a pattern or refused", arguments: Depth.cases(fast: 100, deep: 1_000))
    func soup(seed: Int) throws {
        var choices = Choices(seed: UInt64(seed) + 4_000)
        let letters = Array("()[]{}|*+?\\^$.-,:<>=!PizxbBdw#ab019 \nä%_").map(String.init)
        for _ in 0..<100 {
            let text = (0..<choices.below(14)).map { _ in choices.pick(letters) }.joined()
            let flags = try RegexFlags(choices.pick(["", "i", "x", "ms"]))
            let constant = try? RegexPattern(text, flags: flags)
            let computed = try? RegexPattern(text, flags: flags, isConstant: false)
            #expect(constant == computed)
            #expect(constant?.matches("ab\nä 0") == computed?.matches("ab\nä 0"), "\(text)")
            let whole = try? SimilarPattern(text)
            #expect((try? SimilarPattern(text, isConstant: false))?.matches("ab0") == whole?.matches("ab0"))
        }
    }

    @Test(
        "a SIMILAR TO of LIKE's wildcards alone is that LIKE", arguments: Depth.cases(fast: 100, deep: 1_000))
    func similarAndLike(seed: Int) throws {
        var choices = Choices(seed: UInt64(seed) + 5_000)
        for _ in 0..<50 {
            let pattern = (0..<choices.below(7)).map { _ in
                choices.pick(["%", "_", "a", "ä", "\\%", "."])
            }
            .joined()
            let like = LikePattern(pattern, ignoresCase: false)
            let similar = try SimilarPattern(pattern)
            for _ in 0..<6 {
                let text = (0..<choices.below(7)).map { _ in
                    choices.pick(["a", "ä", "%", ".", "\n"])
                }.joined()
                #expect(similar.matches(text) == like.matches(text), "\(pattern) on \(text)")
            }
        }
    }

    @Test("a part is found where a naive search finds it", arguments: Depth.cases(fast: 100, deep: 1_000))
    func search(seed: Int) {
        var choices = Choices(seed: UInt64(seed) + 6_000)
        for _ in 0..<50 {
            let part = (0..<choices.below(5)).map { _ in choices.pick(["a", "b", "ä"]) }.joined()
            var text = (0..<choices.below(20)).map { _ in choices.pick(["a", "b", "ä"]) }.joined()
            let bytes = Array(text.utf8)
            let wanted = (0...bytes.count).first { bytes[$0...].starts(with: part.utf8) }
            #expect(text.withUTF8 { ByteSearch(part).first(in: $0, from: 0) } == wanted, "\(part) in \(text)")
        }
    }

    @Test("the same holds for SIMILAR TO")
    func similar() throws {
        let program = try RegexProgram(SimilarParser.parse("(%a%)*(%b%)*c", escape: nil), isWhole: true)
        var once = RegexMatcher(program)
        var twice = RegexMatcher(program)
        #expect(!Self.run(&once, String(repeating: "ab", count: 2_000)))
        #expect(!Self.run(&twice, String(repeating: "ab", count: 4_000)))
        #expect(twice.steps <= 2 * once.steps)
    }

    private static func steps(_ pattern: String, _ text: String) throws -> Int {
        let program = try RegexProgram(RegexParser.parse(pattern, RegexFlags()), isWhole: false)
        var matcher = RegexMatcher(program)
        _ = run(&matcher, text)
        return matcher.steps
    }

    private static func run(_ matcher: inout RegexMatcher, _ text: String) -> Bool {
        var text = text
        return text.withUTF8 { matcher.run($0) }
    }
}

/// A random pattern: its text, and its meaning.
indirect enum SamplePattern {
    case scalar(Unicode.Scalar)
    case any
    case set([Unicode.Scalar], isInverted: Bool)
    case sequence([SamplePattern])
    case choice([SamplePattern])
    case repetition(SamplePattern, minimum: Int, maximum: Int?, text: String)
    case start, end, edge, noEdge

    static let alphabet: [Unicode.Scalar] = ["a", "b", "A", " ", "\n", "ä", "Ä", "_", "1"]

    static func random(_ choices: inout Choices, depth: Int) -> SamplePattern {
        guard depth > 0 else { return leaf(&choices) }
        switch choices.below(5) {
        case 0:
            return .choice((0..<2).map { _ in random(&choices, depth: depth - 1) })
        case 1, 2:
            return .sequence(
                (0..<(1 + choices.below(3))).map { _ in random(&choices, depth: depth - 1) })
        case 3:
            let bounds: [(Int, Int?, String)] = [
                (0, nil, "*"), (1, nil, "+"), (0, 1, "?"), (2, 2, "{2}"), (1, 3, "{1,3}"), (2, nil, "{2,}"),
                (0, nil, "*?"), (0, 0, "{0}"),
            ]
            let (minimum, maximum, text) = choices.pick(bounds)
            return .repetition(
                random(&choices, depth: depth - 1), minimum: minimum, maximum: maximum, text: text)
        default: return leaf(&choices)
        }
    }

    private static func leaf(_ choices: inout Choices) -> SamplePattern {
        switch choices.below(12) {
        case 0: return .any
        case 1: return .start
        case 2: return .end
        case 3: return .edge
        case 4: return .noEdge
        case 5, 6:
            let members = (0..<(1 + choices.below(3))).map { _ in choices.pick(alphabet) }
            return .set(members, isInverted: choices.below(2) == 0)
        default: return .scalar(choices.pick(alphabet))
        }
    }

    var text: String {
        switch self {
        case .scalar(let scalar): String(scalar)
        case .any: "."
        case .set(let members, let isInverted):
            "[" + (isInverted ? "^" : "") + members.map { String($0) }.joined() + "]"
        case .sequence(let parts): "(" + parts.map(\.text).joined() + ")"
        case .choice(let parts): "(?:" + parts.map(\.text).joined(separator: "|") + ")"
        case .repetition(let part, _, _, let text): "(" + part.text + ")" + text
        case .start: "^"
        case .end: "$"
        case .edge: "\\b"
        case .noEdge: "\\B"
        }
    }
}

/// Tries everything: from a place, all places where a pattern can end.
struct NaiveMatcher {
    let text: [Unicode.Scalar]
    let ignoresCase: Bool

    func ends(of pattern: SamplePattern, from start: Int) -> Set<Int> {
        switch pattern {
        case .scalar(let scalar): return one(start) { same($0, scalar) }
        case .any: return one(start) { $0 != "\n" }
        case .set(let members, let isInverted):
            return one(start) { scalar in members.contains { same($0, scalar) } != isInverted }
        case .sequence(let parts):
            return parts.reduce([start]) { places, part in
                Set(places.flatMap { ends(of: part, from: $0) })
            }
        case .choice(let parts): return Set(parts.flatMap { ends(of: $0, from: start) })
        case .repetition(let part, let minimum, let maximum, _):
            var places: Set<Int> = [start]
            for _ in 0..<minimum { places = Set(places.flatMap { ends(of: part, from: $0) }) }
            // Repeating more often than there are characters adds nothing.
            for _ in minimum..<max(minimum, maximum ?? minimum + text.count + 1) {
                places.formUnion(places.flatMap { ends(of: part, from: $0) })
            }
            return places
        case .start: return start == 0 ? [start] : []
        case .end: return start == text.count ? [start] : []
        case .edge: return isWord(start - 1) != isWord(start) ? [start] : []
        case .noEdge: return isWord(start - 1) == isWord(start) ? [start] : []
        }
    }

    private func one(_ place: Int, _ test: (Unicode.Scalar) -> Bool) -> Set<Int> {
        place < text.count && test(text[place]) ? [place + 1] : []
    }

    private func same(_ left: Unicode.Scalar, _ right: Unicode.Scalar) -> Bool {
        left == right
            || ignoresCase && left.properties.lowercaseMapping == right.properties.lowercaseMapping
    }

    private func isWord(_ place: Int) -> Bool {
        text.indices.contains(place)
            && (text[place] == "_" || text[place].isASCII && text[place].properties.isAlphabetic
                || "0"..."9" ~= text[place])
    }
}
