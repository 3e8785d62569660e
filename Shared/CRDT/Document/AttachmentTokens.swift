extension MapReader {
    /// Calls `body` with every token that some reader can see: all concurrent ones, and also those under a
    /// newer kind, because a reader may ask for the ATTACHMENT.
    public func forEachAttachment(_ body: (AttachmentToken) -> Void) throws(CRDTError) {
        try forEachAttachment(depth: 0, body)
    }

    /// The depth is bounded as in `value(depth:)`.
    private func forEachAttachment(depth: Int, _ body: (AttachmentToken) -> Void) throws(CRDTError) {
        guard depth <= Limits.nestingDepth else { throw CRDTError.tooDeep }
        try forEach { (_, field) throws(CRDTError) in
            for value in try field.attachments() {
                if let token = AttachmentToken(value) { body(token) }
            }
            try field.map()?.forEachAttachment(depth: depth + 1, body)
        }
    }
}
