import Foundation
import Testing

/// The page `wire.cddl` against the code: a reader of CDDL and CBOR in another language must find every
/// committed frame to fit, and none that was cut or bent.
@Suite("The description of the frames")
struct ConformanceTests {
    @Test("every committed frame fits the description, and every type of frame is among them")
    func frames() throws {
        let script = URL(fileURLWithPath: #filePath)
            .resolvingSymlinksInPath().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Conformance/frame_checker.py")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", script.path]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(text)")
        #expect(text.hasSuffix("0 wrong\n"), "\(text)")
    }
}
