import Foundation
import QueryService
import Testing

@Suite("Error codes of the query-service")
struct ErrorCodeTests {
    @Test("codes are unique, and each is asked for by name in a test of this target")
    func named() throws {
        let codes = QueryErrorCode.allCases.map(\.rawValue)
        #expect(Set(codes).count == codes.count)
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let sources = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
            .filter { $0.pathExtension == "swift" }.map { try String(contentsOf: $0, encoding: .utf8) }
        let unraised = codes.filter { code in !sources.contains { $0.contains("\"\(code)\"") } }
        #expect(unraised == [])
    }
}
