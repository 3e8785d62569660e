import CRDT
import Foundation

/// A delta as it arrives.
private struct Arrived {
    let document: Int
    let stamp: Stamp
    let bytes: EncodedDelta
}

/// (a) 10,000 single-field deltas of two replicas to 1,000 documents: five rounds in which both replicas
/// write one field of every document and then hear of each other's writes.
func applyManyDocuments(_ report: inout Report) throws {
    let (count, rounds) = (1_000, 5)
    let left = ActorID(0x1234_5678_9ABC_DEF0)
    let right = ActorID(0xFEDC_BA98_7654_3210)
    var here = try (0..<count).map {
        try Samples.inserted(Samples.order($0), Stamp(time: Samples.start, actor: left))
    }
    var there = here
    var stored = here.map { $0.encoded() }
    var memory = 0.0
    var bytes = 0.0
    var time = Samples.start
    for round in 0..<rounds {
        time += 60_000 << 16
        var toHere: [Arrived] = []
        var toThere: [Arrived] = []
        for index in 0..<count {
            let one = Stamp(time: time + UInt64(index), actor: left)
            let two = Stamp(time: time + UInt64(index), actor: right)
            let a = try Samples.edited(here[index], one) {
                try $0.set(["status"], .string(Samples.statuses[(round + index) % 4]))
            }
            let b = try Samples.edited(there[index], two) {
                try $0.set([round % 2 == 0 ? "qty" : "status"], .int(Int64(round * 1_000 + index)))
            }
            here[index] = a.document
            there[index] = b.document
            stored[index] = a.document.encoded()
            toHere.append(Arrived(document: index, stamp: two, bytes: b.delta))
            toThere.append(Arrived(document: index, stamp: one, bytes: a.delta))
        }
        bytes += try Report.nanoseconds {
            for arrived in toHere {
                var document = try Document(decoding: stored[arrived.document])
                _ = document.apply(try Delta(decoding: arrived.bytes, stamp: arrived.stamp))
                stored[arrived.document] = document.encoded()
            }
        }
        memory += try Report.nanoseconds {
            for arrived in toHere {
                let delta = try Delta(decoding: arrived.bytes, stamp: arrived.stamp)
                _ = here[arrived.document].apply(delta)
            }
            for arrived in toThere {
                let delta = try Delta(decoding: arrived.bytes, stamp: arrived.stamp)
                _ = there[arrived.document].apply(delta)
            }
        }
    }
    precondition(here == there && zip(stored, here).allSatisfy { $0 == $1.encoded() }, "replicas differ")
    report.line("apply", Double(2 * count * rounds) / memory * 1e9, "deltas/s")
    report.line("apply stored", Double(count * rounds) / bytes * 1e9, "deltas/s")
    var plain = (0..<count).map { number in
        Dictionary(uniqueKeysWithValues: Samples.order(number).entries.map { ($0.key, $0.value) })
    }
    let reference = Report.nanoseconds {
        for round in 0..<2 * rounds {
            for index in 0..<count { plain[index]["status"] = .string(Samples.statuses[(round + index) % 4]) }
        }
    }
    report.line("apply reference", Double(2 * count * rounds) / reference * 1e9, "assignments/s")
}

/// (e) One document of 10,000 fields, 5,000 concurrent edits on each of two replicas.
func mergeLargeDocument(_ report: inout Report) throws {
    func key(_ number: Int) -> String {
        let digits = String(number)
        return "f" + String(repeating: "0", count: 5 - digits.count) + digits
    }
    let (left, right) = (ActorID(1), ActorID(2))
    let base = try Samples.edited(Document(), Stamp(time: Samples.start, actor: left)) { editor in
        let entries = (0..<10_000).map { (key: key($0), value: Value.int(Int64($0))) }
        try editor.set(["m"], .object(ObjectValue(unique: entries)))
    }.document
    let one = Stamp(time: Samples.start + 1, actor: left)
    let two = Stamp(time: Samples.start + 2, actor: right)
    let a = try Samples.edited(base, one) { editor in
        try editor.set(["m"], .object(object((0..<5_000).map { (key($0), -$0) })))
    }
    let b = try Samples.edited(base, two) { editor in
        try editor.set(["m"], .object(object((2_500..<7_500).map { (key($0), $0 * 10) })))
    }
    let (leftBytes, rightBytes) = (a.document.encoded(), b.document.encoded())
    var bytes: EncodedState = []
    var applying: [Double] = []
    var merging: [Double] = []
    for _ in 0..<5 {
        // Decoded anew: a copy would share its storage until the first write.
        var here = try Document(decoding: leftBytes)
        var there = try Document(decoding: rightBytes)
        let time = try Report.nanoseconds {
            _ = here.apply(try Delta(decoding: b.delta, stamp: two))
            _ = there.apply(try Delta(decoding: a.delta, stamp: one))
        }
        applying.append(time)
        precondition(here == there, "replicas differ")
        bytes = here.encoded()
        var document = try Document(decoding: leftBytes)
        let other = try Document(decoding: rightBytes)
        merging.append(Report.nanoseconds { document.merge(other) })
        precondition(document == here, "deltas and states give different documents")
    }
    report.line("large", 10_000 / applying.sorted()[2] * 1e9, "fields/s")
    report.line("large states", 10_000 / merging.sorted()[2] * 1e9, "fields/s")
    let coding = try Report.nanoseconds { blackHole(try Document(decoding: bytes).encoded()) }
    report.line("large decode and encode", 10_000 / coding * 1e9, "fields/s")
    report.line("large delta bytes", Double(a.delta.count + b.delta.count) / 10_000, "bytes/field")
    var plain = Dictionary(uniqueKeysWithValues: (0..<10_000).map { (key($0), Value.int(Int64($0))) })
    let edits = (0..<10_000).map { (key(($0 * 7) % 10_000), Value.int(Int64($0))) }
    let reference = Report.nanoseconds { plain.merge(edits) { _, new in new } }
    report.line("large reference", 10_000 / reference * 1e9, "assignments/s")
}

private func object(_ pairs: [(String, Int)]) -> ObjectValue {
    ObjectValue(unique: pairs.map { (key: $0.0, value: .int(Int64($0.1))) })
}

/// (b) Decode a state of 4 KB and 60 fields, and merge it into another that was written concurrently.
func mergeMediumDocument(_ report: inout Report) throws {
    let base = try Samples.inserted(Samples.wide(60), Stamp(time: Samples.start, actor: ActorID(1)))
    func edited(_ actor: UInt64, _ numbers: Range<Int>) throws -> Document {
        let stamp = Stamp(time: Samples.start + actor << 20, actor: ActorID(actor))
        return try Samples.edited(base, stamp) { editor in
            for number in numbers { try editor.set(["field\(number)"], .int(Int64(actor))) }
        }.document
    }
    let here = try edited(2, 10..<30)
    let bytes = try edited(3, 20..<40).encoded()
    let json = Data(JSONText.print(.object(base.value)).utf8)
    report.line("merge bytes", Double(base.encoded().count), "bytes")
    let time = try Report.nanosecondsEach(2_000) {
        var document = here
        document.merge(try Document(decoding: bytes))
        return document.vector.entries.count
    }
    report.line("merge", time / 1_000, "µs")
    let reference = try Report.nanosecondsEach(2_000) {
        let object = try JSONSerialization.jsonObject(with: json)
        return (object as? [String: Any])?.count ?? 0
    }
    report.line("merge reference", reference / 1_000, "µs")
}

/// (c) One path of a 4 KB document, read in place.
func readInPlace(_ report: inout Report) throws {
    let document = try Samples.inserted(Samples.wide(60), Stamp(time: Samples.start, actor: ActorID(1)))
    let bytes = document.encoded()
    try bytes.withUnsafeBytes { raw in
        func read(_ first: String, _ second: String) throws -> Int {
            guard let city = try DocumentReader(raw).root.field(first)?.map()?.field(second)?.value(.register)
            else { return 0 }
            return city.stringValue?.utf8.count ?? 0
        }
        let length = try read("address", "city")
        precondition(length == 6, "the path is not there")
        let time = try Report.nanosecondsEach(200_000) { try read("address", "city") }
        report.line("read", time, "ns")
        let allocations = try Report.allocations {
            var sum = 0
            for _ in 0..<100 { sum += try read("address", "city") }
            return sum
        }
        report.line("read allocations", Double(allocations) / 100, "per read")
    }
    let plain: [String: [String: String]] = Dictionary(
        uniqueKeysWithValues: Samples.wide(60).entries.map { ($0.key, ["city": "Berlin", "zip": "10115"]) })
    let reference = Report.nanosecondsEach(200_000) { plain["address"]?["city"]?.utf8.count ?? 0 }
    report.line("read reference", reference, "ns")
}
