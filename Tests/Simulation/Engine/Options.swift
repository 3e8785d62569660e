/// What the command line asks for.
struct Options {
    var seeds: [UInt64] = [1]
    var isChecked = false
    var isVerbose = false
    var peers: Int?
    var acts: Int?
    var faults: Faults?
    var folder = "/dev/shm"
    /// Ends at the first seed that fails.
    var endsAtFirst = false
    /// Looks for a smaller history that fails.
    var shrinks = false
    /// Processes that share the seeds.
    var jobs = 1
    /// Whether this is one of them.
    var isWorker = false
    /// Small worlds, for many seeds in little time: few peers, few acts, no faults of disks and machines.
    var isSmall = false

    static let help = """
        simulation [--seed N | --seeds COUNT [--from N] | --list FILE] [--doublecheck] [--verbose]
                   [--peers N] [--acts N] [--faults a,b|none] [--folder PATH] [--first]
                   [--jobs N] [--shrink] [--small]
        """

    /// Nil when the words make no sense.
    init?(_ words: [String]) {
        var rest = words[...]
        var first: UInt64 = 1
        var count: UInt64?
        while let word = rest.popFirst() {
            switch word {
            case "--doublecheck": isChecked = true
            case "--verbose": isVerbose = true
            case "--first": endsAtFirst = true
            case "--worker": isWorker = true
            case "--shrink": shrinks = true
            case "--small": isSmall = true
            default:
                guard let value = rest.popFirst() else { return nil }
                switch word {
                case "--seed": UInt64(value).map { seeds = [$0] }
                case "--seeds": count = UInt64(value)
                case "--from": first = UInt64(value) ?? 1
                case "--peers": peers = Int(value)
                case "--acts": acts = Int(value)
                case "--faults":
                    guard let named = Faults(names: value) else { return nil }
                    faults = named
                case "--folder": folder = value
                case "--jobs": jobs = max(1, Int(value) ?? 1)
                case "--these": seeds = value.split(separator: ",").compactMap { UInt64($0) }
                case "--list":
                    guard let listed = Self.seeds(in: value) else { return nil }
                    seeds = listed
                default: return nil
                }
            }
        }
        if let count { seeds = Array(first..<first + count) }
    }

    /// The words that make another world of a seed, each behind a space.
    var shape: String {
        var words = isSmall ? " --small" : ""
        if let peers { words += " --peers \(peers)" }
        if let acts { words += " --acts \(acts)" }
        if let faults { words += " --faults \(faults)" }
        return words
    }

    /// What a process is told that runs some of the seeds.
    func workerWords(for some: [UInt64]) -> [String] {
        var words = ["--worker", "--folder", folder, "--these", some.map(String.init).joined(separator: ",")]
        if isChecked { words.append("--doublecheck") }
        if isVerbose { words.append("--verbose") }
        if endsAtFirst { words.append("--first") }
        if isSmall { words.append("--small") }
        if let peers { words += ["--peers", "\(peers)"] }
        if let acts { words += ["--acts", "\(acts)"] }
        if let faults { words += ["--faults", "\(faults)"] }
        return words
    }
}
