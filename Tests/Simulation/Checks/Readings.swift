import CRDT
import DQL

/// What the checks read in documents, by the documents' bytes: of most of them it was read before.
struct Readings {
    private var marksOf: [EncodedState: [Int]] = [:]
    private var balanceOf: [EncodedState: Int64] = [:]

    /// The marks in a note.
    mutating func marks(_ state: EncodedState) throws -> [Int] {
        if let known = marksOf[state] { return known }
        let document = try Document(decoding: state)
        let marks = document.isLive ? Reference.marks(in: document.value) : []
        marksOf[state] = marks
        return marks
    }

    /// What an account holds.
    mutating func balance(_ state: EncodedState) throws -> Int64 {
        if let known = balanceOf[state] { return known }
        var found: Int64 = 0
        if case .int(let balance)? = try Document(decoding: state).value["balance"] { found = balance }
        balanceOf[state] = found
        return found
    }
}
