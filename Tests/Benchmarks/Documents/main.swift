// One round of every benchmark; prints one JSON object a line: name, value, unit. `documents.py` runs it
// several times beside other systems and takes medians. Run it alone for a profile: `documents apply`.

/// The benchmarks by name, in the order of the table.
let benchmarks: [(name: String, run: (inout Report) throws -> Void)] = [
    ("apply", applyManyDocuments), ("large", mergeLargeDocument), ("merge", mergeMediumDocument),
    ("read", readInPlace), ("sizes", measureSizes), ("prepare", prepareStatements),
    ("predicate", evaluatePredicate),
]

let chosen = CommandLine.arguments.dropFirst()
var report = Report()
for benchmark in benchmarks where chosen.isEmpty || chosen.contains(benchmark.name) {
    try benchmark.run(&report)
}
