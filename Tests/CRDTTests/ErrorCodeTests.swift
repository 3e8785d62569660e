import Testing

@testable import CRDT

/// One way to each code. The switch has no default: a new code does not compile without one.
@Suite("Error codes")
struct ErrorCodeTests {
    private static let stamp = Stamp(time: 9, actor: ActorID(9))

    private func raise(_ code: CRDTErrorCode) throws {
        var editor = DocumentEditor(document: Document(), stamp: Self.stamp)
        switch code {
        case .truncated: _ = try Document(decoding: [])
        case .malformed: _ = try VersionVector(decoding: [0, 0])
        case .unsupportedVersion: _ = try Document(decoding: [2, 0])
        case .tooDeep: try editor.set(Array(repeating: "a", count: Limits.nestingDepth + 1), 1)
        case .invalidUTF8: _ = try CBOR.decode([0x61, 0xFF])
        case .invalidJSON: _ = try JSONText.parse("nope")
        case .invalidCBOR: _ = try CBOR.decode([0xFF])
        case .tooManyValues:
            _ = try JSONText.parseStrictly(Array("[1,2]".utf8), within: ParsingBounds(values: 2))
        case .interrupted:
            let long = CBOR.encode(.array(Array(repeating: 1, count: ParsingBounds.step)))
            _ = try CBOR.decode(long, within: ParsingBounds(values: .max, goesOn: { _ in false }))
        case .floatInDocumentID: _ = try DocumentID(1.5)
        case .nullDocumentID: _ = try DocumentID(.null)
        case .invalidDocumentID: _ = try DocumentID(canonical: [0x18, 0x01])
        case .unsupportedKind: try editor.set(["a"], "x", declared: TypeDeclaration(kind: .counter))
        case .invalidPath: try editor.set([], 1)
        }
    }

    @Test("every code is raised, and names itself in the error's text", arguments: CRDTErrorCode.allCases)
    func everyCode(_ code: CRDTErrorCode) {
        let error = #expect(throws: CRDTError.self) { try raise(code) }
        #expect(error?.code == code)
        #expect(error?.description.hasPrefix("\(code.rawValue): ") == true)
        #expect(error?.message.isEmpty == false)
    }

    @Test("codes are published: each has one number, and the numbers stay")
    func numbers() {
        let numbers = [
            "0101", "0102", "0103", "0104", "0105", "0201", "0202", "0203", "0204", "0301", "0302", "0303",
            "0401", "0402",
        ]
        #expect(CRDTErrorCode.allCases.map(\.rawValue) == numbers.map { "CRDT-\($0)" })
    }

    @Test("an unknown version or flag is refused by every decoder, before anything else is read")
    func versions() {
        for version: UInt8 in [0, 2, 0xFF] {
            let bytes = [version] + [UInt8](repeating: 0, count: 30)
            #expect(errorCode { try Document(decoding: EncodedState(bytes)) } == .unsupportedVersion)
            #expect(
                errorCode { try Delta(decoding: EncodedDelta(bytes), stamp: Self.stamp) }
                    == .unsupportedVersion)
            #expect(errorCode { try Operation(decoding: bytes) } == .unsupportedVersion)
            #expect(errorCode { try OperationHeader.peek(bytes) } == .unsupportedVersion)
            #expect(
                bytes.withUnsafeBytes { raw in errorCode { try DocumentReader(raw) } } == .unsupportedVersion)
        }
        let flagged = [1, 0x80] + [UInt8](repeating: 0, count: 30)
        #expect(errorCode { try Document(decoding: EncodedState(flagged)) } == .malformed)
        #expect(errorCode { try Delta(decoding: EncodedDelta(flagged), stamp: Self.stamp) } == .malformed)
        #expect(errorCode { try Operation(decoding: flagged) } == .malformed)
    }

    @Test("a declaration must fit the value")
    func declarations() {
        var editor = DocumentEditor(document: Document(), stamp: Self.stamp)
        let nested = TypeDeclaration(
            kind: .map, children: [(key: "a", type: TypeDeclaration(kind: .attachment))])
        #expect(errorCode { try editor.set(["a"], ["a": 1], declared: nested) } == .unsupportedKind)
        #expect(errorCode { try editor.set(["a"], 1, declared: nested) } == .unsupportedKind)
        #expect(errorCode { try editor.unset([]) } == .invalidPath)
        let path = Array(repeating: "a", count: Limits.nestingDepth)
        #expect(errorCode { try editor.unset(path + ["a"]) } == .tooDeep)
        #expect(errorCode { try editor.set(path, ["a": 1]) } == .tooDeep)
        #expect(!editor.hasChanges)
    }
}
