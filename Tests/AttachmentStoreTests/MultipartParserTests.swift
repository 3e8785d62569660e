import Testing

@testable import AttachmentStore

@Suite("Multipart parser")
struct MultipartParserTests {
    /// Parses a form that arrives in pieces of one size; returns its parts' headers and bodies.
    private func parse(_ text: String, pieces size: Int, boundary: String = "b") throws -> [String] {
        var parser = try MultipartParser(contentType: "multipart/form-data; boundary=\(boundary)")
        var result: [String] = []
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: size) {
            for event in try parser.push(bytes[start..<min(start + size, bytes.count)]) {
                switch event {
                case .partBegins(let headers): result.append("\(headers["h"] ?? "-"):")
                case .data(let data): result[result.count - 1] += String(decoding: data, as: UTF8.self)
                case .partEnds: result[result.count - 1] += "."
                case .finished: result.append("end")
                }
            }
        }
        return result
    }

    @Test("a form is the same in pieces of any size", arguments: 1...40)
    func pieces(size: Int) throws {
        let text =
            "preamble\r\n--b\r\nH: 1\r\n\r\none\r\n--b  \r\nh:2\r\n\r\n\r\n--b\r\n\r\n\r\n\r\n--\r\n--bb"
            + "\r\n--b\r\nH: 4\r\n\r\n\r\n-\r\r\n\r\n--b--\r\nepilogue"
        #expect(throws: AttachmentStoreError.self) { try parse(text, pieces: size) }
        let legal = text.replacing("\r\n--bb", with: "\r\n-bb")
        #expect(
            try parse(legal, pieces: size) == [
                "1:one.", "2:.", "-:\r\n\r\n--\r\n-bb.", "4:\r\n-\r\r\n.", "end",
            ])
    }

    @Test("a part may have no body at all")
    func bodiless() throws {
        #expect(try parse("--b\r\nH: 1\r\n\r\n--b--", pieces: 100) == ["1:.", "end"])
        #expect(try parse("--b\r\nH: 1\r\n\r\n--b--", pieces: 1) == ["1:.", "end"])
    }

    @Test("what follows the closing delimiter is ignored")
    func epilogue() throws {
        #expect(try parse("--b--\r\n--b\r\nH: 1\r\n\r\nx\r\n--b--", pieces: 7) == ["end"])
    }

    @Test("a header without a colon, and a preamble without an end, are refused")
    func malformed() {
        #expect(throws: AttachmentStoreError.self) { try parse("--b\r\nnonsense\r\n\r\nx", pieces: 5) }
        let preamble = String(repeating: "x", count: 9000)
        #expect(throws: AttachmentStoreError.self) { try parse(preamble, pieces: 100) }
    }

    @Test("parameters may be quoted, escaped, and of any case")
    func parameters() {
        let header = HeaderParameters(#"Form-Data; Name="a;b\"c" ; FILENAME=x.bin; empty="""#)
        #expect(header.value == "form-data")
        #expect(header["name"] == #"a;b"c"#)
        #expect(header["filename"] == "x.bin")
        #expect(header["empty"] == "")
        #expect(header["missing"] == nil)
    }

    @Test("a boundary may be quoted and hold blanks")
    func quotedBoundary() throws {
        #expect(try parse("--a b\r\n\r\nx\r\n--a b--", pieces: 3, boundary: "\"a b\"") == ["-:x.", "end"])
    }
}
