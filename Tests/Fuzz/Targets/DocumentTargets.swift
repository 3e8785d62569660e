import CRDT

/// Decode, encode back, read in place, merge with documents that we wrote, tell what changed.
@Sendable func fuzzDocument(_ bytes: [UInt8]) {
    let inPlace = bytes.withUnsafeBytes { raw in try? DocumentReader(raw).root.value() }
    bytes.withUnsafeBytes { raw in try? DocumentReader(raw).root.forEachAttachment { _ in } }
    guard let document = try? Document(decoding: EncodedState(bytes)) else { return }
    require(document.encoded().bytes == bytes, "a document does not encode to what it was decoded from")
    require(document.value == inPlace, "a document reads differently in place")
    checkDiff(document, document)
    for other in Samples.documents { checkMerge(document, other) }
}

private func checkMerge(_ document: Document, _ other: Document) {
    var left = document
    left.merge(other)
    var right = other
    right.merge(document)
    for merged in [left, right] {
        require(merged.vector == document.vector.union(other.vector), "a merge has another vector")
        checkState(merged)
        checkDiff(other, merged)
        checkDiff(merged, document)
        var again = merged
        again.merge(document)
        again.merge(other)
        checkState(again)
    }
}

/// Decode, encode back, and apply to documents that we wrote: what the base does not cover stays.
@Sendable func fuzzDelta(_ bytes: [UInt8]) {
    for stamp in Samples.stamps {
        guard let delta = try? Delta(decoding: EncodedDelta(bytes), stamp: stamp) else { continue }
        require(delta.encoded().bytes == bytes, "a delta does not encode to what it was decoded from")
        require(delta.resultingVector.covers(delta.base), "a delta's result does not cover its base")
        for before in Samples.documents { checkApply(delta, to: before) }
    }
}

private func checkApply(_ delta: Delta, to before: Document) {
    var after = before
    guard after.apply(delta) == .applied else {
        require(after == before, "a delta that was not applied changed something")
        return
    }
    checkState(after)
    checkDiff(before, after)
    let once = after
    require(after.apply(delta) == .duplicate && after == once, "a duplicate is applied again")
    var joined = before
    joined.merge(after)
    require(joined == after, "an applied delta is lost in a merge")
}

/// Decode, encode back, and decode the deltas inside.
@Sendable func fuzzOperation(_ bytes: [UInt8]) {
    let header = try? OperationHeader.peek(bytes)
    guard let operation = try? Operation(decoding: bytes) else { return }
    require(operation.encoded() == bytes, "an operation does not encode to what it was decoded from")
    require(header?.sequence == operation.sequence, "an operation's header reads differently")
    for change in operation.changes {
        guard let delta = try? Delta(decoding: change.delta, stamp: operation.stamp) else { continue }
        require(delta.encoded() == change.delta, "a delta does not encode to what it was decoded from")
        var document = Document()
        if document.apply(delta) == .applied { checkState(document) }
    }
}

private func checkState(_ document: Document) {
    let bytes = document.encoded()
    guard let decoded = try? Document(decoding: bytes) else {
        fatalError("FUZZ: a state does not survive its encoding")
    }
    require(decoded == document, "a state decodes to another one")
    let inPlace = bytes.withUnsafeBytes { raw in try? DocumentReader(raw).root.value() }
    require(inPlace == document.value, "a state reads differently in place")
}

private func checkDiff(_ earlier: Document, _ later: Document) {
    let diff = later.diff(from: earlier)
    require(earlier != later || diff.isEmpty, "a state differs from itself")
    require(earlier.value == later.value || !diff.changes.isEmpty, "a visible change is not named")
}
