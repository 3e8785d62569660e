import CRDT
import Foundation

/// All cases. The files stay where the suite that owns them is; every suite of an executor reads them there.
public enum Corpus {
    /// Where the `.dqltest` files are.
    public static let folder: URL = {
        var root = URL(fileURLWithPath: #filePath)
        for _ in 0..<4 { root.deleteLastPathComponent() }
        return root.appendingPathComponent("DQLTests/Corpus")
    }()

    /// In the order of the files' names.
    public static let cases: [CorpusCase] = load()

    /// The files' names, ascending.
    public static let files: [String] = {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        return names.filter { $0.hasSuffix(".dqltest") }.sorted()
    }()

    private static func load() -> [CorpusCase] {
        files.flatMap { name in
            let text = (try? String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)) ?? ""
            var reader = CorpusReader(file: name)
            for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
                reader.read(String(line))
            }
            return reader.finish()
        }
    }
}
