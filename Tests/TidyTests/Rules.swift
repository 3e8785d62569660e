/// The rules this target holds the sources against. Each takes a file and names every place that breaks it,
/// so that a bad sample can show that the rule is able to fail.
enum Rules {
    // MARK: imports

    /// Every direct import of a module's file stands in the module's row of the table.
    static func imports(_ file: SourceFile, table: ImportTable = .mimeo) -> [Violation] {
        guard let allowed = table.allowed(in: file.module) else {
            return [
                Violation(path: file.path, line: 1, message: "\(file.module) has no row in the import table")
            ]
        }
        return file.swift.lines.enumerated().compactMap { index, line in
            guard let name = importedModule(line), !allowed.contains(name) else { return nil }
            return Violation(
                path: file.path, line: index + 1, message: "\(file.module) may not import \(name)")
        }
    }

    /// Every import that a row allows occurs in a file of its folder: the table says no more than is true.
    static func unusedImports(_ files: [SourceFile], table: ImportTable = .mimeo) -> [Violation] {
        let used = Dictionary(grouping: files, by: \.module).mapValues { files in
            Set(files.flatMap(\.swift.lines).compactMap(importedModule))
        }
        return table.rows.sorted { $0.key < $1.key }.flatMap { folder, row in
            row.ours.union(row.packages).union(row.platform).subtracting(used[folder] ?? []).sorted().map {
                name in
                Violation(path: folder, line: 1, message: "no file imports \(name), which its row allows")
            }
        }
    }

    /// The section of a module's README that says which modules of ours it may import.
    static let knowledgeHeading = "## What it may know"

    /// The first sentence below `knowledgeHeading` names the modules of ours in the module's row and no
    /// other; packages and explanations are free. Without any it says "Nothing of ours", anywhere in the
    /// section.
    static func readmeImports(_ readme: SourceFile, table: ImportTable = .mimeo) -> [Violation] {
        guard let row = table.rows[readme.module] else { return [] }
        let lines = readme.lines.map(\.text)
        guard let heading = lines.firstIndex(of: knowledgeHeading) else {
            return [
                Violation(path: readme.path, line: 1, message: "no section \"\(knowledgeHeading)\"")
            ]
        }
        let section = lines[(heading + 1)...].prefix { !$0.hasPrefix("#") }.joined(separator: " ")
        let words = firstSentence(of: section).split { !($0.isLetter || $0.isNumber) }.map(String.init)
        let named = table.ours.intersection(words)
        let missing = row.ours.subtracting(named).sorted().map { "does not name \($0)" }
        let extra = named.subtracting(row.ours).sorted().map { "names \($0), which its row does not have" }
        let silent =
            row.ours.isEmpty && !section.lowercased().contains("nothing of ours")
            ? ["does not say \"Nothing of ours\""] : []
        return (missing + extra + silent).map {
            Violation(path: readme.path, line: heading + 1, message: $0)
        }
    }

    /// Up to the first full stop that ends a word.
    private static func firstSentence(of text: String) -> String {
        let end = text.indices.first { at in
            let next = text.index(after: at)
            return text[at] == "." && (next == text.endIndex || text[next] == " ")
        }
        return String(text[..<(end ?? text.endIndex)])
    }

    /// The module an import declaration names: `GRDB` for `@preconcurrency import struct GRDB.Row`.
    static func importedModule(_ line: String) -> String? {
        let words = line.split(whereSeparator: { $0 == " " || $0 == ";" })
        guard let at = words.firstIndex(of: "import"), at + 1 < words.count else { return nil }
        let modifiers: Set<Substring> = ["public", "package", "internal", "fileprivate", "private"]
        guard words[..<at].allSatisfy({ $0.hasPrefix("@") || modifiers.contains($0) }) else { return nil }
        let kinds: Set<Substring> = [
            "struct", "class", "enum", "protocol", "typealias", "func", "var", "let", "actor",
        ]
        let path = kinds.contains(words[at + 1]) ? words[min(at + 2, words.count - 1)] : words[at + 1]
        return path.split(separator: ".").first.map(String.init)
    }

    // MARK: calls that hide time, randomness or I/O

    static let purelyInjected: Set<String> = [
        "Shared/CRDT", "Shared/DQL", "Shared/Replica", "Shared/Sync", "Shared/Attachments",
    ]
    static let bannedCalls = ["Date()", "Date.now", "Task.sleep", "UUID()", "print(", "Swift.print("]

    /// Time, randomness, identity and I/O are injected there.
    static func bannedCalls(_ file: SourceFile) -> [Violation] {
        guard purelyInjected.contains(file.module) else { return [] }
        return file.swift.lines.enumerated().flatMap { index, line in
            let found =
                bannedCalls.filter { containsCall($0, in: line) } + (containsBareTask(line) ? ["Task {"] : [])
            return found.map { Violation(path: file.path, line: index + 1, message: "\($0) is banned here") }
        }
    }

    // MARK: frames

    /// Frames of the sync protocol are Sync's alone (decision 0061): who imports it has `Session` to ask.
    static func frames(_ file: SourceFile) -> [Violation] {
        guard file.module != "Shared/Sync", file.swift.lines.contains(where: { importedModule($0) == "Sync" })
        else { return [] }
        return file.swift.lines.enumerated().compactMap { index, line in
            let isNamed = ["Frame.", "Frame("].contains { occurrences(of: $0, in: line).isEmpty == false }
            guard isNamed, isWholeWord("Frame", line) else { return nil }
            return Violation(path: file.path, line: index + 1, message: "Frame is a name of Sync's")
        }
    }

    // MARK: options of sockets

    /// An option of TCP is numbered in TCP's own level: on the socket's level the number of `tcp_nodelay`
    /// means SO_DEBUG, which only root may set, and all others get no connection.
    static func socketOptions(_ file: SourceFile) -> [Violation] {
        file.swift.lines.enumerated().compactMap { index, line in
            guard line.contains(".socketOption(.tcp_") else { return nil }
            return Violation(path: file.path, line: index + 1, message: "an option of TCP: use tcpOption")
        }
    }

    // MARK: waits

    /// The files that suspend a task by hand, and why.
    static let continuations = [
        "Shared/Machine/PendingAnswer.swift": "the answer that all other waits are made of (decision 0189)"
    ]

    private static let suspensions = [
        "CheckedContinuation", "UnsafeContinuation", "withCheckedThrowingContinuation",
        "withUnsafeThrowingContinuation",
    ]

    /// A task that is resumed has to find what it was woken for, and to end when it is cancelled. The types
    /// of Machine do both, and are tested in any order of steps.
    static func continuations(_ file: SourceFile) -> [Violation] {
        guard continuations[file.path] == nil else { return [] }
        return file.swift.lines.enumerated().compactMap { index, line in
            guard suspensions.contains(where: line.contains) else { return nil }
            return Violation(
                path: file.path, line: index + 1,
                message: "a task is suspended by hand: use PendingAnswer, Monitor or BoundedTurns")
        }
    }

    /// The modules of a peer, which a program opens and closes as often as it likes.
    private static let ofPeers: Set<String> = ["Shared/DittoSwift", "Shared/Machine", "Shared/Transport"]

    /// A cancelled `Task.sleep` keeps its task and its timer until its time is over.
    static func sleeps(_ file: SourceFile) -> [Violation] {
        guard ofPeers.contains(file.module) else { return [] }
        return file.swift.lines.enumerated().compactMap { index, line in
            guard containsCall("Task.sleep", in: line) else { return nil }
            return Violation(path: file.path, line: index + 1, message: "Task.sleep: use Alarm.sleep")
        }
    }

    // MARK: secrets

    /// The names of values that an attacker might guess, where services compare them.
    static let guessedSecrets: Set<Substring> = [
        "sharedToken", "secretHash", "developmentToken", "credential",
    ]

    /// A secret is compared by `ConstantTime`, or with nothing at all.
    static func comparedSecrets(_ file: SourceFile) -> [Violation] {
        guard file.module.hasPrefix("Services/") || file.module == "Shared/ServiceKit" else { return [] }
        return file.swift.lines.enumerated().flatMap { index, line -> [Violation] in
            let words = line.split { " ,(){}[]!?".contains($0) && !($0 == "!" && line.contains("!=")) }
            return words.indices.filter { ["==", "!="].contains(words[$0]) }.compactMap { at in
                let sides = [at - 1, at + 1].filter(words.indices.contains).map { words[$0] }
                let names = sides.map { $0.split(separator: ".").last ?? $0 }
                guard !sides.contains("nil"), let secret = names.first(where: guessedSecrets.contains) else {
                    return nil
                }
                return Violation(
                    path: file.path, line: index + 1, message: "\(secret) is compared byte by byte")
            }
        }
    }

    /// Returns whether `call` stands in the line as a whole name, not as the end of another name or as a
    /// method.
    private static func containsCall(_ call: String, in line: String) -> Bool {
        let isDeclaration = line.contains("func \(call)")
        return !isDeclaration
            && occurrences(of: call, in: line).contains { !isNamePart($0) && $0 != UInt8(ascii: ".") }
    }

    /// `Task {`, `Task<Void, Never> {` and `Task.detached {`. With an executor preference it is no bare one.
    private static func containsBareTask(_ line: String) -> Bool {
        let squeezed = line.filter { $0 != " " }
        return ["Task{", "Task<Void,Never>{", "Task<Void,anyError>{", "Task.detached{"].contains { form in
            occurrences(of: form, in: squeezed).contains { !isNamePart($0) && $0 != UInt8(ascii: ".") }
        }
    }

    /// The byte before each occurrence; a space for one at the start of the line.
    private static func occurrences(of needle: String, in line: String) -> [UInt8] {
        guard line.contains(needle) else { return [] }
        let bytes = Array(line.utf8)
        let wanted = Array(needle.utf8)
        guard bytes.count >= wanted.count else { return [] }
        return (0...(bytes.count - wanted.count)).compactMap { start in
            guard bytes[start..<(start + wanted.count)].elementsEqual(wanted) else { return nil }
            return start == 0 ? UInt8(ascii: " ") : bytes[start - 1]
        }
    }

    private static func isNamePart(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "_") || (byte >= 0x30 && byte <= 0x39)
            || (byte | 0x20 >= 0x61 && byte | 0x20 <= 0x7A)
            || byte >= 0x80
    }

    // MARK: promises the compiler cannot check

    static let promises = ["@unchecked Sendable", "nonisolated(unsafe)", "try!"]

    /// Each needs a comment on its own line or the one before that says why it is safe.
    static func unexplainedPromises(_ file: SourceFile) -> [Violation] {
        let text = file.swift
        return text.lines.enumerated().flatMap { index, line in
            let isExplained = text.commented[index] || (index > 0 && text.commented[index - 1])
            let found = isExplained ? [] : promises.filter(line.contains)
            return found.map { promise in
                Violation(
                    path: file.path, line: index + 1,
                    message: "\(promise) without a comment that says why it is safe")
            }
        }
    }

    // MARK: what ends the process

    /// Places that end the process, beyond those that the table has for the file.
    static func traps(_ file: SourceFile) -> [Violation] {
        let found = file.swift.lines.enumerated().flatMap { index, line in
            Array(repeating: index + 1, count: traps(in: line))
        }
        let lines = TrapLines.rows[file.path] ?? []
        let most = (TrapTable.rows[file.path]?.most ?? 0) + lines.count
        guard found.count > most else { return [] }
        return found.map { line in
            Violation(
                path: file.path, line: line,
                message: "one of \(found.count) places that end the process; the tables have \(most)")
        }
    }

    private static let endings = ["precondition(", "preconditionFailure(", "fatalError(", "try!", "as!"]

    private static func traps(in line: String) -> Int {
        let words = endings.reduce(0) { $0 + occurrences(of: $1, in: line).count { !isNamePart($0) } }
        let bytes = Array(line.utf8)
        let unwraps = bytes.indices.dropFirst().count { place in
            let before = bytes[place - 1]
            guard bytes[place] == UInt8(ascii: "!"), isNamePart(before) || ")]}".utf8.contains(before),
                place + 1 == bytes.count || bytes[place + 1] != UInt8(ascii: "=")
            else { return false }
            let word = bytes[..<place].reversed().prefix(while: isNamePart).reversed()
            return !["try", "as"].contains { word.elementsEqual($0.utf8) }
        }
        return words + unwraps
    }

    // MARK: leftovers

    // In pieces, so that this file does not break its own rule.
    private static let marks = ["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]
    private static let machineFolders = [
        "/wo" + "rk/", "/ro" + "ot/", "/tmp/pl" + "an", "/ho" + "me/", "/Us" + "ers/",
    ]

    /// Work that is left belongs in the issue list.
    static func leftoverMarks(_ file: SourceFile) -> [Violation] {
        eachLine(file) { line in
            marks.first { mark in
                occurrences(of: mark, in: line).contains { !isNamePart($0) } && isWholeWord(mark, line)
            }
            .map { "leftover mark \($0)" }
        }
    }

    /// Nothing names a folder of the machine it was written on.
    static func machinePaths(_ file: SourceFile) -> [Violation] {
        eachLine(file) { line in
            machineFolders.first { folder in
                occurrences(of: folder, in: line).contains { !isNamePart($0) && !".-}])$*".utf8.contains($0) }
            }
            .map { "the path \($0) of one machine" }
        }
    }

    private static func isWholeWord(_ word: String, _ line: String) -> Bool {
        line.split { !($0.isLetter || $0.isNumber || $0 == "_") }.contains { $0 == word }
    }

    private static func eachLine(_ file: SourceFile, _ check: (String) -> String?) -> [Violation] {
        file.lines.compactMap { line in
            check(line.text).map { Violation(path: file.path, line: line.number, message: $0) }
        }
    }
}
