// Sessions without sockets, each way, beside two bare SQLite bulk inserts of the same documents in the same
// run, of the same durability: the one that a user would write (`bulk.py`), and a loop in C that has the
// encoded bytes ready and commits as many at a time as a session stores.
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
