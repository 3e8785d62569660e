import Foundation
import Testing

/// The 4.x names that have no place in this API are declared, so that a program that uses one is told its
/// successor.
@Suite("Names of the 4.x API")
struct LegacyNameTests {
    private static let module = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Shared/DittoSwift")

    private func lines(_ file: String) throws -> [String] {
        try String(contentsOf: Self.module.appendingPathComponent(file), encoding: .utf8)
            .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }

    /// The public declarations of both files, and the lines before each that hold its attributes.
    private func declarations() throws -> [(name: String, attributes: String)] {
        var found: [(name: String, attributes: String)] = []
        let kinds = "(?:class |struct |enum |protocol |func |var |(?=init)|(?=subscript))"
        let expression = try Regex(
            "public (?:static |convenience |final )*\(kinds)(\\w+)", as: (Substring, Substring).self)
        for file in ["Legacy/LegacyTypes.swift", "Legacy/LegacyMembers.swift"] {
            let lines = try lines(file)
            for (number, line) in lines.enumerated() {
                // The members of a type are as unavailable as it is.
                let isMember = file.hasSuffix("Types.swift") && line.hasPrefix(" ")
                guard !isMember, let match = line.firstMatch(of: expression) else { continue }
                let before = lines[..<number].reversed().prefix { $0.trimmed.hasPrefix("@") }
                found.append((String(match.1), before.joined(separator: " ")))
            }
        }
        return found
    }

    @Test("each is unavailable, with a message or a new name")
    func messages() throws {
        let declarations = try declarations()
        #expect(declarations.count > 55)
        for (name, attributes) in declarations {
            #expect(
                attributes.contains("@available(*, unavailable, message: \"")
                    || attributes.contains("@available(*, unavailable, renamed: \""), "\(name)")
        }
    }

    @Test("each is in the manual's table")
    func manual() throws {
        let page = try lines("DittoSwift.docc/LegacyNames.md").joined(separator: "\n")
        for (name, _) in try declarations() {
            let text = ["init": "Ditto(identity:", "subscript": "store[\"cars\"]"][name] ?? "`\(name)"
            #expect(page.contains(text), "\(name)")
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

extension String {
    fileprivate var trimmed: Substring { drop { $0 == " " } }
}
