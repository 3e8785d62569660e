/// Walks texts through a program with a deterministic automaton that is built on demand.
///
/// A state is the set of instructions where a match can be, plus the needed facts about the character
/// before. A character costs one table lookup; if the table has no entry yet, at most one visit of each
/// instruction. The table is bounded and thrown away when it is full. So a text takes time linear in its
/// length whatever the pattern, and a matcher takes bounded memory. A value: copying it copies the states
/// built so far, and copies do not share later ones.
struct RegexMatcher: Sendable {
    /// The facts kept about the character before a place.
    enum Context {
        static let textStart: UInt64 = 1
        static let word: UInt64 = 2
        static let lineFeed: UInt64 = 4
    }

    let program: RegexProgram
    /// The work done so far: characters read and instructions visited. Tests check linearity with it.
    private(set) var steps = 0
    /// The next state by state and class (one column more: the text's end), or one of the marks below.
    private var table: [Int32] = []
    /// Bits of the instructions, and a last word for the context.
    private var states: [[UInt64]] = []
    private var places: [[UInt64]: Int] = [:]
    private(set) var tablesThrownAway = 0

    private static let unknown: Int32 = -1
    private static let dead: Int32 = -2
    private static let matched: Int32 = -3

    private var width: Int { program.classes.count + 1 }

    init(_ program: RegexProgram) {
        self.program = program
        var start = Array(repeating: UInt64(0), count: (program.instructions.count + 63) / 64 + 1)
        start[0] = 1
        start[start.count - 1] = Context.textStart & program.contextMask
        _ = place(of: start)
    }

    // MARK: Running

    /// Returns whether the program matches a text of valid UTF-8. Starts from the state that `init` made, so
    /// the matcher has to be new or a copy of a prepared one.
    mutating func run(_ text: UnsafeBufferPointer<UInt8>) -> Bool { run(text) {} }

    /// The same; `goOn` is called after so many visits of instructions, and ends the match by throwing.
    mutating func run(_ text: UnsafeBufferPointer<UInt8>, goOn: () throws -> Void) rethrows -> Bool {
        steps += text.count + 1
        var nextCheck = steps + DQLLimits.patternStepsBetweenChecks
        var state = 0
        var place = 0
        while true {
            let stop = walk(text, &place, &state)
            let next = stop.next == Self.unknown ? transition(from: state, on: stop.column) : stop.next
            if next < 0 { return next == Self.matched }
            state = Int(next)
            place += stop.length
            if steps >= nextCheck {
                try goOn()
                nextCheck = steps + DQLLimits.patternStepsBetweenChecks
            }
        }
    }

    /// Goes on while the table knows the next state. Returns the column at which it stopped, the entry found
    /// there, and the width of the character in bytes.
    private func walk(
        _ text: UnsafeBufferPointer<UInt8>, _ place: inout Int, _ state: inout Int
    ) -> (column: Int, next: Int32, length: Int) {
        let width = width
        let classes = program.classes
        return table.withUnsafeBufferPointer { table in
            classes.ascii.withUnsafeBufferPointer { ascii in
                while place < text.count {
                    let lead = text[place]
                    var column: Int
                    var length = 1
                    if lead < 0x80 {
                        column = Int(ascii[Int(lead)])
                    } else {
                        let scalar = Self.decode(text, place, &length)
                        column = classes.classOf(scalar)
                    }
                    let next = table[state * width + column]
                    if next < 0 { return (column, next, length) }
                    state = Int(next)
                    place += length
                }
                return (width - 1, table[state * width + width - 1], 0)
            }
        }
    }

    private static func decode(
        _ text: UnsafeBufferPointer<UInt8>, _ place: Int, _ length: inout Int
    ) -> UInt32 {
        let lead = UInt32(text[place])
        length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4
        var scalar = lead & (lead < 0xE0 ? 0x1F : lead < 0xF0 ? 0x0F : 0x07)
        for next in 1..<length { scalar = scalar << 6 | UInt32(text[place + next] & 0x3F) }
        return scalar
    }

    // MARK: Building

    /// Builds the states reachable from the start, within the budget. A constant pattern does this once, so
    /// that texts find the table filled.
    mutating func warm() {
        var state = 0
        while state < states.count {
            for column in 0..<width {
                guard steps < DQLLimits.patternWarmingSteps, table.count < DQLLimits.patternTableEntries / 2
                else { return }
                if table[state * width + column] == Self.unknown { _ = transition(from: state, on: column) }
            }
            state += 1
        }
    }

    /// The state after a character of a class (or the text's end), and its entry in the table.
    private mutating func transition(from state: Int, on column: Int) -> Int32 {
        let tableBefore = tablesThrownAway
        let result: Int32
        if let next = advance(states[state], column) {
            let place = place(of: next)
            result = Int32(place)
        } else {
            result = isMatched ? Self.matched : Self.dead
        }
        // A new table made meanwhile has another state in this row.
        if tablesThrownAway == tableBefore { table[state * width + column] = result }
        return result
    }

    /// True if the last `advance` met a match.
    private var isMatched = false

    /// Follows everything that takes no character from a state's instructions, then everything that takes
    /// this one. Nil if a match is met, or nothing can match any more.
    private mutating func advance(_ state: [UInt64], _ column: Int) -> [UInt64]? {
        let isEnd = column == width - 1
        let before = state[state.count - 1]
        var next = Array(repeating: UInt64(0), count: state.count)
        var seen = Array(repeating: UInt64(0), count: state.count)
        var pending: [Int] = []
        isMatched = false
        for word in 0..<(state.count - 1) {
            var bits = state[word]
            while bits != 0 {
                pending.append(word * 64 + bits.trailingZeroBitCount)
                bits &= bits - 1
            }
        }
        while let place = pending.popLast() {
            guard seen[place / 64] >> UInt64(place % 64) & 1 == 0 else { continue }
            seen[place / 64] |= 1 << UInt64(place % 64)
            steps += 1
            switch program.instructions[place] {
            case .match:
                isMatched = true
                return nil
            case .jump(let target): pending.append(target)
            case .fork(let first, let second):
                pending.append(second)
                pending.append(first)
            case .assert(let assertion, let target):
                if holds(assertion, before, isEnd ? nil : column) { pending.append(target) }
            case .take(let set, let target):
                if !isEnd, program.classes.isMember(column, of: set) {
                    next[target / 64] |= 1 << UInt64(target % 64)
                }
            }
        }
        if isEnd { return nil }
        if !program.isAnchored { next[0] |= 1 }
        guard next.contains(where: { $0 != 0 }) else { return nil }
        var context: UInt64 = 0
        if program.classes.isWord[column] { context |= Context.word }
        if program.classes.isLineFeed[column] { context |= Context.lineFeed }
        next[next.count - 1] = context & program.contextMask
        return next
    }

    /// - Parameter after: the class of the character after the place; nil at the text's end.
    private func holds(_ assertion: RegexAssertion, _ before: UInt64, _ after: Int?) -> Bool {
        let isWordAfter = after.map { program.classes.isWord[$0] } ?? false
        let isEdge = (before & Context.word != 0) != isWordAfter
        return switch assertion {
        case .textStart: before & Context.textStart != 0
        case .textEnd: after == nil
        case .lineStart: before & (Context.textStart | Context.lineFeed) != 0
        case .lineEnd: after.map { program.classes.isLineFeed[$0] } ?? true
        case .wordEdge: isEdge
        case .noWordEdge: !isEdge
        }
    }

    /// The row of a state. A new state gets a row, in an empty table if the old one is full.
    private mutating func place(of state: [UInt64]) -> Int {
        if let known = places[state] { return known }
        if table.count + width > DQLLimits.patternTableEntries, !table.isEmpty {
            tablesThrownAway += 1
            table.removeAll(keepingCapacity: true)
            states.removeAll(keepingCapacity: true)
            places.removeAll(keepingCapacity: true)
        }
        places[state] = states.count
        states.append(state)
        table.append(contentsOf: repeatElement(Self.unknown, count: width))
        return states.count - 1
    }
}
