import CRDT

/// The state shared by the parts of one execution. Belongs to one thread.
final class ExecutionContext {
    let source: SourceText
    let options: ExecutionOptions
    let arguments: [Value]
    let meter: ExecutionMeter
    /// Set by PROFILE.
    let statistics: ExecutionStatistics?
    /// The current block for kept rows: see `keep`.
    private var block: KeptBlock?
    private var blockBytes = 0
    private var usedBytes = 0

    init(_ source: SourceText, _ options: ExecutionOptions, _ arguments: [Value]) {
        self.source = source
        self.options = options
        self.arguments = arguments
        meter = ExecutionMeter(options, textBytes: source.text.utf8.count)
        statistics = nil
    }

    private init(_ context: ExecutionContext, _ arguments: [Value], _ statistics: ExecutionStatistics?) {
        source = context.source
        options = context.options
        meter = context.meter
        self.statistics = statistics
        self.arguments = arguments
    }

    func replacing(arguments: [Value]) -> ExecutionContext {
        ExecutionContext(self, arguments, statistics)
    }

    /// The same execution, with statistics.
    func counting(_ statistics: ExecutionStatistics) -> ExecutionContext {
        ExecutionContext(self, arguments, statistics)
    }

    func runner(_ documents: any DocumentSource, _ types: [TypeDefinition]) -> RowRunner {
        RowRunner(source: documents, evaluator: Evaluator(options, types: types), context: self)
    }

    /// Keeps a document. Several share an allocation, each twice as large as the one before: a caller that
    /// keeps rows mostly keeps all of them, and allocating takes longer than copying.
    func keep(_ id: UnsafeRawBufferPointer, _ document: UnsafeRawBufferPointer) -> KeptDocument {
        let count = id.count + document.count
        if block == nil || count > blockBytes - usedBytes {
            blockBytes = max(count, min(2 * blockBytes, DQLLimits.keptBlockBytes))
            block = KeptBlock.make(blockBytes)
            usedBytes = 0
        }
        guard let block else { preconditionFailure("just made") }
        defer { usedBytes += count }
        return KeptDocument(id, document, in: block, at: usedBytes)
    }
}
