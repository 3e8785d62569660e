/// A prepared pattern of `regexp_like`. Matching takes time linear in the text, whatever the pattern.
struct RegexPattern: Equatable, Sendable {
    private let pattern: String
    private let flags: RegexFlags
    private let matcher: RegexMatcher

    /// - Parameter isConstant: the pattern will meet many texts, so their states are built at once.
    init(_ pattern: String, flags: RegexFlags = RegexFlags(), isConstant: Bool = true) throws(RegexError) {
        self.pattern = pattern
        self.flags = flags
        let tree = try RegexParser.parse(pattern, flags)
        var matcher = RegexMatcher(try RegexProgram(tree, isWhole: false))
        if isConstant { matcher.warm() }
        self.matcher = matcher
    }

    /// Returns whether a part of the text matches.
    func matches(_ text: String) -> Bool { matches(text) {} }

    /// Returns whether a part of the text matches. `goOn` is called now and then, and ends the match by
    /// throwing.
    func matches(_ text: String, goOn: () throws -> Void) rethrows -> Bool {
        try RegexPattern.run(matcher, text, goOn)
    }

    static func == (left: RegexPattern, right: RegexPattern) -> Bool {
        left.flags == right.flags && left.pattern.utf8.elementsEqual(right.pattern.utf8)
    }

    static func run(
        _ prepared: RegexMatcher, _ text: String, _ goOn: () throws -> Void
    ) rethrows -> Bool {
        var matcher = prepared
        var text = text
        return try text.withUTF8 { try matcher.run($0, goOn: goOn) }
    }
}

/// A prepared pattern of SIMILAR TO. It matches whole texts, in time linear in them.
struct SimilarPattern: Equatable, Sendable {
    private let pattern: String
    private let escape: Unicode.Scalar?
    private let matcher: RegexMatcher

    /// - Parameters:
    ///   - escape: the character that makes the next one literal; nil for none.
    ///   - isConstant: the pattern will meet many texts, so their states are built at once.
    init(
        _ pattern: String, escape: Unicode.Scalar? = LikePattern.defaultEscape, isConstant: Bool = true
    ) throws(RegexError) {
        self.pattern = pattern
        self.escape = escape
        let tree = try SimilarParser.parse(pattern, escape: escape)
        var matcher = RegexMatcher(try RegexProgram(tree, isWhole: true))
        if isConstant { matcher.warm() }
        self.matcher = matcher
    }

    /// Returns whether the whole text matches.
    func matches(_ text: String) -> Bool { matches(text) {} }

    /// Returns whether the whole text matches; `goOn` as for a `RegexPattern`.
    func matches(_ text: String, goOn: () throws -> Void) rethrows -> Bool {
        try RegexPattern.run(matcher, text, goOn)
    }

    /// How many bytes of text a match may read, for a text of `textBytes`: at each of them it may be at
    /// every instruction of the pattern.
    func work(textBytes: Int) -> Int {
        let (work, isTooMuch) = textBytes.multipliedReportingOverflow(by: matcher.program.instructions.count)
        return isTooMuch ? .max : work
    }

    static func == (left: SimilarPattern, right: SimilarPattern) -> Bool {
        left.escape == right.escape && left.pattern.utf8.elementsEqual(right.pattern.utf8)
    }
}
