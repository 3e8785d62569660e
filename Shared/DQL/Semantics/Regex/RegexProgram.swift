/// A pattern as a nondeterministic automaton (Thompson's construction), which the matcher walks.
///
/// Immutable and shared. Its size is bounded by `DQLLimits.patternInstructions`, which bounds the cost of one
/// character of a text.
final class RegexProgram: Sendable {
    enum Instruction: Equatable, Sendable {
        /// Takes one character of a set (by its index among the program's sets).
        case take(set: Int, next: Int)
        case fork(Int, Int)
        case jump(Int)
        case assert(RegexAssertion, next: Int)
        case match
    }

    /// The instructions; matching starts at 0.
    let instructions: [Instruction]
    let classes: ScalarClasses
    /// True if a match has to begin where the text does.
    let isAnchored: Bool
    /// The facts to keep about the character before a place: a mask of `RegexMatcher.Context` bits.
    let contextMask: UInt64

    /// - Parameter isWhole: the pattern has to match the whole text, not a part of it.
    init(_ tree: RegexTree, isWhole: Bool) throws(RegexError) {
        var builder = RegexBuilder()
        try builder.emit(tree)
        if isWhole { try builder.append(.assert(.textEnd, next: builder.instructions.count + 1)) }
        try builder.append(.match)
        instructions = builder.instructions
        classes = ScalarClasses(
            builder.sets, extra: [builder.usesWords ? .word : nil, builder.usesLines ? .lineFeed : nil])
        isAnchored = isWhole || tree.startsAtTextStart
        contextMask = builder.contextMask
    }
}

extension RegexTree {
    /// True if nothing can match except at the text's start.
    fileprivate var startsAtTextStart: Bool {
        switch self {
        case .assertion(.textStart): true
        case .sequence(let parts): parts.first?.startsAtTextStart ?? false
        case .choice(let branches): branches.allSatisfy(\.startsAtTextStart)
        default: false
        }
    }
}

/// Writes a program for a tree.
private struct RegexBuilder {
    private(set) var instructions: [RegexProgram.Instruction] = []
    private(set) var sets: [ScalarSet] = []
    private(set) var usesWords = false
    private(set) var usesLines = false
    private(set) var contextMask: UInt64 = 0
    private var places: [ScalarSet: Int] = [:]
    /// Counts visited parts: repetitions of nothing write nothing, and still have to end.
    private var visited = 0

    mutating func append(_ instruction: RegexProgram.Instruction) throws(RegexError) {
        guard instructions.count < DQLLimits.patternInstructions else { throw Self.tooLarge }
        instructions.append(instruction)
    }

    private static let tooLarge = RegexError(
        position: 0,
        message: "the pattern is too large: with its repetitions written out it has more than"
            + " \(DQLLimits.patternInstructions) steps")

    mutating func emit(_ tree: RegexTree) throws(RegexError) {
        visited += 1
        guard visited <= 4 * DQLLimits.patternInstructions else { throw Self.tooLarge }
        switch tree {
        case .empty: break
        case .one(let set): try append(.take(set: place(of: set), next: instructions.count + 1))
        case .sequence(let parts): for part in parts { try emit(part) }
        case .choice(let branches): try emit(branches: branches)
        case .repetition(let part, let minimum, let maximum):
            try emit(part, minimum: minimum, maximum: maximum)
        case .assertion(let assertion):
            remember(assertion)
            try append(.assert(assertion, next: instructions.count + 1))
        }
    }

    private mutating func place(of set: ScalarSet) -> Int {
        if let known = places[set] { return known }
        places[set] = sets.count
        sets.append(set)
        return sets.count - 1
    }

    private mutating func remember(_ assertion: RegexAssertion) {
        switch assertion {
        case .textEnd: break
        case .textStart: contextMask |= RegexMatcher.Context.textStart
        case .lineStart:
            usesLines = true
            contextMask |= RegexMatcher.Context.textStart | RegexMatcher.Context.lineFeed
        case .lineEnd: usesLines = true
        case .wordEdge, .noWordEdge:
            usesWords = true
            contextMask |= RegexMatcher.Context.word
        }
    }

    private mutating func emit(branches: [RegexTree]) throws(RegexError) {
        var ends: [Int] = []
        for branch in branches.dropLast() {
            let fork = instructions.count
            try append(.fork(fork + 1, 0))
            try emit(branch)
            ends.append(instructions.count)
            try append(.jump(0))
            instructions[fork] = .fork(fork + 1, instructions.count)
        }
        if let last = branches.last { try emit(last) }
        for end in ends { instructions[end] = .jump(instructions.count) }
    }

    private mutating func emit(_ part: RegexTree, minimum: Int, maximum: Int?) throws(RegexError) {
        for _ in 0..<minimum { try emit(part) }
        guard let maximum else {
            let fork = instructions.count
            try append(.fork(fork + 1, 0))
            try emit(part)
            try append(.jump(fork))
            instructions[fork] = .fork(fork + 1, instructions.count)
            return
        }
        var forks: [Int] = []
        for _ in minimum..<max(minimum, maximum) {
            forks.append(instructions.count)
            try append(.fork(instructions.count + 1, 0))
            try emit(part)
        }
        for fork in forks { instructions[fork] = .fork(fork + 1, instructions.count) }
    }
}
