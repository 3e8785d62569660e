import CRDT
import DQL
import DQLCorpus
import Testing

@Suite("System collections")
struct SystemCollectionTests {
    private func rows(
        _ statement: String, strict: Bool = false, _ arguments: ObjectValue = ObjectValue()
    ) throws -> [Value] {
        var options = ExecutionOptions(strictMode: strict)
        options.system = Sample()
        return try StatementCompiler.compile(statement).rows(
            in: MemoryStore(), arguments: arguments, options: options)
    }

    @Test("rows are documents, with ids of their own or their place")
    func documents() throws {
        #expect(
            try rows("SELECT * FROM system:collections ORDER BY name")
                == [["_id": "cars", "name": "cars"], ["_id": "people", "name": "people"]])
        #expect(try rows("SELECT RAW _id FROM system:system_info") == [0, 1])
        #expect(try rows("SELECT RAW name FROM __collections WHERE _id = 'cars'") == ["cars"])
        #expect(try rows("SELECT RAW name FROM SYSTEM:Collections USE IDS 'people', 'x'") == ["people"])
        #expect(try rows("SELECT COUNT(*) AS n FROM system:collections") == [["n": 2]])
        #expect(try rows("SELECT RAW _id FROM system:collections LIMIT 1 OFFSET 1").count == 1)
    }

    @Test("objects are MAPs: declared or not outside strict mode, only declared in it")
    func types() throws {
        let plain = "SELECT RAW documents.synced_up_to_local_commit_id FROM system:data_sync_info"
        let declared = plain.replacingDocuments
        #expect(try rows(plain) == [7])
        #expect(try rows(declared) == [7])
        #expect(try rows(plain, strict: true) == [])
        #expect(try rows(declared, strict: true) == [7])
        let seed =
            "SELECT * FROM COLLECTION system:data_sync_info (documents MAP) "
            + "WHERE is_ditto_server AND documents.sync_session_status = 'Connected'"
        #expect(try rows(seed).count == 1)
    }

    @Test("indexes can be asked for and there are none, dual has one document")
    func always() throws {
        let store = MemoryStore()
        #expect(try store.rows("SELECT * FROM system:indexes") == [])
        #expect(try store.rows("SELECT RAW 1 FROM system:dual") == [1])
        #expect(try rows("SELECT * FROM system:indexes") == [])
    }

    @Test("what is not offered says so at its place, what does not exist suggests")
    func errors() {
        let missing = #expect(throws: DQLError.self) { try rows("SELECT * FROM system:request_history") }
        #expect(missing?.code == .collectionNotOffered)
        #expect(missing?.column == 22)
        let unknown = #expect(throws: DQLError.self) { try rows("SELECT * FROM system:colections") }
        #expect(unknown?.code == .unknownCollection)
        #expect(unknown?.suggestion == "system:collections")
        for statement in [
            "DELETE FROM system:collections", "EVICT FROM system:indexes", "UPDATE system:vitals SET a = 1",
            "INSERT INTO system:metrics DOCUMENTS ({'a': 1})",
        ] {
            #expect(failure(of: statement)?.code == .readOnlyCollection)
        }
    }

    @Test("other names are the same collections")
    func aliases() throws {
        let statement = try StatementCompiler.compile("SELECT * FROM system:actives")
        #expect(statement.collectionsRead == ["system:active_requests"])
        #expect(try rows("SELECT RAW statement FROM system:actives") == ["SELECT 1"])
    }

    @Test("what a provider throws passes through")
    func failing() {
        #expect(throws: Sample.Failure.self) { try rows("SELECT * FROM system:vitals") }
    }

    private struct Sample: SystemCollections {
        struct Failure: Error {}

        func rows(of collection: SystemCollection) throws -> [ObjectValue]? {
            switch collection {
            case .collections: [["_id": "people", "name": "people"], ["_id": "cars", "name": "cars"]]
            case .systemInfo: [["namespace": "core", "key": "a"], ["namespace": "core", "key": "b"]]
            case .dataSyncInfo:
                [
                    [
                        "_id": "peer", "is_ditto_server": true,
                        "documents": [
                            "sync_session_status": "Connected", "synced_up_to_local_commit_id": 7,
                            "last_update_received_time": 1,
                        ],
                    ]
                ]
            case .activeRequests: [["_id": 1, "statement": "SELECT 1"]]
            case .vitals: throw Failure()
            default: nil
            }
        }
    }
}

extension String {
    /// The statement with the type definition that the original requires.
    fileprivate var replacingDocuments: String {
        split(separator: "system:data_sync_info", omittingEmptySubsequences: false).joined(
            separator: "COLLECTION system:data_sync_info (documents MAP)")
    }
}
