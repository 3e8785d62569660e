import CRDT
import DQL
import DQLCorpus
import Foundation
import Testing

@Suite("System parameters")
struct SystemParameterTests {
    /// Runs a statement on parameters and returns its row.
    private func run(
        _ statement: String, _ parameters: inout SystemParameters, _ arguments: ObjectValue = ObjectValue()
    ) throws -> ObjectValue {
        try StatementCompiler.compile(statement).execute(on: &parameters, arguments: arguments).row
    }

    private func failure(_ statement: String, _ arguments: ObjectValue = ObjectValue()) -> DQLError? {
        var parameters = SystemParameters()
        do {
            _ = try run(statement, &parameters, arguments)
            return nil
        } catch {
            return error as? DQLError
        }
    }

    @Test("every parameter's default is of its own type, and names are unique and in lower case")
    func table() {
        let all = ParameterTable.all
        #expect(all.count > 110)
        #expect(Set(all.map(\.name)).count == all.count)
        for parameter in all {
            #expect(parameter.name == parameter.name.lowercased())
            var parameters = SystemParameters()
            let set = try? parameters.set(parameter.name, to: parameter.defaultValue)
            #expect(set?.value == parameter.defaultValue, "\(parameter.name)")
            #expect(parameter.documentation.hasSuffix("."), "\(parameter.name)")
            let saysSo = parameter.documentation.hasSuffix("No effect in Mimeo yet.")
            #expect(saysSo != parameter.hasEffect, "\(parameter.name)")
        }
    }

    @Test("the reference page is what the table says")
    func reference() throws {
        try ReferencePage.writeIfAsked()
        #expect(try String(contentsOf: ReferencePage.parameters, encoding: .utf8) == ParameterReference.page)
    }

    @Test("SET gives the new value under the parameter's name, whatever case it is written in")
    func set() throws {
        var parameters = SystemParameters()
        #expect(try run("ALTER SYSTEM SET DQL_STRICT_MODE = true", &parameters) == ["dql_strict_mode": true])
        #expect(try run("SHOW dql_Strict_mode", &parameters) == ["dql_strict_mode": true])
        #expect(
            try run("alter system set Tombstone_TTL_hours to 24", &parameters) == ["tombstone_ttl_hours": 24])
        #expect(
            try run("ALTER SYSTEM SET tombstone_ttl_hours = :h", &parameters, ["h": 48])
                == ["tombstone_ttl_hours": 48])
        #expect(
            try run("ALTER SYSTEM SET dql_object_default = 'map'", &parameters) == [
                "dql_object_default": "MAP"
            ])
        #expect(
            try run("ALTER SYSTEM SET doc_id_filter_error_rate = 1", &parameters)
                == ["doc_id_filter_error_rate": 1.0])
    }

    @Test(
        "addresses of peers are texts or objects with one, of the schemes that there are; others are refused")
    func peerAddresses() throws {
        var parameters = SystemParameters()
        #expect(parameters.peerAddresses.isEmpty)
        _ = try run(
            "ALTER SYSTEM SET transports_discovered_peers = "
                + "['tcp://h:1', {'address': 'wss://x/y', 'type': 'force'}]", &parameters)
        #expect(parameters.peerAddresses == ["tcp://h:1", "wss://x/y"])
        _ = try run(
            "ALTER SYSTEM SET transports_discovered_peers = "
                + "[{'address': 'tcp://h:2', 'type': 'candidate'}, {'address': 'tcp://h:3'}]", &parameters)
        #expect(parameters.peerAddresses == ["tcp://h:3"])
        #expect(parameters.peerCandidates == ["tcp://h:2"])
        for value in [
            "['h:1']", "['tcp://']", "[{'address': 'ws://h', 'type': 'now'}]", "[1]", "'tcp://h:1'",
        ] {
            #expect(failure("ALTER SYSTEM SET transports_discovered_peers = \(value)") != nil, "\(value)")
        }
    }

    @Test("a collection for servers only, or for nobody, is never served to a peer")
    func withheldFromPeers() throws {
        var parameters = SystemParameters()
        _ = try run(
            "ALTER SYSTEM SET user_collection_sync_scopes = "
                + "{a: 'BigPeerOnly', b: 'LocalPeerOnly', c: 'SmallPeersOnly', d: 'AllPeers'}", &parameters)
        #expect(parameters.withheldFromPeers == ["a", "b"])
        #expect(parameters.withheldFromServers == ["b", "c"])
    }

    @Test("DEFAULT and RESET go back")
    func reset() throws {
        var parameters = SystemParameters()
        _ = try run("ALTER SYSTEM SET dql_strict_mode = true", &parameters)
        #expect(
            try run("ALTER SYSTEM SET dql_strict_mode = DEFAULT", &parameters) == ["dql_strict_mode": false])
        _ = try run("ALTER SYSTEM SET dql_strict_mode = true", &parameters)
        #expect(try run("ALTER SYSTEM RESET dql_strict_mode", &parameters) == ["dql_strict_mode": false])
        _ = try run("ALTER SYSTEM SET dql_strict_mode = true", &parameters)
        let all = try run("ALTER SYSTEM RESET ALL", &parameters)
        #expect(all["dql_strict_mode"] == false)
        #expect(all.count == ParameterTable.all.count)
    }

    @Test("SHOW ALL is one row in the order of names, LIKE chooses among them")
    func showAll() throws {
        var parameters = SystemParameters()
        let all = try run("SHOW ALL", &parameters)
        #expect(all.entries.map(\.key) == ParameterTable.all.map(\.name).sorted())
        let some = try run("SHOW ALL LIKE 'dql_%mode'", &parameters).entries.map(\.key)
        #expect(some == ["dql_enable_preview_mode", "dql_select_strict_mode", "dql_strict_mode"])
        #expect(try run("SHOW ALL LIKE 'DQL_STRICT%'", &parameters).count == 1)
        #expect(try run("SHOW ALL ILIKE :p", &parameters, ["p": "Dql_Strict%"]).count == 1)
        #expect(try run("SHOW ALL LIKE 'nothing'", &parameters).isEmpty)
        #expect(failure("SHOW ALL LIKE :p", ["p": 1])?.code == .invalidArgument)
    }

    @Test("SHOW reads in a transaction what the options carry")
    func showInTransaction() throws {
        var parameters = SystemParameters()
        try parameters.set("dql_strict_mode", to: true)
        let rows = try StatementCompiler.compile("SHOW dql_strict_mode").rows(
            in: MemoryStore(), options: ExecutionOptions(parameters))
        #expect(rows == [["dql_strict_mode": true]])
    }

    @Test(
        "what a parameter does not take is refused with what it takes",
        arguments: [
            ("dql_strict_mode = 'true'", "dql_strict_mode takes true or false, not \"true\""),
            ("tombstone_ttl_hours = 0", "tombstone_ttl_hours takes a whole number from 1, not 0"),
            ("reaper_preferred_hour = 24", "reaper_preferred_hour takes a whole number from 0 to 23, not 24"),
            ("dql_object_default = 'SET'", "dql_object_default takes one of 'REGISTER', 'MAP', not \"SET\""),
            ("dql_default_directives = [1]", "dql_default_directives takes an object, not array"),
            ("doc_id_filter_error_rate = 1.5", "a number from 0.0 to 1.0, not 1.5"),
            ("additional_p2p_trusted_ca_certs = [1]", "an array of strings, not array"),
            ("dql_strict_mode = MISSING", "a parameter cannot be MISSING"),
        ])
    func refused(_ assignment: String, _ message: String) {
        let error = failure("ALTER SYSTEM SET \(assignment)")
        #expect(error?.code == .invalidArgument)
        #expect(error?.message.contains(message) == true, "\(String(describing: error))")
        #expect(error?.line == 1)
    }

    @Test(
        "an unknown parameter is named, and a close one suggested",
        arguments: [
            "SHOW dql_strict_mod", "ALTER SYSTEM SET dql_strict_mod = 1", "ALTER SYSTEM RESET dql_strict_mod",
        ])
    func unknown(_ statement: String) {
        let error = failure(statement)
        #expect(error?.code == .unknownParameter)
        #expect(error?.message == "unknown parameter 'dql_strict_mod'")
        #expect(error?.suggestion == "dql_strict_mode")
    }

    @Test("sync scopes are checked, spelled as listed, and replaced as a whole")
    func syncScopes() throws {
        var parameters = SystemParameters()
        _ = try run(
            "ALTER SYSTEM SET USER_COLLECTION_SYNC_SCOPES = {'a': 'bigpeeronly', 'b': 'LocalPeerOnly'}",
            &parameters)
        #expect(parameters.syncScopes.map(\.collection) == ["a", "b"])
        #expect(parameters.syncScopes.map(\.scope) == [.bigPeerOnly, .localPeerOnly])
        let row = try run(
            "ALTER SYSTEM SET USER_COLLECTION_SYNC_SCOPES = :s", &parameters, ["s": ["c": "allpeers"]])
        #expect(row == ["user_collection_sync_scopes": ["c": "AllPeers"]])
        #expect(failure("ALTER SYSTEM SET USER_COLLECTION_SYNC_SCOPES = {'__x': 'AllPeers'}") != nil)
        #expect(failure("ALTER SYSTEM SET USER_COLLECTION_SYNC_SCOPES = {'x': 'Nobody'}") != nil)
        #expect(failure("ALTER SYSTEM SET USER_COLLECTION_SYNC_SCOPES = 'x'") != nil)
    }

    @Test("the environment sets what holds before anything is set")
    func environment() throws {
        var parameters = try SystemParameters(environment: [
            "DITTO_DQL_STRICT_MODE": "1", "DITTO_TOMBSTONE_TTL_HOURS": "12", "DITTO_APP_ID": "x", "PATH": "/",
            "DITTO_DQL_OBJECT_DEFAULT": "map", "DITTO_USER_COLLECTION_SYNC_SCOPES": "{\"c\": \"AllPeers\"}",
        ])
        #expect(parameters.strictMode)
        #expect(parameters["tombstone_ttl_hours"] == 12)
        #expect(parameters["dql_object_default"] == "MAP")
        #expect(parameters.syncScopes.count == 1)
        _ = try run("ALTER SYSTEM SET tombstone_ttl_hours = 1", &parameters)
        #expect(try run("ALTER SYSTEM RESET tombstone_ttl_hours", &parameters) == ["tombstone_ttl_hours": 12])
        let error = #expect(throws: DQLError.self) {
            try SystemParameters(environment: ["DITTO_TOMBSTONE_TTL_HOURS": "soon"])
        }
        #expect(error?.message.contains("DITTO_TOMBSTONE_TTL_HOURS") == true)
    }

    @Test("PERSIST and RESET tell the owner what to store and to forget")
    func persistence() throws {
        var parameters = SystemParameters()
        func change(_ statement: String) throws -> PersistentChange? {
            try StatementCompiler.compile(statement).execute(on: &parameters).persistentChange
        }
        #expect(try change("ALTER SYSTEM SET DQL_STRICT_MODE = true") == nil)
        let persisted = try change("ALTER SYSTEM SET DQL_STRICT_MODE = true PERSIST")
        #expect(persisted?.name == "dql_strict_mode")
        #expect(persisted?.value == true)
        let forgotten = try change("ALTER SYSTEM RESET dql_strict_mode")
        #expect(forgotten?.name == "dql_strict_mode" && forgotten?.value == nil)
        let all = try change("ALTER SYSTEM RESET ALL")
        #expect(all != nil && all?.name == nil)
        #expect(try change("SHOW ALL") == nil)
        var restored = SystemParameters()
        let unknown = restored.restore([
            "dql_strict_mode": true, "of_another_version": 1, "tombstone_ttl_hours": 0,
        ])
        #expect(restored.strictMode)
        #expect(unknown == ["of_another_version", "tombstone_ttl_hours"])
    }

    @Test("execution options follow the parameters")
    func options() throws {
        var parameters = SystemParameters()
        var options = ExecutionOptions(parameters)
        #expect(!options.strictMode && !options.strictReads && !options.objectsAreRegisters)
        try parameters.set("dql_strict_mode", to: true)
        options = ExecutionOptions(parameters)
        #expect(options.strictMode && options.strictReads && options.objectsAreRegisters)
        try parameters.set("dql_object_default", to: "MAP")
        #expect(ExecutionOptions(parameters).objectsAreRegisters)
        try parameters.set("dql_select_strict_mode", to: false)
        options = ExecutionOptions(parameters)
        #expect(options.strictMode && !options.strictReads && !options.objectsAreRegisters)
        #expect(parameters.requestTimeout == nil)
        try parameters.set("dql_request_timeout_seconds", to: 5)
        #expect(parameters.requestTimeout == .seconds(5))
        #expect(parameters.statementCacheSize == 4_096)
        #expect(parameters.documentSoftLimitBytes == 262_144)
        #expect(parameters.documentHardLimitBytes == 5_242_880)
        #expect(parameters.systemRefreshInterval == .milliseconds(500))
        #expect(parameters.restrictsSubscriptions)
    }

    @Test("a statement says that it is the system's")
    func kinds() throws {
        let alter = try StatementCompiler.compile("ALTER SYSTEM SET dql_strict_mode = :on")
        #expect(alter.isSystem && !alter.isReadOnly && alter.collections.isEmpty)
        #expect(alter.parameterNames == ["on"])
        let show = try StatementCompiler.compile("SHOW ALL")
        #expect(show.isSystem && show.isReadOnly)
        #expect(try !StatementCompiler.compile("SELECT * FROM c").isSystem)
    }

    @Test("strict writing can go with reading that is not: then dql_object_default decides")
    func objectDefault() throws {
        var parameters = SystemParameters()
        try parameters.set("dql_strict_mode", to: true)
        try parameters.set("dql_select_strict_mode", to: false)
        func kinds(_ value: Value) throws -> [Value] {
            try parameters.set("dql_object_default", to: value)
            let options = ExecutionOptions(parameters)
            let store = MemoryStore()
            func run(_ text: String) throws -> [Value] {
                try StatementCompiler.compile(text).execute(in: store, options: options) {
                    try DocumentID(.string("x"))
                }.rows
            }
            _ = try run("INSERT INTO c DOCUMENTS ({'_id': 1, 'o': {'x': 1}})")
            return try run("SELECT RAW o.x FROM c") + run("SELECT RAW o.x FROM COLLECTION c (o MAP)")
        }
        #expect(try kinds("REGISTER") == [1])
        #expect(try kinds("MAP") == [1, 1])
    }
}
