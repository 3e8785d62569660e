import CRDT

/// Hints for the choice of access paths. They never change a result; unknown ones are ignored, since they
/// may belong to another version.
struct Directives: Equatable, Sendable {
    /// `#disable_index_scan`: no index is used.
    var disablesIndexes = false
    /// `#prefer_order`: an index that delivers ORDER BY's order wins over one that finds fewer documents.
    var prefersOrder = false
    /// `#intersects`: how many index scans are intersected at most; 0 leaves it to `#max_scans`, 1 means
    /// never.
    var intersections = 0
    /// `#max_scans`: how many index scans one access may consist of.
    var scans = DQLLimits.indexScans
    /// `#max_inlist`: how many values of one IN are looked up one by one; a longer list becomes one range.
    var inListValues = DQLLimits.indexRanges
    /// `#max_serial_ranges`: how many ranges of an index one scan reads; more become one range.
    var serialRanges = DQLLimits.indexRanges
    /// `#max_joins`: how many joins a statement may have.
    var joins = DQLLimits.joins

    /// The directives of a parameter, overridden by those of a statement.
    init(_ standard: ObjectValue, _ written: ObjectValue?) {
        for entry in standard.entries + (written?.entries ?? []) { take(entry.key, entry.value) }
    }

    private mutating func take(_ name: String, _ value: Value) {
        switch (name.lowercased(), value) {
        case ("#disable_index_scan", .bool(let flag)): disablesIndexes = flag
        case ("#prefer_order", .bool(let flag)): prefersOrder = flag
        case ("#intersects", .int(let number)): intersections = Int(clamping: max(0, number))
        case ("#max_scans", .int(let number)): scans = Int(clamping: max(1, number))
        case ("#max_inlist", .int(let number)):
            inListValues = min(DQLLimits.indexRanges, Int(clamping: max(1, number)))
        case ("#max_serial_ranges", .int(let number)):
            serialRanges = min(DQLLimits.indexRanges, Int(clamping: max(1, number)))
        case ("#max_joins", .int(let number)): joins = Int(clamping: max(0, number))
        default: break
        }
    }
}

/// A statement's choice of indexes for one source: USE INDEX and `#index`.
struct IndexHint: Equatable, Sendable {
    /// The only indexes that may be used; empty asks for a scan of the collection, nil leaves it open.
    var names: [String]?

    init(names: [String]? = nil) { self.names = names }

    /// `#index`: a name, or several; empty or null asks for a scan. USE INDEX wins over `#index`.
    init(_ source: SourceSyntax) {
        if let name = source.indexHint {
            names = name.text.isEmpty ? [] : [name.text]
            return
        }
        for entry in source.directives?.values.entries ?? [] where entry.key.lowercased() == "#index" {
            switch entry.value {
            case .string(let name): names = name.isEmpty ? [] : [name]
            case .array(let list): names = list.compactMap(\.stringValue)
            case .null: names = []
            default: break
            }
        }
    }

    var asksForScan: Bool { names?.isEmpty ?? false }
}
