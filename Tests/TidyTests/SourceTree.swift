import Foundation

/// One file of the project. `path` is relative to the root, with `/` between its parts.
struct SourceFile {
    let path: String
    let text: String
    /// The text without comments and literals; empty where the file is not Swift.
    let swift: SwiftText

    init(path: String, text: String) {
        self.path = path
        self.text = text
        swift = SwiftText(path.hasSuffix(".swift") ? text : "")
    }

    /// Each line with its number, from 1. Splitting is done on bytes, which is much the quickest.
    var lines: [(number: Int, text: String)] {
        text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated()
            .map { ($0.offset + 1, String($0.element) ?? "") }
    }

    /// The folder of the module or executable the file belongs to: `Shared/CRDT`,
    /// `Services/Mimeo/Executable`.
    var module: String {
        let parts = path.split(separator: "/").map(String.init)
        let depth = parts.count > 3 && parts[2] == "Executable" ? 3 : 2
        return parts.prefix(depth).joined(separator: "/")
    }
}

/// A place where a file breaks a rule. Lines count from 1.
struct Violation: CustomStringConvertible {
    let path: String
    let line: Int
    let message: String

    var description: String { "\(path):\(line): \(message)" }
}

/// The project's own files on disk, found from where this file was compiled.
enum SourceTree {
    static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().resolvingSymlinksInPath().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static let folders = [
        "Docs", "Shared", "Services", "Tests", "scripts", "compose", "deploy", "monitoring", "packaging",
        "python", ".ci",
    ]
    private static let rootFiles = [
        "Package.swift", "Makefile", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md",
        "LICENSE",
        "SECURITY.md", ".swift-format", ".gitignore",
    ]

    /// Every text file of the project; build products, caches and data are not among them.
    static let files: [SourceFile] = {
        let inFolders = folders.flatMap(paths(below:))
        return (rootFiles + inFolders).compactMap(read)
    }()

    /// The pictures of documents, which are no text.
    static let pictures = folders.flatMap(paths(below:)).filter { path in
        [".png", ".gif"].contains(where: path.hasSuffix)
    }

    static let swiftFiles = files.filter { $0.path.hasSuffix(".swift") }

    /// The Swift files of the modules and services, without tests.
    static let moduleFiles = swiftFiles.filter {
        $0.path.hasPrefix("Shared/") || $0.path.hasPrefix("Services/")
    }

    /// The folders of all modules and services that contain Swift files, each once, sorted.
    static let moduleFolders = Set(
        moduleFiles.map { $0.path.split(separator: "/").prefix(2).joined(separator: "/") }
    )
    .sorted()

    private static func paths(below folder: String) -> [String] {
        let start = root.appendingPathComponent(folder)
        let names = FileManager.default.enumerator(atPath: start.path)?.compactMap { $0 as? String } ?? []
        return names.filter(isOurs).map { "\(folder)/\($0)" }.sorted()
    }

    private static func isOurs(_ name: String) -> Bool {
        let parts = name.split(separator: "/")
        // Libraries of others are in `vendor`, as they came.
        return !parts.contains {
            $0 == "vendor" || $0 == "__pycache__" || $0.hasPrefix(".build") || $0 == ".DS_Store"
        }
    }

    /// Nil for folders and for files that are not UTF-8 text.
    private static func read(_ path: String) -> SourceFile? {
        let url = root.appendingPathComponent(path)
        guard let text = try? String(contentsOf: url, encoding: .utf8) else { return nil }
        return SourceFile(path: path, text: text)
    }
}
