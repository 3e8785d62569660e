import CRDT
import Foundation
import TestSupport

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

    /// The cases of this run on an engine that takes long to make: one in four, which four runs in a row with
    /// rising seeds make all; in a deep run all of them.
    public static let sample: [CorpusCase] = Depth.pick(
        fast: cases.enumerated().filter { $0.offset % 4 == Int(Depth.seed % 4) }.map(\.element), deep: cases)

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
