import TestSupport
import Testing

@testable import Attachments

/// A machine by reference, as expectations need it.
private final class Driven {
    private var machine: Download
    init(_ machine: Download) { self.machine = machine }

    var received: Int64 { machine.received }
    var chunks: ChunkList? { machine.chunks }
    func next(now: Duration) -> Download.Step { machine.next(now: now) }
    func takeProblem() -> Download.Problem? { machine.takeProblem() }
    func setSources(_ names: [String]) { machine.setSources(names) }
    func retry() { machine.retry() }
    func stop() { machine.stop() }
    func tellUnmentioned() { machine.tellUnmentioned() }
    func tellChunks(_ list: ChunkList?, source: String, now: Duration) {
        machine.tellChunks(list, source: source, now: now)
    }
    func tellBytes(_ count: Int, source: String, now: Duration) {
        machine.tellBytes(count, source: source, now: now)
    }
    func tellWrongChunk(source: String, keeping offset: Int64, now: Duration) {
        machine.tellWrongChunk(source: source, keeping: offset, now: now)
    }
    func fail(_ source: String, _ failure: Download.Failure, now: Duration) {
        machine.fail(source, failure, now: now)
    }
    func tellFinished(isRight: Bool, source: String?, now: Duration) {
        machine.tellFinished(isRight: isRight, source: source, now: now)
    }
    func tellStorageFailed(keeping offset: Int64, now: Duration) {
        machine.tellStorageFailed(keeping: offset, now: now)
    }
}

/// The same for an upload.
private final class Course {
    private var course: UploadCourse
    init(_ course: UploadCourse) { self.course = course }

    var step: UploadCourse.Step { course.step }
    var place: String? { course.place }
    func take(_ answer: UploadCourse.Answer) -> Bool { course.take(answer) }
}

@Suite("Download, as a state machine")
struct DownloadTests {
    private let length: Int64 = 3 * ChunkList.chunkBytes + 5

    private func machine(received: Int64 = 0, length: Int64? = nil, chunks: ChunkList? = nil) -> Driven {
        Driven(
            Download(
                length: length ?? self.length, received: received, chunks: chunks, now: .zero,
                patience: .seconds(30)))
    }

    private func list(_ length: Int64, byte: UInt8 = 1) throws -> ChunkList {
        try ChunkList(
            length: length,
            digests: [[UInt8]](
                repeating: [UInt8](repeating: byte, count: 32), count: ChunkList.count(length)))
    }

    @Test("it asks for the hashes first, then for the bytes from where it stopped, then compares the whole")
    func straight() throws {
        let download = machine(received: 10)
        download.setSources(["server"])
        #expect(download.next(now: .zero) == .askChunks(source: "server"))
        download.tellChunks(try list(length), source: "server", now: .zero)
        #expect(download.next(now: .zero) == .receive(source: "server", from: 10))
        download.tellBytes(Int(length) - 10, source: "server", now: .seconds(1))
        #expect(download.next(now: .seconds(1)) == .finish)
        download.tellFinished(isRight: true, source: "server", now: .seconds(1))
        #expect(download.next(now: .seconds(1)) == .over(.completed))
        // Whatever is told after the end changes nothing.
        download.fail("server", .collected, now: .seconds(2))
        download.tellUnmentioned()
        download.stop()
        #expect(download.next(now: .seconds(2)) == .over(.completed) && download.takeProblem() == nil)
    }

    @Test("a small blob, and a source without a list, need no hashes of chunks")
    func listless() {
        let small = machine(length: 100)
        small.setSources(["server"])
        #expect(small.next(now: .zero) == .receive(source: "server", from: 0))
        let download = machine()
        download.setSources(["old"])
        #expect(download.next(now: .zero) == .askChunks(source: "old"))
        download.tellChunks(nil, source: "old", now: .zero)
        #expect(download.next(now: .zero) == .receive(source: "old", from: 0))
        let empty = machine(length: 0)
        #expect(empty.next(now: .zero) == .finish)
    }

    @Test("a source that fails rests longer each time, and another one goes on at the same byte")
    func failover() throws {
        let download = machine(chunks: try list(length))
        download.setSources(["a", "b"])
        #expect(download.next(now: .zero) == .receive(source: "a", from: 0))
        download.tellBytes(1_000, source: "a", now: .zero)
        download.fail("a", .unreachable, now: .zero)
        #expect(download.next(now: .zero) == .receive(source: "b", from: 1_000))
        download.fail("b", .missing, now: .zero)
        #expect(download.next(now: .zero) == .wait(.milliseconds(500)))
        #expect(download.next(now: .milliseconds(500)) == .receive(source: "a", from: 1_000))
        download.fail("a", .unreachable, now: .milliseconds(500))
        download.fail("b", .unreachable, now: .milliseconds(500))
        #expect(download.next(now: .milliseconds(500)) == .wait(.seconds(1)))
        download.retry()
        #expect(download.next(now: .milliseconds(500)) == .receive(source: "a", from: 1_000))
        download.setSources(["b"])
        #expect(download.next(now: .milliseconds(500)) == .receive(source: "b", from: 1_000))
    }

    @Test("silence is a problem that is told, again and again, and not an end")
    func silence() {
        let download = machine()
        #expect(download.next(now: .zero) == .wait(.seconds(30)))
        #expect(download.takeProblem() == nil)
        #expect(download.next(now: .seconds(30)) == .wait(.seconds(30)))
        #expect(download.takeProblem() == .noSource(.seconds(30)))
        #expect(download.takeProblem() == nil)
        #expect(download.next(now: .seconds(61)) == .wait(.seconds(30)))
        #expect(download.takeProblem() == .noSource(.seconds(31)))
    }

    @Test("a wrong chunk is asked for again; a source that sends more of them comes last")
    func wrongChunks() throws {
        let download = machine(chunks: try list(length))
        download.setSources(["a", "b"])
        download.tellBytes(Int(ChunkList.chunkBytes), source: "a", now: .zero)
        download.tellWrongChunk(source: "a", keeping: 0, now: .zero)
        #expect(download.takeProblem() == .wrongBytes(source: "a"))
        #expect(download.next(now: .zero) == .receive(source: "b", from: 0))
        for _ in 1..<Limits.failedChunks {
            download.tellWrongChunk(source: "b", keeping: 0, now: .zero)
        }
        // So many cannot be the bytes' fault alone: the whole decides.
        #expect(download.chunks == nil)
        #expect(download.next(now: .seconds(100)) == .receive(source: "a", from: 0))
        download.tellBytes(Int(length), source: "a", now: .seconds(100))
        #expect(download.next(now: .seconds(100)) == .finish)
        download.tellFinished(isRight: false, source: "a", now: .seconds(100))
        #expect(download.received == 0)
        #expect(download.next(now: .seconds(200)) == .receive(source: "a", from: 0))
    }

    @Test("a list for another length is no list, and its source is at fault")
    func wrongList() throws {
        let download = machine()
        download.setSources(["a", "b"])
        download.tellChunks(try list(5), source: "a", now: .zero)
        #expect(download.chunks == nil && download.takeProblem() == .wrongBytes(source: "a"))
        #expect(download.next(now: .zero) == .askChunks(source: "b"))
    }

    @Test("it is deleted when the only source has collected it, or nothing mentions it any more")
    func deleted() {
        let one = machine()
        one.setSources(["server"])
        one.fail("server", .collected, now: .zero)
        #expect(one.next(now: .zero) == .over(.deleted))
        let two = machine()
        two.setSources(["server", "peer"])
        two.fail("server", .collected, now: .zero)
        #expect(two.next(now: .zero) == .askChunks(source: "peer"))
        two.tellUnmentioned()
        #expect(two.next(now: .zero) == .over(.deleted))
    }

    @Test("it is deleted when one source has collected it and no other has it, in whatever order they say so")
    func deletedAmongMany() {
        for order in [["server", "peer"], ["peer", "server"]] {
            let download = machine()
            download.setSources(["peer", "server"])
            for name in order {
                #expect(download.next(now: .zero) != .over(.deleted))
                download.fail(name, name == "server" ? .collected : .missing, now: .zero)
            }
            #expect(download.next(now: .zero) == .over(.deleted))
        }
        let unsure = machine()
        unsure.setSources(["peer", "server", "other"])
        unsure.fail("server", .collected, now: .zero)
        unsure.fail("peer", .missing, now: .zero)
        unsure.fail("other", .unreachable, now: .zero)
        #expect(unsure.next(now: .zero) == .wait(.milliseconds(500)))
        // Somebody has come, or has stored it again: what was said before does not count.
        unsure.retry()
        unsure.fail("other", .missing, now: .zero)
        #expect(unsure.next(now: .zero) == .askChunks(source: "peer"))
    }

    @Test("a full disk is told, and costs no byte that is here")
    func storage() throws {
        let download = machine(received: 7, chunks: try list(length))
        download.setSources(["a"])
        download.tellStorageFailed(keeping: 7, now: .zero)
        #expect(download.takeProblem() == .storage)
        #expect(download.next(now: .zero) == .wait(.milliseconds(500)))
        #expect(download.next(now: .seconds(1)) == .receive(source: "a", from: 7))
    }

    @Test("whatever happens in whatever order, at most one end comes, and it stays")
    func oneEnd() throws {
        var dice = SplitMix64(seed: Depth.seeds(fast: 1, deep: 1).lowerBound)
        for _ in Depth.cases(fast: 300, deep: 30_000) {
            let download = machine(length: 100)
            var now = Duration.zero
            var end: Download.Outcome?
            for _ in 0..<60 {
                now += .milliseconds(dice.below(2_000))
                let source = dice.pick(["a", "b"])
                switch dice.below(9) {
                case 0: download.setSources(dice.pick([[], ["a"], ["a", "b"], ["b"]]))
                case 1: download.fail(source, dice.pick([.unreachable, .missing, .wrong]), now: now)
                case 2: if dice.chance(10) { download.fail(source, .collected, now: now) }
                case 3: download.tellWrongChunk(source: source, keeping: 0, now: now)
                case 4: download.tellStorageFailed(keeping: download.received, now: now)
                case 5: if dice.chance(3) { download.stop() }
                case 6: download.tellFinished(isRight: dice.chance(50), source: source, now: now)
                default:
                    if case .receive(let name, let from) = download.next(now: now) {
                        #expect(from == download.received)
                        download.tellBytes(dice.below(Int(101 - from)), source: name, now: now)
                    }
                }
                #expect(0...100 ~= download.received)
                if case .over(let outcome) = download.next(now: now) {
                    #expect(end == nil || end == outcome)
                    end = outcome
                } else {
                    #expect(end == nil)
                }
            }
        }
    }
}

@Suite("Upload, as a state machine")
struct UploadCourseTests {
    @Test("it begins, sends, and asks after each failure how far it came")
    func straight() {
        let course = Course(UploadCourse(length: 10))
        #expect(course.step == .create && course.place == nil)
        #expect(course.take(.created(place: "p")))
        #expect(course.step == .send(to: "p", from: 0) && course.place == "p")
        #expect(!course.take(.failed))
        #expect(course.step == .look(at: "p"))
        #expect(course.take(.offset(4)))
        #expect(course.step == .send(to: "p", from: 4))
        #expect(course.take(.stored) && course.step == .done)
        #expect(course.take(.failed) && course.step == .done)
    }

    @Test("after a restart it asks; an upload that is gone, or says nonsense, begins again")
    func resumed() {
        let course = Course(UploadCourse(length: 10, place: "p"))
        #expect(course.step == .look(at: "p"))
        #expect(!course.take(.failed) && course.step == .look(at: "p"))
        #expect(course.take(.unknown) && course.step == .create)
        let wild = Course(UploadCourse(length: 10, place: "p"))
        #expect(!wild.take(.offset(11)) && wild.step == .create)
    }

    @Test("an old server gets the whole at once, and a refusal is final")
    func others() {
        let old = Course(UploadCourse(length: 10))
        #expect(old.take(.unsupported) && old.step == .sendWhole)
        #expect(!old.take(.failed) && old.step == .sendWhole)
        #expect(old.take(.stored) && old.step == .done)
        let refused = Course(UploadCourse(length: 10))
        #expect(refused.take(.refused) && refused.step == .refused)
        #expect(refused.take(.stored) && refused.step == .refused)
    }
}
