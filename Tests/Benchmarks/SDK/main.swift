// The SDK in a process of its own, which can be looked at from outside and killed: what `scripts/bench-sdk`
// measures, and what the system test `test_sdk` drives. Prints one JSON object a line.
//
//     sdk-probe rates DIRECTORY         transactions of one document each and of 1,000, beside bare SQLite
//     sdk-probe latency DIRECTORY       from a write to the callback of one of 100 observers
//     sdk-probe differ DIRECTORY        the differ on 10,000 items, 100 of them changed
//     sdk-probe observers DIRECTORY [SECONDS]   200 observers on 50,000 documents, 2,000 writes a second
//     sdk-probe border DIRECTORY        reads that the C interface and Python make too
//     sdk-probe write DIRECTORY         transactions for ever, each acknowledged by a line
//     sdk-probe check DIRECTORY         what is there of those
//     sdk-probe hold DIRECTORY          opens and waits for the end of its input
//     sdk-probe open DIRECTORY          opens and closes, or says why not
//     sdk-probe join DIRECTORY DATABASE URL NAME   joins with a code, and says how many reports come

import DittoSwift
import Foundation

/// Prints one line at once, also into a pipe.
func say(_ members: [String: Any]) {
    // Texts and numbers: always JSON.
    let data = (try? JSONSerialization.data(withJSONObject: members, options: [.sortedKeys])) ?? Data()
    FileHandle.standardOutput.write(data + Data("\n".utf8))
}

func config(_ directory: String) -> DittoConfig {
    var config = DittoConfig.default
    config.persistenceDirectory = URL(fileURLWithPath: directory, isDirectory: true)
    return config
}

let arguments = CommandLine.arguments
guard arguments.count >= 3 else {
    FileHandle.standardError.write(Data("usage: sdk-probe VERB DIRECTORY (see main.swift)\n".utf8))
    exit(2)
}
let directory = arguments[2]
DittoLogger.minimumLogLevel = .error
switch arguments[1] {
case "rates": try await measureRates(directory)
case "latency": try await measureLatency(directory)
case "differ": try await measureDiffer(directory)
case "observers": try await watch(directory, seconds: Double(arguments.dropFirst(3).first ?? "10") ?? 10)
case "border": try await measureBorder(directory)
case "write": try await writeForEver(directory)
case "check": try await check(directory)
case "hold":
    let ditto = try await Ditto.openAlone(config: config(directory))
    say(["open": true])
    while readLine() != nil {}
    await ditto.close()
case "open": await openOnce(directory)
case "join" where arguments.count == 6:
    try await join(directory, database: arguments[3], url: arguments[4], name: arguments[5])
default:
    FileHandle.standardError.write(Data("no such verb: \(arguments[1])\n".utf8))
    exit(2)
}
