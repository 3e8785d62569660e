import CRDT

/// (d) What documents and deltas weigh, beside their JSON and CBOR.
func measureSizes(_ report: inout Report) throws {
    let short = JSONText.print(.object(Samples.order(4_711))).utf8.count
    let order = Samples.order(4_711, note: 48 + 250 - short)
    let json = Double(JSONText.print(.object(order)).utf8.count)
    let stamp = Stamp(time: Samples.start, actor: ActorID(0x1234_5678_9ABC_DEF0))
    let fresh = try Samples.inserted(order, stamp)
    report.line("fresh json", json, "bytes")
    report.line("fresh cbor", Double(CBOR.encode(.object(order)).count), "bytes")
    report.line("fresh", Double(fresh.encoded().count), "bytes")

    let later = Stamp(time: Samples.start + 3_600_000 << 16, actor: stamp.actor)
    let delta = try Samples.edited(fresh, later) { try $0.set(["status"], "done") }.delta
    report.line("delta own", Double(delta.count), "bytes")
    let foreign = Stamp(time: Samples.start + 3_600_000 << 16, actor: ActorID(0xFEDC_BA98_7654_3210))
    let other = try Samples.edited(fresh, foreign) { try $0.set(["status"], "done") }.delta
    report.line("delta foreign", Double(other.count), "bytes")

    // Every field by one of eight actors: each writes its share in one transaction, a minute after the other.
    let shared = Samples.shared
    var document = try Samples.inserted(shared, Stamp(time: Samples.start, actor: actor(0)))
    var scattered = document
    for number in 0..<8 {
        let mine = shared.entries.enumerated().filter { $0.offset % 8 == number }.map(\.element)
        let time = Samples.start + UInt64(number + 1) * 60_000 << 16
        document = try Samples.edited(document, Stamp(time: time, actor: actor(number))) { editor in
            for entry in mine { try editor.set([entry.key], entry.value) }
        }.document
    }
    for (index, entry) in shared.entries.enumerated() {
        let time = Samples.start + UInt64(index + 1) * 60_000 << 16
        scattered = try Samples.edited(scattered, Stamp(time: time, actor: actor(index % 8))) { editor in
            try editor.set([entry.key], entry.value)
        }.document
    }
    report.line("shared json", Double(JSONText.print(.object(shared)).utf8.count), "bytes")
    report.line("shared cbor", Double(CBOR.encode(.object(shared)).count), "bytes")
    report.line("shared", Double(document.encoded().count), "bytes")
    report.line("shared, a transaction a field", Double(scattered.encoded().count), "bytes")
}

/// Scattered over the 64 bits, as random ones are.
private func actor(_ number: Int) -> ActorID { ActorID((UInt64(number) + 1) &* 0x9E37_79B9_7F4A_7C15) }

extension Samples {
    /// Sixteen fields, about 400 bytes of JSON.
    static var shared: ObjectValue {
        var entries = order(4_711).entries.filter { $0.key != "customer" }
        for (number, name) in ["customer", "city", "street", "phone", "carrier", "weight", "color", "remark"]
            .enumerated()
        { entries.append((key: name, value: .string("value \(number) of \(name)"))) }
        return ObjectValue(unique: entries)
    }
}
