/// The names that Swift files declare, found in their text: a document that names a type can be held
/// against it.
struct Declarations {
    /// The numbers of the files that declare a type of this name.
    private var types: [String: Set<Int>] = [:]
    /// The numbers of the files that declare a type of this name, or extend one.
    private var scopes: [String: Set<Int>] = [:]
    /// The numbers of the files that declare a case, a function or a property of this name.
    private var members: [String: Set<Int>] = [:]

    init(_ files: [SourceFile]) {
        for (number, file) in files.enumerated() { read(file.swift.code, number) }
    }

    /// Returns whether a name is declared: `Frame`, `Frame.Hello`, `Frame.upload`. A name with a dot needs a
    /// file that declares or extends the type before the dot, and declares what follows it.
    func contains(_ name: String) -> Bool {
        let parts = name.split(separator: ".").map(String.init)
        guard let last = parts.last else { return false }
        guard parts.count > 1 else { return types[last] != nil }
        let places = scopes[parts[parts.count - 2]] ?? []
        let found = (types[last] ?? []).union(members[last] ?? [])
        return !places.isDisjoint(with: found)
    }

    private static let typeWords = ["struct", "class", "enum", "actor", "protocol", "typealias"]
    private static let memberWords = ["case", "func", "let", "var"]

    private mutating func read(_ code: [UInt8], _ number: Int) {
        var position = 0
        var keyword = ""
        while let word = Self.nextWord(in: code, from: position) {
            // `case .upload` in a switch names no new case: nothing but space may lie in between.
            let isApart = code[position..<word.lowerBound].contains { $0 != 0x20 && $0 != 0x0A }
            position = word.upperBound
            let isName = !keyword.isEmpty && !isApart
            if isName { note(String(decoding: code[word], as: UTF8.self), after: keyword, number) }
            let path = keyword == "extension" && position < code.count && code[position] == 0x2E
            guard !(isName && path) else {
                // `extension Replica.Commit` opens both.
                position += 1
                continue
            }
            keyword = Self.keyword(code[word])
        }
    }

    private mutating func note(_ name: String, after keyword: String, _ number: Int) {
        if Self.typeWords.contains(keyword) { types[name, default: []].insert(number) }
        if Self.typeWords.contains(keyword) || keyword == "extension" {
            scopes[name, default: []].insert(number)
        }
        if Self.memberWords.contains(keyword) { members[name, default: []].insert(number) }
    }

    /// The word where it introduces a declaration, else nothing. Only short words are looked at.
    private static func keyword(_ word: ArraySlice<UInt8>) -> String {
        guard word.count <= 9 else { return "" }
        let text = String(decoding: word, as: UTF8.self)
        return typeWords.contains(text) || memberWords.contains(text) || text == "extension" ? text : ""
    }

    private static func nextWord(in code: [UInt8], from start: Int) -> Range<Int>? {
        var first = start
        while first < code.count, !isNamePart(code[first]) { first += 1 }
        guard first < code.count else { return nil }
        var end = first
        while end < code.count, isNamePart(code[end]) { end += 1 }
        return first..<end
    }

    static func isNamePart(_ byte: UInt8) -> Bool {
        byte == 0x5F || (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte | 0x20) || byte >= 0x80
    }
}
