import Foundation

/// The memory that this process may use: the machine's, or its container's if that is less.
enum MachineMemory {
    /// The share for what clients hold: see `Limits.clientMemoryShare`.
    static let clientBytes = clientBytes(of: bytes)

    static func clientBytes(of bytes: Int) -> Int {
        min(max(bytes / Limits.clientMemoryShare, Limits.leastClientBytes), Limits.mostClientBytes)
    }

    /// All of it.
    static let bytes: Int = {
        let machine = Int(clamping: ProcessInfo.processInfo.physicalMemory)
        guard let groups = try? String(contentsOfFile: "/proc/self/cgroup", encoding: .utf8) else {
            return machine
        }
        return limits(of: groups) { try? String(contentsOfFile: $0, encoding: .utf8) }
            .reduce(machine, min)
    }()

    /// The limits of the process's control groups, of version 2 and 1, from its own group to the root.
    static func limits(of groups: String, reading file: (String) -> String?) -> [Int] {
        groups.split(separator: "\n").flatMap { line -> [Int] in
            let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3 else { return [] }
            let root: String
            let name: String
            if parts[1].isEmpty {
                (root, name) = ("/sys/fs/cgroup", "memory.max")
            } else if parts[1].split(separator: ",").contains("memory") {
                (root, name) = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            } else {
                return []
            }
            var path = String(parts[2])
            var found: [Int] = []
            while true {
                let text = file("\(root)\(path == "/" ? "" : path)/\(name)") ?? ""
                // `max` is no number, and version 1 has a huge one for it.
                if let limit = Int(text.filter { !$0.isWhitespace }) { found.append(limit) }
                guard let cut = path.lastIndex(of: "/"), path != "/" else { return found }
                path = cut == path.startIndex ? "/" : String(path[..<cut])
            }
        }
    }
}
