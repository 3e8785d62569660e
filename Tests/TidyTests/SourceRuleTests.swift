import Testing

@Suite("Source rules")
struct SourceRuleTests {
    // MARK: the sources

    @Test("time, randomness, identity and I/O are injected in the pure modules")
    func bannedCalls() {
        #expect(SourceTree.moduleFiles.flatMap(Rules.bannedCalls).map(\.description) == [])
    }

    @Test("every promise the compiler cannot check says why it is safe")
    func promises() {
        #expect(SourceTree.swiftFiles.flatMap(Rules.unexplainedPromises).map(\.description) == [])
    }

    @Test("each place that ends the process is in the table, with why no client reaches it")
    func traps() {
        #expect(SourceTree.moduleFiles.flatMap(Rules.traps).map(\.description) == [])
        let paths = Set(SourceTree.moduleFiles.map(\.path))
        #expect(TrapTable.rows.keys.filter { !paths.contains($0) } == [])
        #expect(TrapLines.rows.keys.filter { !paths.contains($0) } == [])
    }

    @Test("each trap that is listed by its text is there, in the order of its file")
    func trapLines() {
        for file in SourceTree.moduleFiles {
            var rest = file.text[...]
            for (text, _) in TrapLines.rows[file.path] ?? [] {
                let found = rest.firstRange(of: text)
                #expect(found != nil, "\(file.path): \(text)")
                rest = found.map { rest[$0.upperBound...] } ?? rest
            }
        }
    }

    @Test("a trap of a session, a store or a link is listed by its text")
    func trapsByLine() {
        let modules = ["DittoSwift", "Postgres", "Replica", "Sync", "Transport"].map { "Shared/\($0)/" }
        let others = TrapTable.rows.keys.filter { path in modules.contains { path.hasPrefix($0) } }
        #expect(others == [])
    }

    @Test(
        "a trap is found, and a comment, a text, a comparison and a negation are none",
        arguments: [
            ("precondition(a, b)", 1), ("guard let a else { preconditionFailure(\"\") }", 1),
            ("fatalError(\"\")", 1), ("let a = try! b()", 1), ("let a = b as! C", 1), ("let a = b!", 1),
            ("let a = b[0]!.c + d()!", 2), ("if a != b, !c, c! = d {", 1), ("let a: B! = nil", 1),
            ("// precondition(a)", 0), ("let a = \"b!\"", 0), ("dispatchPrecondition(condition: a)", 0),
        ])
    func findsTrap(line: String, count: Int) {
        #expect(Rules.traps(SourceFile(path: "Shared/CRDT/None.swift", text: line)).count == count, "\(line)")
    }

    @Test("what strangers guess at is compared in constant time")
    func comparedSecrets() {
        #expect(SourceTree.swiftFiles.flatMap(Rules.comparedSecrets).map(\.description) == [])
    }

    @Test(
        "a secret that is compared is found, and one that is asked for is not",
        arguments: [
            ("guard login.token == sharedToken else {", 1), ("if record.secretHash != key.secretHash {", 1),
            ("parts[1] == credential,", 1), ("guard record.sharedToken == nil else {", 0),
            ("let credential = text", 0), ("ConstantTime.equal(a, credential)", 0),
        ])
    func findsComparedSecret(line: String, count: Int) {
        for module in ["Services/AuthGateway", "Shared/ServiceKit"] {
            let found = Rules.comparedSecrets(SourceFile(path: "\(module)/A.swift", text: line))
            #expect(found.count == count, "\(line)")
        }
        #expect(Rules.comparedSecrets(SourceFile(path: "Shared/CRDT/A.swift", text: line)).isEmpty)
    }

    @Test("no module but Sync looks into a frame")
    func frames() {
        #expect(SourceTree.moduleFiles.flatMap(Rules.frames).map(\.description) == [])
        for (text, count) in [
            ("import Sync\nlet a = Frame.close(b)", 1), ("import Sync\nlet a: WebSocketFrame.Kind", 0),
            ("let a = Frame.magic", 0),
        ] {
            #expect(Rules.frames(SourceFile(path: "Shared/Transport/A.swift", text: text)).count == count)
        }
        let own = SourceFile(path: "Shared/Sync/A.swift", text: "import Sync\nlet a = Frame.close(b)")
        #expect(Rules.frames(own).isEmpty)
    }

    @Test("options of TCP are set on its own level")
    func socketOptions() {
        #expect(SourceTree.moduleFiles.flatMap(Rules.socketOptions).map(\.description) == [])
        for (text, count) in [
            (".channelOption(.socketOption(.tcp_nodelay), value: 1)", 1),
            (".channelOption(.tcpOption(.tcp_nodelay), value: 1)", 0),
            (".serverChannelOption(.socketOption(.so_reuseaddr), value: 1)", 0),
        ] {
            #expect(
                Rules.socketOptions(SourceFile(path: "Shared/Transport/A.swift", text: text)).count == count)
        }
    }

    @Test("one file suspends tasks by hand; all others wait at the types of Machine")
    func continuations() {
        #expect(SourceTree.moduleFiles.flatMap(Rules.continuations).map(\.description) == [])
        let paths = Set(SourceTree.moduleFiles.map(\.path))
        #expect(Rules.continuations.keys.filter { !paths.contains($0) } == [])
    }

    @Test("nothing of a peer sleeps in a way that outlasts its end")
    func sleeps() {
        #expect(SourceTree.moduleFiles.flatMap(Rules.sleeps).map(\.description) == [])
        for (path, text, count) in [
            ("Shared/DittoSwift/A.swift", "try? await Task.sleep(for: pause)", 1),
            ("Shared/DittoSwift/A.swift", "try? await Alarm.sleep(for: pause)", 0),
            ("Shared/Machine/A.swift", "/// Not `Task.sleep(for: pause)`.", 0),
            ("Services/Mimeo/A.swift", "try await Task.sleep(for: pause)", 0),
        ] {
            #expect(Rules.sleeps(SourceFile(path: path, text: text)).count == count)
        }
    }

    @Test("no test of the fast tier fails because a measured time is long")
    func measuredBounds() {
        #expect(SourceTree.files.flatMap(Rules.measuredBounds).map(\.description) == [])
    }

    @Test("no file holds leftover marks")
    func marks() {
        #expect(SourceTree.files.flatMap(Rules.leftoverMarks).map(\.description) == [])
    }

    @Test("no file names a folder of the machine it was written on")
    func machinePaths() {
        #expect(SourceTree.files.flatMap(Rules.machinePaths).map(\.description) == [])
    }

    // MARK: the rules can fail

    @Test(
        "a banned call is found",
        arguments: [
            "let now = Date()", "try await Task.sleep(for: .seconds(1))", "let id = UUID().uuidString",
            "print(1)",
            "Task { await run() }", "Task<Void, Never> { }", "Task.detached { }", "let text = \"\\(Date())\"",
            "x = Date.now",
        ])
    func findsBannedCall(line: String) {
        #expect(
            Rules.bannedCalls(SourceFile(path: "Shared/Replica/A.swift", text: "\n\(line)\n")).map(\.line)
                == [2])
    }

    @Test(
        "what only looks like a banned call is not",
        arguments: [
            "// Date()", "let a = \"print(\"", "func print(_ value: Value)", "JSONText.print(value)",
            "MyDate()",
            "debug_print(1)", "UploadTask {", "Task(executorPreference: executor) { }", "withTaskGroup { }",
        ])
    func toleratesLookalike(line: String) {
        #expect(
            Rules.bannedCalls(SourceFile(path: "Shared/Replica/A.swift", text: line)).map(\.description) == []
        )
    }

    @Test(
        "a continuation is found, and a stream's or a word of a comment is none",
        arguments: [
            ("var waiter: CheckedContinuation<Void, Never>?", 1),
            ("private var waiting: [UnsafeContinuation<Bool, any Error>] = []", 1),
            ("await withCheckedContinuation { $0.resume() }", 1),
            ("try await withCheckedThrowingContinuation { continuation in", 1),
            ("try await withUnsafeThrowingContinuation { continuation in", 1),
            ("private let output: AsyncStream<Posted>.Continuation", 0),
            ("// not a CheckedContinuation", 0),
        ])
    func findsContinuation(line: String, count: Int) {
        #expect(Rules.continuations(SourceFile(path: "Shared/Sync/A.swift", text: line)).count == count)
        let own = SourceFile(path: "Shared/Machine/PendingAnswer.swift", text: line)
        #expect(Rules.continuations(own).isEmpty)
    }

    @Test(
        "a bound of a measured time is found, and a bound of waiting or a virtual clock is none",
        arguments: [
            ("A.swift", "#expect(ContinuousClock.now - began < .seconds(5))", 1),
            ("A.swift", "#expect(clock.now - start <= limit)", 1),
            ("A.swift", "#expect(ContinuousClock.now - start >= .milliseconds(750))", 0),
            ("A.swift", "while ContinuousClock.now < deadline {", 0),
            ("A.swift", "#expect(side.now - lostAt < .seconds(1))", 0),
            ("A.swift", "#expect(Depth.isInTime(ContinuousClock.now - before, .seconds(9)))", 0),
            ("a.py", "        self.assertLess(time.monotonic() - began, 10)", 1),
            ("a.py", "        self.assertLess(median, BOUND)", 1),
            ("a.py", "        self.assertLess(time.monotonic(), end, problem)", 0),
            ("a.py", "        self.assertLess(last, 10 * first)", 0),
        ])
    func findsMeasuredBound(name: String, line: String, count: Int) {
        #expect(Rules.measuredBounds(SourceFile(path: "Tests/X/\(name)", text: line)).count == count)
        #expect(Rules.measuredBounds(SourceFile(path: "Shared/X/\(name)", text: line)).isEmpty)
    }

    @Test("a service may look at the clock")
    func clockInServices() {
        #expect(
            Rules.bannedCalls(SourceFile(path: "Services/Mimeo/A.swift", text: "Date()")).map(\.description)
                == [])
    }

    @Test(
        "a promise without a comment is found",
        arguments: ["class A: @unchecked Sendable {}", "nonisolated(unsafe) var a = 1", "let a = try! b()"])
    func findsPromise(line: String) {
        let path = "Shared/Replica/A.swift"
        #expect(
            Rules.unexplainedPromises(SourceFile(path: path, text: "import B\n\n\(line)\n")).map(\.line) == [
                3
            ])
        #expect(
            Rules.unexplainedPromises(SourceFile(path: path, text: "// Guarded.\n\(line)\n")).map(\.line)
                == [])
        #expect(
            Rules.unexplainedPromises(SourceFile(path: path, text: "\(line)  // why\n")).map(\.line) == [])
    }

    @Test("a leftover mark is found in any file, as a whole word only")
    func findsMark() {
        let mark = "TO" + "DO"
        #expect(
            Rules.leftoverMarks(SourceFile(path: "README.md", text: "a\n- \(mark): b\n")).map(\.line) == [2])
        #expect(
            Rules.leftoverMarks(SourceFile(path: "README.md", text: "\(mark)S and A\(mark)\n")).map(\.line)
                == [])
    }

    @Test("a path of one machine is found, an address that contains the word is not")
    func findsMachinePath() {
        let folder = "/wo" + "rk/"
        let bad = SourceFile(path: "scripts/a", text: "cd \(folder)main\n")
        let good = SourceFile(path: "scripts/a", text: "https://example.org\(folder)main ./net\(folder)a\n")
        #expect(Rules.machinePaths(bad).map(\.line) == [1])
        #expect(Rules.machinePaths(good).map(\.line) == [])
    }
}
