import CRDT

/// The documents of a JSON text: the elements of an array, those of the list in an outer object, one object,
/// or arrays or objects one after another.
///
/// A first pass finds the list and checks the text; `next` reads one element after another, so that memory
/// does not grow with the file.
struct JSONDocumentReader: DocumentReading {
    private enum Place { case element, sequence, only, end }

    private let name: String
    private let reading: JSONReading
    private var cursor: JSONCursor
    private var place = Place.element
    private var count = 0
    /// True before the first element of an array.
    private var isFirst = true
    /// True where other arrays may follow the array.
    private var mayRepeat = false

    /// - Throws: `CLI-0401`, `CLI-0403`.
    init(_ source: TextSource, _ options: ReadingOptions = ReadingOptions(), notes: ImportNotes) throws {
        let outline = try JSONOutline(source, path: options.path, keepGoing: options.keepGoing)
        try self.init(source, outline, options, notes)
    }

    init(_ source: TextSource, _ outline: JSONOutline, _ options: ReadingOptions, _ notes: ImportNotes) throws
    {
        name = source.name
        reading = JSONReading(options, notes)
        let list = try Self.list(outline, options.path, source.name, notes)
        cursor = try JSONCursor(source)
        switch (outline.shape, list) {
        case (.array, _):
            _ = try cursor.peekText()
            try enterArray()
            mayRepeat = true
        case (.lines, _), (.sequence, _): place = .sequence
        case (.object, let keys?):
            for key in keys { try enterObject(key) }
            try enterArray()
        case (.object, nil): place = .only
        }
    }

    mutating func next() throws -> DocumentRecord? {
        switch place {
        case .end: return nil
        case .sequence:
            guard try cursor.peekText() != nil else { return nil }
            return try document()
        case .only:
            place = .end
            return try document()
        case .element:
            while try cursor.take("]") {
                guard mayRepeat, try cursor.peekText() != nil else {
                    place = .end
                    return nil
                }
                try enterArray()
            }
            guard try isFirst || cursor.take(",") else {
                throw cursor.failure("invalid JSON: a comma or closing bracket is missing")
            }
            isFirst = false
            return try document()
        }
    }

    private mutating func document() throws -> DocumentRecord {
        _ = try cursor.peek()
        count += 1
        let label = "\(name):\(cursor.line): document \(count)"
        return try reading.record(try cursor.value(), label)
    }

    private mutating func enterArray() throws {
        guard try cursor.take("[") else { throw cursor.failure("the text changed while it was read") }
        isFirst = true
    }

    private mutating func enterObject(_ wanted: String) throws {
        guard try cursor.take("{") else { throw cursor.failure("the text changed while it was read") }
        repeat {
            if utf8Equal(try cursor.key(), wanted) { return }
            try cursor.skip()
        } while try cursor.take(",")
        throw cursor.failure("the text changed while it was read")
    }

    /// The keys to the list of documents; nil where the outer value itself is the document or the list.
    private static func list(
        _ outline: JSONOutline, _ path: String?, _ name: String, _ notes: ImportNotes
    ) throws -> [String]? {
        let names = outline.lists.map { $0.joined(separator: ".") }
        let others = names.isEmpty ? "" : "; arrays of objects are at \(names.joined(separator: ", "))"
        if let path {
            guard case .object = outline.shape else {
                throw MimeoError(
                    .usage, "--path names an array within one outer object, and \(name) has none")
            }
            guard path != "." else { return nil }
            guard let named = outline.named else {
                throw MimeoError(.usage, "\(name) has no array at --path \(path)\(others)")
            }
            return named
        }
        guard case .object = outline.shape else {
            if case .array = outline.shape {
                guard outline.arrays > 1 else { return nil }
                notes.add(
                    .inputGuessed,
                    "\(name): \(outline.arrays) arrays one after another, each of documents")
                return nil
            }
            if outline.isSequence { return nil }
            notes.add(.inputGuessed, "\(name): objects one after another, each a document")
            return nil
        }
        let outer = outline.lists.filter { $0.count == 1 }
        let isCollection = outline.isFeatureCollection
        if let features = isCollection ? ["features"] : outer.first, !outline.hasID,
            isCollection || outer.count == 1
        {
            notes.add(
                .inputGuessed,
                "\(name): the documents are the elements of '\(features[0])'; --path names another list")
            return features
        }
        guard outer.count < 2 || outline.hasID else {
            throw MimeoError(
                .fileMalformed,
                "\(name): the outer object has several lists of objects: --path names one of "
                    + "\(names.joined(separator: ", ")), and --path . takes the object as one document")
        }
        notes.add(.inputGuessed, "\(name): the outer object is one document\(others)")
        return nil
    }
}

/// The documents of a text with one object a line; empty lines and the marks of a sequence are skipped.
struct NDJSONReader: DocumentReading {
    private let name: String
    private let reading: JSONReading
    private var bytes: FileBytes
    private var line = 0
    private var isAtEnd = false

    /// - Throws: `CLI-0401`.
    init(_ source: TextSource, _ options: ReadingOptions = ReadingOptions(), notes: ImportNotes) throws {
        name = source.name
        bytes = try source.open()
        reading = JSONReading(options, notes)
    }

    mutating func next() throws -> DocumentRecord? {
        while let text = try nextLine() {
            guard text.contains(where: { !" \t".utf8.contains($0) }) else { continue }
            return try reading.record(text, "\(name):\(line)")
        }
        return nil
    }

    private mutating func nextLine() throws -> [UInt8]? {
        guard !isAtEnd else { return nil }
        line += 1
        var text: [UInt8] = []
        try bytes.skipMark()
        while let byte = try bytes.next() {
            if byte == UInt8(ascii: "\n") { return text }
            if byte == UInt8(ascii: "\r") {
                if try bytes.peek() == UInt8(ascii: "\n") { _ = try bytes.next() }
                return text
            }
            guard text.count < Limits.recordBytes else {
                throw MimeoError(
                    .fileMalformed, "\(name):\(line): the line is longer than \(Limits.recordBytes) bytes")
            }
            // A JSON text sequence has a mark before each text.
            if text.isEmpty, byte == JSONCursor.recordSeparator { continue }
            text.append(byte)
        }
        isAtEnd = true
        return text
    }
}

/// Makes a document of the text of one JSON object, and tells what is odd about it.
struct JSONReading {
    private let isExtended: Bool
    private let notes: ImportNotes

    init(_ options: ReadingOptions, _ notes: ImportNotes) {
        isExtended = options.extendedJSON
        self.notes = notes
    }

    /// - Throws: `RecordError`.
    func record(_ text: [UInt8], _ place: String) throws -> DocumentRecord {
        var value: Value
        do { value = try JSONText.parse(text, roundsIntegers: true) } catch {
            throw RecordError(place: place, problem: JSONCursor.problem(error, text))
        }
        guard case .object = value else { throw RecordError(place: place, problem: "not a JSON object") }
        let oddities = JSONOddities(text, value)
        if let key = oddities.repeatedKey {
            notes.add(
                .keyRepeated,
                "\(place): the key '\(ImportNotes.cut(key))' stands twice in an object; the last one counts")
        }
        if let number = oddities.smallNumber {
            notes.add(
                .numberChanged,
                "\(place): the number \(ImportNotes.cut(number)) is too small for a double and became 0")
        }
        if let number = oddities.largeInteger {
            notes.add(
                .numberChanged,
                "\(place): the integer \(ImportNotes.cut(number)) does not fit 64 bits and became a "
                    + "double, which keeps about 15 digits; a text would keep all")
        }
        if isExtended {
            do { value = try ExtendedJSON.plain(value) } catch {
                throw RecordError(place: place, problem: error.message)
            }
        } else if let key = ExtendedJSON.firstKey(value) {
            notes.add(
                .extendedJSON,
                "\(place): '\(key)' is extended JSON; --extended-json turns it into plain values")
        }
        return DocumentRecord(place: place, document: value.objectValue ?? ObjectValue(), bytes: text.count)
    }
}
