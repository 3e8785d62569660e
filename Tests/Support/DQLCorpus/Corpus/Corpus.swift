import CRDT
import Foundation

/// All cases. The files stay with the suite that owns them; the suites of all executors read them there.
public enum Corpus {
    /// The folder of the `.dqltest` files.
    public static let folder: URL = {
        var root = URL(fileURLWithPath: #filePath)
        for _ in 0..<4 { root.deleteLastPathComponent() }
        return root.appendingPathComponent("DQLTests/Corpus")
    }()

    /// The cases in the order of the files' names.
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
