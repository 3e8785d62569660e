import Testing

@Suite("Blanked Swift text")
struct SwiftTextTests {
    @Test("comments and literals are blanked, code and line numbers stay")
    func blanks() {
        let text = SwiftText("let a = \"b\" // c\n/* d\n/* e */ f */ let g = 1")
        #expect(
            text.lines.map { $0.split(separator: " ").joined(separator: " ") } == [
                "let a =", "", "let g = 1",
            ])
        #expect(text.commented == [true, true, true])
    }

    @Test("code inside an interpolation is code, also inside nested literals")
    func interpolation() {
        let text = SwiftText(#"let a = "x \(b(")", "\(c)")) y" + d"#)
        #expect(text.lines[0].filter { $0 != " " } == "leta=b(,c)+d")
    }

    @Test("raw and multi-line literals end where Swift ends them")
    func rawAndMultiline() {
        let text = SwiftText("a(#\"one \" two\"#, b)\nlet c = \"\"\"\n  \" d \"\n  \"\"\" + e")
        #expect(text.lines.map { $0.filter { $0 != " " } } == ["a(,b)", "letc=", "", "+e"])
    }
}
