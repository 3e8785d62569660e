import Foundation
import Testing

/// Every name of the 4.x API is declared in `Shared/DittoSwift/Legacy`, deprecated with its successor.
@Suite("Names of the 4.x API")
struct NameTests {
    private static let module = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Shared/DittoSwift")

    private struct Declaration {
        let name: String
        /// The attributes of the declaration, or of the type or extension that it stands in.
        let attributes: String
    }

    private func lines(_ url: URL) throws -> [String] {
        try String(contentsOf: url, encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false)
            .map(String.init)
    }

    /// The attributes right before a line.
    private func attributes(_ lines: [String], before number: Int) -> String {
        lines[..<number].reversed().prefix { $0.drop { $0 == " " }.hasPrefix("@") }.joined(separator: " ")
    }

    private func declarations() throws -> [Declaration] {
        let folder = Self.module.appendingPathComponent("Legacy")
        let files =
            (FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)?.allObjects ?? [])
            .compactMap { $0 as? URL }.filter { $0.pathExtension == "swift" }
        let kinds = "(?:class |struct |enum |protocol |typealias |func |var |let |(?=init)|(?=subscript))"
        let modifiers = "(?:static |convenience |final |weak |override )*"
        let expression = try Regex("public \(modifiers)\(kinds)(\\w+)", as: (Substring, Substring).self)
        var found: [Declaration] = []
        for file in files {
            let lines = try lines(file)
            var outer = ""
            for (number, line) in lines.enumerated() {
                if let first = line.first, first != " ", line.hasSuffix("{") {
                    outer = attributes(lines, before: number)
                }
                guard let match = line.firstMatch(of: expression) else { continue }
                found.append(
                    Declaration(
                        name: String(match.1), attributes: outer + attributes(lines, before: number)))
            }
        }
        return found
    }

    @Test("each is deprecated, with a message that names what to use, or with a new name")
    func messages() throws {
        let declarations = try declarations()
        #expect(declarations.count > 150)
        let message = try Regex(
            #"@available\(\*, deprecated, (?:renamed: "|message: "[A-Z]\w+ ).{3}"#
        )
        for declaration in declarations {
            #expect(declaration.attributes.firstMatch(of: message) != nil, "\(declaration.name)")
            #expect(!declaration.attributes.contains("unavailable"), "\(declaration.name)")
        }
    }

    @Test("each type is in the manual's table")
    func manual() throws {
        let page = try lines(Self.module.appendingPathComponent("DittoSwift.docc/LegacyNames.md"))
            .joined(separator: "\n")
        for declaration in try declarations() where declaration.name.hasPrefix("Ditto") {
            #expect(page.contains("`\(declaration.name)`"), "\(declaration.name)")
        }
    }

    @Test(
        "those that public applications use most are there",
        arguments: [
            "init", "startSync", "stopSync", "isSyncActive", "disableSyncWithV3", "appID", "siteID",
            "sdkVersion", "activated", "persistenceDirectory", "delegate", "loginWithToken",
            "loginWithCredentials", "subscript", "collection", "collections", "collectionNames", "write",
            "DittoIdentity", "DittoAuthenticationDelegate", "DittoCollection", "DittoDocument",
            "DittoMutableDocument", "DittoPendingCursorOperation", "DittoPendingIDSpecificOperation",
            "DittoLiveQuery", "DittoSubscription", "DittoWriteTransaction", "DittoAttachmentToken",
        ])
    func used(name: String) throws {
        #expect(try declarations().contains { $0.name == name })
    }
}
