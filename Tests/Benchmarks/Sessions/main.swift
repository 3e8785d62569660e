// Sessions without sockets, each way, beside a bare SQLite insert of the same bytes in the same run: same
// durability, a commit for as many bytes as a session stores at a time.
//
//     make bench                     all benchmarks
//     scripts/bench-sessions         this one; [--rounds 3] [--documents 100000] [--only live]

import Foundation

let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
    "session-bench-\(UUID().uuidString)")
try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
defer { try? FileManager.default.removeItem(at: folder) }
let bench = try Bench(folder: folder)
try await bench.catchUp()
try await bench.live()
try await bench.upload()
