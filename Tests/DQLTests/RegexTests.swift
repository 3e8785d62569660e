import Testing

@testable import DQL

@Suite("Regular expressions")
struct RegexTests {
    static let matching: [(String, String, String)] = [
        ("", "", ""), ("", "x", ""), ("a", "cab", ""), ("^a", "ab", ""), ("b$", "ab", ""), ("^$", "", ""),
        ("a.c", "abc", ""), ("a.c", "a\nc", "s"), ("^b", "a\nb", "m"), ("a$", "a\nb", "m"),
        ("[a-c]x", "bx", ""), ("[^a-c]", "d", ""), ("[]a]+", "]", ""), ("[^]a]", "b", ""), ("[a-]", "-", ""),
        ("[\\w.-]+@", "jo.hn-x@", ""), ("[\\d-x]", "-", ""), ("[[:alpha:]]", "q", ""),
        ("[[:^alpha:]]", "1", ""),
        ("\\d{3}", "a123", ""), ("\\D\\S\\W", "ab ", ""), ("\\bfoo\\b", "a foo.", ""), ("\\Boo", "foo", ""),
        ("a|b|", "c", ""), ("(ab)+c", "ababc", ""), ("(?:ab)?c", "c", ""), ("(?<n>a)(?P<m>b)", "ab", ""),
        ("a{2}", "caa", ""), ("^a{1,2}b", "aab", ""), ("a{2,}", "aaa", ""), ("a{,2}", "a{,2}", ""),
        ("x{", "x{", ""), ("a*?b+?c??", "b", ""), ("ABC", "xabc", "i"), ("(?i)ABC", "abc", ""),
        ("(?i:A)B", "aB", ""), ("a(?i)b|C", "ac", ""), ("(?-i)a", "a", "i"), ("[A-C]", "b", "i"),
        ("[^a]", "b", "i"), ("STRASSE Ä", "strasse ä", "i"), ("Ω", "ω", "i"), ("k", "\u{212A}", "i"),
        ("\\x41\\u0042\\x{43}", "ABC", ""), ("\\t\\.\\\\", "\t.\\", ""), (" a # c\n b", "ab", "x"),
        ("a\\ b", "a b", "x"), ("\\Aa\\z", "a", ""), (".", "😀", ""), ("^.$", "😀", ""), ("[ä-ü]", "ö", ""),
        ("(a|ab)(c|bcd)$", "abcd", ""), ("(a*)*b", "b", ""), ("(|a)+$", "aaa", ""), ("(^a|b)c", "abc", ""),
    ]

    @Test("a pattern matches if it fits a part of a text", arguments: matching)
    func matches(_ pattern: String, _ text: String, _ flags: String) throws {
        #expect(try RegexPattern(pattern, flags: RegexFlags(flags)).matches(text))
        #expect(try RegexPattern(pattern, flags: RegexFlags(flags), isConstant: false).matches(text))
    }

    static let differing: [(String, String, String)] = [
        ("a", "", ""), ("a", "A", ""), ("a", "A", "ic"), ("^a", "ba", ""), ("^b", "a\nb", ""),
        ("a$", "a\n", ""),
        (".", "\n", ""), ("[^a]", "A", "i"), ("\\w", "ä", ""), ("\\bfoo\\b", "foox", ""), ("a{3}", "aa", ""),
        ("^a{1,2}$", "aaa", ""), ("a b", "a b", "x"), ("\\W", "K", "i"), ("^(a|b)*$", "abc", ""),
        ("a(?i)b", "Ab", ""), ("(?i:a)b", "AB", ""), ("[a-c]", "d", ""), ("^.$", "ab", ""), ("ß", "SS", "i"),
    ]

    @Test("a pattern that fits no part of a text does not match it", arguments: differing)
    func differs(_ pattern: String, _ text: String, _ flags: String) throws {
        #expect(try !RegexPattern(pattern, flags: RegexFlags(flags)).matches(text))
        #expect(try !RegexPattern(pattern, flags: RegexFlags(flags), isConstant: false).matches(text))
    }

    static let invalid: [(String, Int, String)] = [
        ("a(b", 1, "without its ')'"), ("ab)", 2, "unmatched"), ("[a", 0, "without its ']'"),
        ("*a", 0, "nothing"),
        ("a|+", 2, "nothing"), ("{2}", 0, "nothing"), ("a**", 2, "of a repetition"), ("a{2}{3}", 4, "of a"),
        ("a{3,2}", 1, "swapped"), ("a{1001}", 2, "more than 1000"), ("[z-a]", 1, "range"),
        ("\\q", 0, "not an escape"),
        ("(a)\\1", 3, "references"), ("(?=a)", 0, "ahead"), ("(?!a)", 0, "ahead"), ("(?<=a)", 0, "behind"),
        ("(?<n", 4, "ends"), ("(?<n-)", 0, "name"), ("(?Px)", 0, "(?P"), ("(?q)", 2, "not supported"),
        ("(?i)*", 4, "nothing"),
        ("a\\", 2, "ends"), ("\\x4", 0, "names no"), ("\\x{110000}", 0, "names no"),
        ("[[:nope:]]", 1, "not a set"),
        ("[\\b]", 1, "not an escape"), ("((a{50}){50}){50}", 0, "too large"),
        ("((((){999}){999}){999})", 0, "large"),
        (String(repeating: "a", count: 2_049), 2_048, "longer"),
        (String(repeating: "(", count: 65), 64, "nest deeper"),
    ]

    @Test("an invalid pattern is refused with the place and the reason", arguments: invalid)
    func refused(_ pattern: String, _ position: Int, _ reason: String) throws {
        let error = #expect(throws: RegexError.self) { try RegexPattern(pattern) }
        #expect(error?.position == position, "\(error?.message ?? "")")
        #expect(error?.message.contains(reason) ?? false, "\(error?.message ?? "")")
    }

    @Test("an unknown flag is refused")
    func unknownFlag() {
        let error = #expect(throws: RegexError.self) { try RegexFlags("ig") }
        #expect(error?.position == 1)
    }

    @Test("patterns are equal by their texts and flags")
    func equality() throws {
        #expect(try RegexPattern("a") == RegexPattern("a", isConstant: false))
        #expect(try RegexPattern("a") != RegexPattern("a", flags: RegexFlags("i")))
        #expect(try SimilarPattern("a") == SimilarPattern("a"))
        #expect(try SimilarPattern("a") != SimilarPattern("a", escape: nil))
    }
}

@Suite("SIMILAR TO patterns")
struct SimilarPatternTests {
    @Test(
        "whole texts match",
        arguments: [
            ("abc", "abc"), ("a%", "abc"), ("a_c", "a\nc"), ("%(b|d)%", "abc"), ("a|b|", ""),
            ("[a-c]+", "cab"),
            ("[^a-c]", "d"), ("a.c", "a.c"), ("^a$", "^a$"), ("(ab){2}", "abab"), ("a{1,2}b?", "aa"),
            ("a{2,}", "aaa"),
            ("a\\%", "a%"), ("a\\|b", "a|b"), ("[\\]]", "]"), ("[]]", "]"), ("[[:digit:]]*", "42"),
            ("\\\\", "\\"),
            ("\\(a\\)*", "(a)))"), ("", ""), ("😀_", "😀ä"),
        ])
    func matches(_ pattern: String, _ text: String) throws {
        #expect(try SimilarPattern(pattern).matches(text))
    }

    @Test(
        "texts of which only a part matches, or nothing",
        arguments: [
            ("abc", "abcd"), ("abc", "xabc"), ("a.c", "abc"), ("a_", "a"), ("[a-c]", "ab"), ("a|b", "ab"),
            ("(ab){2}", "ab"), ("a\\%", "ab"), ("ABC", "abc"), ("a+", ""),
        ])
    func differs(_ pattern: String, _ text: String) throws {
        #expect(try !SimilarPattern(pattern).matches(text))
    }

    @Test("a pattern of SIMILAR TO takes another escape character, or none")
    func escapes() throws {
        #expect(try SimilarPattern("a!%", escape: "!").matches("a%"))
        #expect(try !SimilarPattern("a!%", escape: "!").matches("ab"))
        #expect(try SimilarPattern("a|%%", escape: "%").matches("%"))
        #expect(try SimilarPattern("a\\_", escape: nil).matches("a\\b"))
    }

    @Test(
        "an invalid pattern of SIMILAR TO is refused with its place",
        arguments: [
            ("(a", 0), ("a)", 1), ("*", 0), ("a|?", 2), ("[a", 0), ("a+*", 2), ("{", 0), ("a\\", 2),
            ("[z-a]", 1),
            ("a{9,1}", 1), ("((a{50}){50}){50}", 0),
        ])
    func refused(_ pattern: String, _ position: Int) {
        let error = #expect(throws: RegexError.self) { try SimilarPattern(pattern) }
        #expect(error?.position == position, "\(error?.message ?? "")")
    }
}
