import CRDT
import Crypto
import Foundation
import Identity

/// The name of an account in its one normal form: NFKC with cases folded.
///
/// A name has letters, marks, digits and `. _ - + @ '`, at most `Limits.accountNameBytes` bytes, and begins
/// with a letter or digit. A colon is in none: it ends the name in a login.
struct AccountName: Sendable, Hashable {
    let text: String

    /// Nil for a text that is no name. Each spelling of a name gives the same one.
    init?(_ text: String) {
        // A text of a megabyte is not folded.
        guard !text.isEmpty, text.utf8.count <= Limits.accountNameBytes else { return nil }
        let folded = Self.folded(text)
        guard !folded.isEmpty, folded.utf8.count <= Limits.accountNameBytes,
            let first = folded.unicodeScalars.first, Self.isLetterOrDigit(first),
            folded.unicodeScalars.allSatisfy({
                Self.isLetterOrDigit($0) || Self.isMark($0) || Self.others.contains($0)
            })
        else { return nil }
        self.text = folded
    }

    /// The id of the account with this name. Look-alikes have the same one, so the account's own name has to
    /// be compared too.
    func id(in database: DatabaseID) -> String {
        let form = LookAlikes.replaced(text)
        let digest = SHA256.hash(data: Data("account/\(database)/\(form)".utf8))
        return Base64URL.encode(Array(digest).prefix(16))
    }

    /// Compares bytes: canonically equal texts have one normal form anyway.
    static func == (left: AccountName, right: AccountName) -> Bool { utf8Equal(left.text, right.text) }

    /// The form for a person.
    static let form =
        "1 to \(Limits.accountNameBytes) bytes of letters, digits and . _ - + @ ', first a letter or digit"

    private static let others: Set<Unicode.Scalar> = [".", "_", "-", "+", "@", "'"]

    private static func isLetterOrDigit(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .otherLetter, .modifierLetter,
            .decimalNumber:
            !scalar.properties.isDefaultIgnorableCodePoint
        default: false
        }
    }

    private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
        let isMark = [.nonspacingMark, .spacingMark].contains(scalar.properties.generalCategory)
        return isMark && !scalar.properties.isDefaultIgnorableCodePoint
    }

    /// Cases are folded over the capital, so that ß is ss and ς is σ.
    private static func folded(_ text: String) -> String {
        var folded = ""
        for scalar in text.precomposedStringWithCompatibilityMapping.unicodeScalars {
            for capital in scalar.properties.uppercaseMapping.unicodeScalars {
                folded += capital.properties.lowercaseMapping
            }
        }
        return folded.precomposedStringWithCompatibilityMapping
    }
}
