import DittoSwift
import Foundation

/// Documents of each transaction that `writeForEver` makes.
private let width = 7

/// Opens a directory that somebody else may have, and says how that went.
func openOnce(_ directory: String) async {
    let start = Clock.seconds()
    do {
        let ditto = try await Ditto.openAlone(config: config(directory))
        await ditto.close()
        say(["open": true, "seconds": Clock.seconds() - start])
    } catch DittoSwiftError.storeError(.persistenceDirectoryLocked(let message)) {
        say(["case": "persistenceDirectoryLocked", "message": message, "seconds": Clock.seconds() - start])
    } catch {
        say(["case": "other", "message": "\(error)", "seconds": Clock.seconds() - start])
    }
}

/// Transactions of several documents, one after the other, until the process is killed; the line with a
/// transaction's number comes after its commit. Goes on where it was.
func writeForEver(_ directory: String) async throws {
    let ditto = try await Ditto.openAlone(config: config(directory))
    var number = try await last(ditto) + 1
    say(["from": number])
    while true {
        let this = number
        try await ditto.store.transaction { transaction in
            for part in 0..<width {
                try await transaction.execute(
                    query: "INSERT INTO parts DOCUMENTS (:d)",
                    arguments: [
                        "d": [
                            "_id": "\(this)-\(part)", "number": this,
                            "text": String(repeating: "x", count: 200),
                        ]
                            as [String: Any?]
                    ])
            }
            try await transaction.execute(
                query:
                    "INSERT INTO head DOCUMENTS ({'_id': 'head', 'last': \(this)}) ON ID CONFLICT DO UPDATE")
        }
        say(["number": this])
        number += 1
    }
}

/// Prints the last of those transactions, and those that the store lacks or has in part.
func check(_ directory: String) async throws {
    let ditto = try await Ditto.openAlone(config: config(directory))
    let groups = try await ditto.store.execute(
        query: "SELECT number, COUNT(*) AS n FROM parts GROUP BY number")
    var counts: [Int: Int] = [:]
    for item in groups.items {
        guard let number = item.value["number"] as? Int, let count = item.value["n"] as? Int else { continue }
        counts[number] = count
    }
    let last = try await last(ditto)
    let missing = last > 0 ? (1...last).filter { counts[$0] == nil } : []
    say([
        "last": last, "transactions": counts.count,
        "halves": counts.filter { $0.value != width }.keys.sorted(),
        "missing": missing,
    ])
    await ditto.close()
}

private func last(_ ditto: Ditto) async throws -> Int {
    let head = try await ditto.store.execute(query: "SELECT last FROM head WHERE _id = 'head'")
    return head.items.first?.value["last"] as? Int ?? 0
}

/// Wall time that never goes back.
enum Clock {
    static func seconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

extension [Double] {
    var median: Double { isEmpty ? 0 : sorted()[count / 2] }
}

/// A line of `/proc/self/status`, in bytes.
func memory(_ name: String) -> Int {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix(name + ":") } ?? ""
    return (Int(line.split(whereSeparator: \.isWhitespace).dropFirst().first ?? "") ?? 0) * 1_024
}
