import Foundation

/// The files and folders of the project by path, to look up those that a document names.
struct PathIndex {
    private let paths: Set<String>

    init(_ files: [String]) {
        var paths: Set<String> = []
        for file in files {
            var path = file
            // A folder that is in already has all of its parents in, too.
            while paths.insert(path).inserted, let slash = path.lastIndex(of: "/") {
                path = String(path[..<slash])
            }
        }
        self.paths = paths
    }

    /// The path below the root that a document in `folder` means, or nil where there is none. A name counts
    /// from the document's folder first, then from the root.
    func path(_ name: String, from folder: String) -> String? {
        let plain = name.hasSuffix("/") ? String(name.dropLast()) : name
        return [Self.joined(folder, plain), plain].first(where: paths.contains)
    }

    /// The paths that a document means which may leave out the beginning: those that end with the name,
    /// where none is the name's own.
    func paths(_ name: String, from folder: String) -> [String] {
        if let path = path(name, from: folder) { return [path] }
        return paths.filter { $0.hasSuffix("/\(name)") }
    }

    /// `Shared/Sync` and `../CRDT` make `Shared/CRDT`.
    private static func joined(_ folder: String, _ name: String) -> String {
        var parts = folder.split(separator: "/")
        for part in name.split(separator: "/") {
            if part == ".." { _ = parts.popLast() } else if part != "." { parts.append(part) }
        }
        return parts.joined(separator: "/")
    }
}

/// The rules for documents: the files and names that they mention exist, and their lines can be read.
enum DocumentRules {
    /// Lines of prose stay as narrow as lines of Swift. Tables and code blocks may be wider.
    static func wideProse(_ file: SourceFile) -> [Violation] {
        Markdown(file).lines.compactMap { line in
            guard line.kind == .prose, line.text.count > SizeRules.lineColumns else { return nil }
            let message = "\(line.text.count) columns of prose, more than \(SizeRules.lineColumns)"
            return Violation(path: file.path, line: line.number, message: message)
        }
    }

    // MARK: paths

    /// Every path between backticks, outside of code blocks, exists, or is the end of one that does.
    static func missingPaths(_ file: SourceFile, in index: PathIndex) -> [Violation] {
        let folder = folder(of: file)
        return Markdown(file).lines.filter { $0.kind != .code }.flatMap { line in
            line.spans.filter(isPath).compactMap { name in
                guard index.paths(name, from: folder).isEmpty else { return nil }
                return Violation(path: file.path, line: line.number, message: "\(name) does not exist")
            }
        }
    }

    /// Every link into the project leads to a file or folder.
    static func brokenLinks(_ file: SourceFile, in index: PathIndex) -> [Violation] {
        let folder = folder(of: file)
        return Markdown(file).lines.filter { $0.kind != .code }.flatMap { line in
            line.links.compactMap { link in
                let target = link.prefix { $0 != "#" }
                guard !target.isEmpty, !link.contains("://"), index.path(String(target), from: folder) == nil
                else { return nil }
                return Violation(path: file.path, line: line.number, message: "\(link) leads nowhere")
            }
        }
    }

    /// A path has a slash inside, a file name an ending that we use. Commands, addresses and routes of HTTP
    /// (`/_ditto/sync`) are none.
    static func isPath(_ span: String) -> Bool {
        guard let first = span.first, first.isLetter || first == "." || first == "_" else { return false }
        guard span.allSatisfy({ $0.isLetter || $0.isNumber || "/._+-".contains($0) }) else { return false }
        let endings = [".swift", ".md", ".cddl", ".txt", ".py"]
        return span.contains("/") || endings.contains { span.hasSuffix($0) && span.count > $0.count }
    }

    // MARK: names beside paths

    /// In a table's row that names Swift files, every other name between backticks occurs in one of them.
    static func strangers(
        _ file: SourceFile, in index: PathIndex, text: (String) -> String?
    ) -> [Violation] {
        let folder = folder(of: file)
        return Markdown(file).rows.flatMap { row -> [Violation] in
            let paths = row.spans.filter(isPath).flatMap { index.paths($0, from: folder) }
            let texts = paths.filter { $0.hasSuffix(".swift") }.compactMap(text).map { Array($0.utf8) }
            guard !texts.isEmpty else { return [] }
            return row.spans.compactMap(lastName).compactMap { name in
                guard !texts.contains(where: { hasWord(name, in: $0) }) else { return nil }
                return Violation(
                    path: file.path, line: row.number, message: "\(name) is in none of the row's files")
            }
        }
    }

    /// `run` of `Engine.run`; nil for what is no Swift name.
    private static func lastName(_ span: String) -> String? {
        guard !isPath(span), let first = span.first, first.isLetter || first == "_" else { return nil }
        guard span.allSatisfy({ $0.isLetter || $0.isNumber || $0 == "." || $0 == "_" }) else { return nil }
        return span.split(separator: ".").last.map(String.init)
    }

    private static func hasWord(_ word: String, in text: [UInt8]) -> Bool {
        let wanted = Array(word.utf8)
        guard text.count >= wanted.count else { return false }
        return (0...(text.count - wanted.count)).contains { start in
            guard text[start] == wanted[0], text[start..<(start + wanted.count)].elementsEqual(wanted) else {
                return false
            }
            let end = start + wanted.count
            return (start == 0 || !Declarations.isNamePart(text[start - 1]))
                && (end == text.count || !Declarations.isNamePart(text[end]))
        }
    }

    // MARK: floors

    /// The drawing of the floors, a code block of lines such as `2  DQL ─▶ CRDT    Machine`, has every module
    /// with the imports that it has, all of lower floors.
    static func floors(_ file: SourceFile, imports: [String: Set<String>]) -> [Violation] {
        var floors: [String: Int] = [:]
        var drawn: [String: Set<String>] = [:]
        var floor = 0
        for line in Markdown(file).lines where line.kind == .code && !line.text.hasPrefix("`") {
            if let number = line.text.first?.wholeNumberValue { floor = number }
            let text = line.text.drop { $0.isNumber || $0 == " " }
            for part in text.components(separatedBy: "  ") where !part.isEmpty {
                let sides = part.components(separatedBy: "─▶").map { $0.trimmingCharacters(in: .whitespaces) }
                floors[sides[0]] = floor
                drawn[sides[0]] = sides.count > 1 ? Set(sides[1].components(separatedBy: ", ")) : []
            }
        }
        return imports.sorted { $0.key < $1.key }.flatMap { name, found -> [Violation] in
            let arrows = drawn[name] ?? []
            let messages =
                (drawn[name] == nil ? ["\(name) is not drawn"] : [])
                + found.subtracting(arrows).sorted().map { "\(name) imports \($0)" }
                + arrows.subtracting(found).sorted().map { "\(name) does not import \($0)" }
                + arrows.filter { floors[$0, default: 9] >= floors[name, default: 0] }.sorted()
                .map { "\(name) does not stand above \($0)" }
            return messages.map { Violation(path: file.path, line: 1, message: $0) }
        }
    }

    private static func folder(of file: SourceFile) -> String {
        file.path.split(separator: "/").dropLast().joined(separator: "/")
    }

    // MARK: glossary

    /// A glossary's rows are `word | meaning | the field's word | names in code`: sorted by word, no word
    /// twice, four cells, and each name declared.
    static func glossary(_ file: SourceFile, _ declarations: Declarations) -> [Violation] {
        var before = ""
        return Markdown(file).rows.flatMap { row -> [Violation] in
            func broken(_ message: String) -> Violation {
                Violation(path: file.path, line: row.number, message: message)
            }
            let cells = row.cells
            guard cells.count == 4, !cells.contains("") else { return [broken("not four cells")] }
            let word = cells[0].lowercased()
            defer { before = word }
            let order = word > before ? [] : [broken("\(cells[0]) stands twice, or in the wrong place")]
            let names = Markdown.Line(number: row.number, kind: .table, text: cells[3]).spans
            guard !names.isEmpty else { return order + [broken("\(cells[0]) names nothing in code")] }
            return order
                + names.filter { !declarations.contains($0) }.map { broken("\($0) is not declared") }
        }
    }

    // MARK: gaps

    /// A list of gaps has items `**G1. …**`, numbered from 1, each with a line `Shown by: …` that names a
    /// test's file, `seed N` of the simulator's kept seeds, or `no test`.
    static func gaps(_ file: SourceFile, in index: PathIndex, seeds: Set<Int>) -> [Violation] {
        var violations: [Violation] = []
        var number = 0
        var isShown = true
        let lines = Markdown(file).lines.filter { $0.kind == .prose }
        for line in lines {
            func broken(_ message: String) {
                violations.append(Violation(path: file.path, line: line.number, message: message))
            }
            if line.text.hasPrefix("**G") {
                if !isShown { broken("G\(number) does not say what shows it") }
                number += 1
                isShown = false
                if !line.text.hasPrefix("**G\(number). ") { broken("not G\(number)") }
            } else if line.text.hasPrefix("Shown by: ") {
                isShown = true
                let proof = String(line.text.dropFirst("Shown by: ".count))
                for message in unproven(proof, line, index, seeds) { broken(message) }
            }
        }
        if !isShown { violations.append(Violation(path: file.path, line: 1, message: "G\(number) unshown")) }
        return violations
    }

    private static func unproven(
        _ proof: String, _ line: Markdown.Line, _ index: PathIndex, _ seeds: Set<Int>
    ) -> [String] {
        let words = proof.split { !($0.isLetter || $0.isNumber) }
        let named = words.indices.dropFirst().filter { words[$0 - 1] == "seed" }.map { words[$0] }
        let unknown = named.filter { seed in Int(seed).map { !seeds.contains($0) } ?? true }
        let paths = line.spans.filter(isPath)
        let isNothing = paths.isEmpty && named.isEmpty && !proof.hasPrefix("no test")
        return unknown.map { "seed \($0) is not among the kept seeds" }
            + paths.filter { index.paths($0, from: "Tests").isEmpty }.map { "\($0) does not exist" }
            + (isNothing ? ["neither a test nor a seed nor `no test`"] : [])
    }

    /// The seeds of a list that begins each line with one.
    static func seeds(_ file: SourceFile) -> Set<Int> {
        Set(file.lines.compactMap { $0.text.split(separator: " ").first.flatMap { Int($0) } })
    }

    // MARK: decisions

    /// The index has a row `[NNNN] | title | in short | status` for each record, once, with the record's
    /// title, and a line that leads from the number to the file. The status says "superseded" if the first
    /// line below the record's title does.
    static func decisions(_ index: SourceFile, _ records: [SourceFile]) -> [Violation] {
        let rows = Markdown(index).rows.map(\.cells)
        let lines = Set(index.lines.map(\.text))
        return records.flatMap { record -> [Violation] in
            let name = String(record.path.split(separator: "/").last ?? "")
            let number = name.prefix(4)
            let found = rows.filter { $0.first == "[\(number)]" }
            let texts = record.lines.map(\.text).filter { !$0.isEmpty }
            var messages: [String] = []
            if found.count != 1 { messages.append("stands \(found.count) times in the index") }
            if let row = found.first, row.count == 4 {
                let title = texts[0].drop { "# 0123456789:".contains($0) }
                if row[1] != title { messages.append("has another title in the index") }
                let isSuperseded = texts.dropFirst().first?.hasPrefix("Superseded") ?? false
                if row[3].contains("superseded") != isSuperseded { messages.append("differs in status") }
            }
            if !lines.contains("[\(number)]: \(name)") { messages.append("has no link in the index") }
            return messages.map { Violation(path: record.path, line: 1, message: $0) }
        }
    }
}
