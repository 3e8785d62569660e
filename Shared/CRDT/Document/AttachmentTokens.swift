extension MapReader {
    /// Hands out every token that an ATTACHMENT below holds for some reader: of concurrent writes each, and
    /// one that a newer kind stands above too, since a reader may ask for the kind.
    public func forEachAttachment(_ body: (AttachmentToken) -> Void) throws {
        try forEachAttachment(depth: 0, body)
    }

    /// Bounded like the decoder, as `value(depth:)`.
    private func forEachAttachment(depth: Int, _ body: (AttachmentToken) -> Void) throws {
        guard depth <= Limits.nestingDepth else { throw CRDTError.tooDeep }
        try forEach { (_, field) throws in
            for value in try field.attachments() {
                if let token = AttachmentToken(value) { body(token) }
            }
            try field.map()?.forEachAttachment(depth: depth + 1, body)
        }
    }
}
