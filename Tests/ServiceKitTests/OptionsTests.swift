import ArgumentParser
import Foundation
import Logging
import ServiceKit
import Testing

@Suite("Options")
struct OptionsTests {
    private func configuration(_ arguments: [String]) throws -> ServiceConfiguration {
        let options = try ServiceOptions.parse(
            arguments.filter { !$0.hasPrefix("--projection") && !$0.hasPrefix("--issuer") })
        return try ServiceConfiguration(
            options, projection: ProjectionOptions.parse(arguments.filter { $0.hasPrefix("--projection") }),
            issuer: IssuerOptions.parse(arguments.filter { $0.hasPrefix("--issuer") }), port: 4001)
    }

    private func code(_ arguments: String...) -> ServiceErrorCode? {
        do {
            _ = try configuration(arguments)
            return nil
        } catch {
            return (error as? ServiceError)?.code
        }
    }

    private func withFile<Result>(_ text: String, _ body: (String) throws -> Result) throws -> Result {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(
            "options-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(text.utf8).write(to: file)
        return try body(file.path)
    }

    @Test("a certificate and its key go together, and are read at the start")
    func certificate() throws {
        #expect(code("--tls-certificate", "a.pem") == .certificateUnusable)
        #expect(code("--tls-key", "a.key") == .certificateUnusable)
        #expect(try configuration([]).tls == nil)
        let found = try configuration(["--tls-certificate", "/nowhere/a.pem", "--tls-key", "/nowhere/a.key"])
        let error = #expect(throws: ServiceError.self) {
            try found.tlsFiles(logger: Logger(label: "test"))
        }
        #expect(error?.code == .certificateUnusable)
        #expect(error?.exitCode == 2)
    }

    @Test("origins of web pages are named singly, by flag or file, and a word that is none is refused")
    func origins() throws {
        #expect(try configuration([]).cors == .none)
        let two = ["--cors-origin", "https://a.example", "--cors-origin", "http://localhost:3000"]
        #expect(try configuration(two).cors.origins == ["https://a.example", "http://localhost:3000"])
        let inFile = try withFile(#"{"corsOrigin": "https://a.example, *"}"#) { file in
            try configuration(["--config", file]).cors.origins
        }
        #expect(inFile == ["https://a.example", "*"])
        let words = ["a.example", "https://a.example/", "ftp://a.example", "https://", "https://*.x", "null"]
        for word in words {
            #expect(code("--cors-origin", word) == .corsOriginInvalid)
        }
    }

    @Test("without flags everything has a default")
    func defaults() throws {
        let configuration = try configuration([])
        #expect(configuration.dataFolder == "./mimeo-data")
        #expect(configuration.listen == ListenAddress(host: "127.0.0.1", port: 4001))
        guard case .sqlite(let path) = configuration.log else {
            Issue.record("the log is not in SQLite")
            return
        }
        #expect(path.hasSuffix("mimeo-data/log.sqlite"))
        #expect(configuration.projection == nil)
        #expect(configuration.drain == .zero && configuration.showToken == nil)
        #expect(try self.configuration(["--drain-seconds=7", "--stop-seconds=8"]).drain == .seconds(7))
        #expect(code("--stop-seconds=0") == .configurationInvalid)
    }

    @Test("a flag wins over the file, the file over the default")
    func precedence() throws {
        let text =
            #"{"data":"/d","listen":"0.0.0.0:1","issuer":"https://auth.example","projection":"sqlite:p"}"#
        try withFile(text) { path in
            let configuration = try configuration(["--config=\(path)", "--listen=[::1]:2"])
            #expect(configuration.dataFolder == "/d")
            #expect(configuration.listen == ListenAddress(host: "::1", port: 2))
            #expect(configuration.log == .sqlite(path: "/d/log.sqlite"))
            #expect(configuration.projection == .sqlite(path: "p"))
            #expect(configuration.issuer?.description == "https://auth.example")
        }
    }

    @Test(
        "a listen address is HOST:PORT",
        arguments: ["4000", "host", ":80", "a:b", "a:65536", "::1:80", "a/b:1", "*.*:1", " :1", "a b:1"])
    func listen(text: String) {
        #expect(code("--listen=\(text)") == .listenInvalid)
    }

    @Test("the host * is every interface, and its URL one that a client on the machine can use")
    func everyInterface() throws {
        let address = try ListenAddress("*:4000")
        #expect(address.host == "0.0.0.0" && address.origin == "http://127.0.0.1:4000")
        #expect(try ListenAddress("[::]:4000").origin == "http://[::1]:4000")
        #expect(try ListenAddress("[fe80::1%eth0]:4000").host == "fe80::1%eth0")
        #expect(try ListenAddress("bücher.example:1").host == "bücher.example")
    }

    @Test("a storage URL is sqlite:PATH or postgres://…, for a log and for a projection")
    func storage() throws {
        #expect(try configuration(["--log=sqlite:///var/x"]).log == .sqlite(path: "/var/x"))
        #expect(try configuration(["--log=sqlite:x/y"]).log == .sqlite(path: "x/y"))
        #expect(code("--log=mysql://x") == .storageURLInvalid)
        #expect(code("--log=sqlite:") == .storageURLInvalid)
        let url = "postgres://localhost/mimeo"
        #expect(try configuration(["--log=\(url)"]).log == .postgres(url: url))
        let elsewhere = "postgresql://localhost/mimeo"
        #expect(code("--projection=\(elsewhere)") == nil)
    }

    @Test("an issuer is an origin, and needed by nobody: keys are in the log too")
    func issuer() throws {
        for text in ["localhost:4001", "ftp://x", "http://", "http://x/path", "http://u@x"] {
            #expect(code("--issuer=\(text)") == .issuerInvalid, "\(text)")
        }
        #expect(ServiceError(.issuerInvalid, "").exitCode == 2)
        #expect(try configuration([]).issuer == nil)
    }

    @Test("a configuration file that is none, or has an unknown name, is refused")
    func configurationInvalid() throws {
        #expect(code("--config=/nonexistent/file") == .configurationInvalid)
        for text in ["", "[]", #"{"data":7}"#, #"{"dat":"x"}"#] {
            try withFile(text) { path in #expect(code("--config=\(path)") == .configurationInvalid, "\(text)")
            }
        }
    }

    @Test("folders are made, or the reason is told")
    func folders() throws {
        let base = FileManager.default.temporaryDirectory.appendingPathComponent("data-\(UUID().uuidString)")
            .path
        defer { try? FileManager.default.removeItem(atPath: base) }
        let made = try configuration(["--data=\(base)"]).folder("a", "b")
        #expect(FileManager.default.fileExists(atPath: made))
        #expect(FileManager.default.createFile(atPath: "\(base)/file", contents: nil))
        let error = #expect(throws: ServiceError.self) {
            try configuration(["--data=\(base)/file"]).folder("a")
        }
        #expect(error?.code == .dataFolderUnusable)
    }

    @Test("a name that the file cannot have is told with the nearest one, and no name counts twice")
    func nearestName() throws {
        func message(_ text: String) throws -> String {
            try withFile(text) { path in
                let error = #expect(throws: ServiceError.self) { try configuration(["--config=\(path)"]) }
                #expect(error?.code == .configurationInvalid)
                return error?.message ?? ""
            }
        }
        #expect(try message(#"{"tlsCertficate":"x"}"#).contains("did you mean 'tlsCertificate'?"))
        #expect(try message(#"{"data":"x","data":"y"}"#).contains("appears twice"))
        #expect(try message(#"{"Data":"x"}"#).contains("did you mean 'data'?"))
        // The sign of Kelvin, which Unicode holds for a K.
        #expect(try message("{\"tlsKey\":\"x\",\"tls\u{212A}ey\":\"y\"}").contains("ey'"))
        #expect(try message(#"{"behindProxy":"true"}"#).contains("must be true or false"))
        #expect(try message(#"{"keptOperations":1.5}"#).contains("must be a whole number"))
        #expect(try message(#"{"keptOperations":-1}"#).contains("must be a whole number"))
    }

    @Test("every setting is read from the environment, and a flag overrides it")
    func environmentSettings() throws {
        let variables = [
            "MIMEO_DATA": "/d", "MIMEO_LISTEN": "0.0.0.0:7", "MIMEO_LOG": "sqlite:/l",
            "MIMEO_PROJECTION": "sqlite:/p",
            "MIMEO_ISSUER": "https://a.example", "MIMEO_PROVIDERS": "/providers", "MIMEO_SECRETS_KEY": "/key",
            "MIMEO_ADMIN_TOKEN": "/admin", "MIMEO_TLS_CERTIFICATE": "/c.pem", "MIMEO_TLS_KEY": "/k.pem",
            "MIMEO_CORS_ORIGIN": "https://a.example,https://b.example", "MIMEO_BEHIND_PROXY": "1",
            "MIMEO_SHOW_TOKEN": "TRUE",
        ]
        let found = try ServiceConfiguration(
            ServiceOptions.parse(["--data", "/e"]), port: 1, environment: variables)
        #expect(found.dataFolder == "/e" && found.listen == ListenAddress(host: "0.0.0.0", port: 7))
        #expect(found.log == .sqlite(path: "/l") && found.projection == .sqlite(path: "/p"))
        #expect(found.issuer?.description == "https://a.example" && found.providers == "/providers")
        #expect(found.secretsKey == "/key" && found.adminToken == "/admin")
        #expect(found.tls?.certificate == "/c.pem" && found.tls?.key == "/k.pem")
        #expect(found.cors.origins == ["https://a.example", "https://b.example"])
        #expect(found.behindProxy && found.showToken == true)
        #expect(found.drain == .seconds(3) && found.stop == .seconds(10))
    }

    @Test("the file of --config may be named by the environment, and lists may be arrays")
    func fileOfTheEnvironment() throws {
        let text = #"{"data": "/d", "corsOrigin": ["https://a.example", "https://b.example"]}"#
        try withFile(text) { path in
            let found = try ServiceConfiguration(
                ServiceOptions.parse([]), port: 1, environment: ["MIMEO_CONFIG": path])
            #expect(found.dataFolder == "/d")
            #expect(found.cors.origins == ["https://a.example", "https://b.example"])
        }
        for wrong in [#"{"config": "x"}"#, #"{"corsOrigin": [1]}"#, #"{"data": ["a"]}"#] {
            try withFile(wrong) { path in #expect(code("--config=\(path)") == .configurationInvalid) }
        }
    }

    @Test("a variable that looks like ours and is none, is empty or wrong is an error; others are left alone")
    func environment() throws {
        func message(_ key: String) -> String? {
            do throws(ServiceError) {
                try EnvironmentKeys.check([key: "x", "PATH": "/bin"])
                return nil
            } catch {
                #expect(error.code == .environmentInvalid && error.exitCode == 2)
                return error.message
            }
        }
        #expect(message("MIMEO_TOKNE")?.contains("did you mean MIMEO_TOKEN?") == true)
        #expect(message("MIMEO_LISTN")?.contains("did you mean MIMEO_LISTEN?") == true)
        #expect(message("MIMEO_TOMBSTONE_TTL_HOUR")?.contains("MIMEO_TOMBSTONE_TTL_HOURS") == true)
        #expect(message("MIMEO_TLS_KYE")?.contains("did you mean MIMEO_TLS_KEY?") == true)
        #expect(message("MIMEO_LOG_LEVEL")?.contains("did you mean LOG_LEVEL?") == true)
        // Kubernetes sets these beside a service of the name; the others are the tests' and compose's own.
        let foreign = [
            "MIMEO_PORT", "MIMEO_SERVICE_HOST", "MIMEO_PORT_4000_TCP", "MIMEO_TOKEN", "MIMEO_API_KEY",
            "MIMEO_HISTORY", "MIMEO_DEPTH", "MIMEO_SEED", "MIMEO_BIN", "MIMEO_TEST_POSTGRES", "MIMEO_KEEP",
            "MIMEO_CACHE", "MIMEO_SECRETS", "MIMEO_LISTEN", "MIMEO_IMAGE", "MIMEO_DATA", "MIMEO_TLS_KEY",
        ]
        #expect(foreign.compactMap(message) == [])
        for (variable, value) in [("MIMEO_DATA", ""), ("MIMEO_BEHIND_PROXY", "perhaps")] {
            let error = #expect(throws: ServiceError.self) {
                try ServiceConfiguration(
                    ServiceOptions.parse([]), port: 1, environment: [variable: value])
            }
            #expect(error?.code == .environmentInvalid && error?.message.contains(variable) == true)
        }
    }

    @Test("a level of the log is known in any case, and a word that is none is told")
    func logLevel() {
        #expect(ServiceMain.logLevel("WARN") == .warning)
        #expect(ServiceMain.logLevel("Debug") == .debug)
        #expect(ServiceMain.logLevel("verbose") == nil)
    }
}
