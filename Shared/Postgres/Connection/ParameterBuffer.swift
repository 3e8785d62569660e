/// The parameters of one statement in libpq's form, in memory that is reused for the next one.
final class ParameterBuffer {
    private static let leastBytes = 1_024

    private var memory = UnsafeMutableRawBufferPointer.allocate(byteCount: leastBytes, alignment: 1)
    private var values: [UnsafePointer<CChar>?] = []
    private var lengths: [Int32] = []
    private var formats: [Int32] = []

    deinit { memory.deallocate() }

    /// Bytes of memory held.
    var keptBytes: Int { memory.count }

    /// Runs a body that sends the parameters. Its arguments are libpq's, without the types: count,
    /// pointers, lengths, formats (all binary).
    func with<Result>(
        _ parameters: [Parameter],
        _ body: (
            _ count: Int32, _ values: [UnsafePointer<CChar>?], _ lengths: [Int32], _ formats: [Int32]
        ) -> Result
    ) -> Result {
        lengths.removeAll(keepingCapacity: true)
        values.removeAll(keepingCapacity: true)
        var size = 0
        for parameter in parameters {
            let length = parameter.size
            lengths.append(Int32(length))
            size += length
        }
        // One more byte, so that an empty value has an address too.
        if size >= memory.count { resize(to: size + 1) }
        defer { if memory.count > PostgresLimits.keptBytes { resize(to: Self.leastBytes) } }
        // A null pointer would be NULL.
        guard let start = memory.baseAddress else { preconditionFailure("there is always some memory") }
        var cursor = Parameter.Cursor(start)
        var end = start
        for (parameter, length) in zip(parameters, lengths) {
            values.append(UnsafePointer(end.assumingMemoryBound(to: CChar.self)))
            parameter.encode(into: &cursor)
            end += Int(length)
            precondition(cursor.place == end, "a parameter's size is not what was written")
        }
        while formats.count < parameters.count { formats.append(1) }
        return body(Int32(parameters.count), values, lengths, formats)
    }

    private func resize(to count: Int) {
        memory.deallocate()
        memory = .allocate(byteCount: count, alignment: 1)
    }
}
