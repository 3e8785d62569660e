import CRDT
import DQL
import Testing

@Suite("Conditions over _id")
struct IDConditionTests {
    private func holds(_ text: String, _ id: Value, isLegacy: Bool = false) throws -> Bool {
        try IDCondition(text, isLegacy: isLegacy).holds(for: try DocumentID(id))
    }

    @Test("true holds for every id, false for none, in either language")
    func constants() throws {
        for isLegacy in [true, false] {
            #expect(try IDCondition("true", isLegacy: isLegacy).isAlwaysTrue)
            #expect(try holds("true", 1, isLegacy: isLegacy))
            #expect(try !IDCondition("false", isLegacy: isLegacy).isAlwaysTrue)
            #expect(try !holds("false", 1, isLegacy: isLegacy))
        }
    }

    @Test(
        "an id is compared whole and by its parts, in DQL",
        arguments: [
            ("_id = 'a'", true), ("_id = 'b'", false), ("_id IN ('a', 'b')", true), ("_id LIKE 'a%'", true),
            ("NOT (_id = 'a')", false), ("_id = 'b' OR _id > 'A'", true), ("_id IS MISSING", false),
            ("_id.user = 'a'", false), ("starts_with(_id, 'a')", true), ("_id = 1", false),
        ])
    func text(condition: String, expected: Bool) throws {
        #expect(try holds(condition, "a") == expected)
    }

    @Test("the parts of an id that is an object, as the guide's own sample names them")
    func parts() throws {
        let id: Value = ["userID": "ada", "orderID": 7]
        #expect(try holds("_id.userID == 'ada'", id, isLegacy: true))
        #expect(try !holds("_id.userID == 'bob'", id, isLegacy: true))
        #expect(try holds("_id.userID = 'ada' AND _id.orderID BETWEEN 1 AND 9", id))
        #expect(try !holds("_id.userID = 'ada'", "ada"))
        #expect(try holds("_id == 'x' || _id.orderID > 6", id, isLegacy: true))
    }

    @Test(
        "whatever reads more than the id is refused, and so are arguments, subqueries and further clauses",
        arguments: [
            "color = 'red'", "_id = 'a' AND color = 'red'", "c.color = 1", "c = 1", "_id = :id",
            "_id IN (SELECT _id FROM c)", "EXISTS (SELECT * FROM c)", "true ORDER BY _id", "true LIMIT 1",
            "true) OR (true", "", "SELECT * FROM c", "_id =", "conflicts(color) = 1",
            "ANY x IN tags SATISFIES x = 1 END", "length(color) > 1", "lower(_id) = color",
        ])
    func refused(condition: String) {
        #expect(throws: DQLError.self) { try IDCondition(condition, isLegacy: false) }
    }

    @Test(
        "a legacy condition that reads more than _id, or does not parse, is refused",
        arguments: [
            "color == 'red'", "_id == $args.id", "_id == 'a' && !deleted", "", "_id ==", "_id = 'a' x",
        ])
    func refusedLegacy(condition: String) {
        #expect(throws: DQLError.self) { try IDCondition(condition, isLegacy: true) }
    }

    @Test("equal conditions have one key, and others another")
    func keys() throws {
        let key = try IDCondition("_id = 'a'", isLegacy: false).canonicalKey
        #expect(try IDCondition("  _id   = 'a' ", isLegacy: false).canonicalKey == key)
        #expect(try IDCondition("_id = 'b'", isLegacy: false).canonicalKey != key)
    }
}
