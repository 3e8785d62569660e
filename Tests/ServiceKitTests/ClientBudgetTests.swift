import CRDT
import Testing

@testable import ServiceKit

@Suite("The bound of what clients hold")
struct ClientBudgetTests {
    private let budget = ClientBudget(bytes: 1_600, of: "tests")

    private func hold(_ credential: String, _ bytes: Int) throws(ServiceError) -> ClientHold {
        let hold = ClientHold(Account(credential, in: "cars"), of: budget)
        try hold.grow(by: bytes)
        return hold
    }

    @Test("a credential holds at most half, in however many requests")
    func half() throws {
        let first = try hold("a", 500)
        #expect(throws: ServiceError.self) { try hold("a", 301) }
        let second = try hold("a", 300)
        let refused = #expect(throws: ServiceError.self) { try second.grow(by: 1) }
        #expect(refused?.code == .tooMuchHeld && refused?.httpStatus == .tooManyRequests)
        #expect(refused?.httpHeaders[.retryAfter] == "1")
        #expect(budget.used == first.bytes + second.bytes && budget.used == 800)
    }

    @Test("the same credential of another database is another account")
    func databases() throws {
        let first = try hold("a", 800)
        let other = ClientHold(Account("a", in: "planes"), of: budget)
        try other.grow(by: 100)
        #expect(budget.used == first.bytes + other.bytes)
    }

    @Test("the last quarter is for those who hold little")
    func last() throws {
        let (first, second) = (try hold("a", 600), try hold("b", 600))
        let refused = #expect(throws: ServiceError.self) { try hold("c", 101) }
        #expect(refused?.code == .budgetSpent && refused?.httpStatus == .serviceUnavailable)
        #expect(refused?.httpHeaders[.retryAfter] == "1")
        let small = try (0..<4).map { try hold("c\($0)", 100) }
        #expect(throws: ServiceError.self) { try hold("d", 1) }
        #expect(budget.used == first.bytes + second.bytes + 100 * small.count)
    }

    @Test("all is given back: in parts, and at the end")
    func back() throws {
        var held: ClientHold? = try hold("a", 800)
        held?.shrink(by: 300)
        #expect(budget.used == 500)
        held?.shrink(by: 600)
        #expect(budget.used == 0)
        try held?.grow(to: 700)
        try held?.grow(to: 100)
        #expect(budget.used == 700)
        held = nil
        #expect(budget.used == 0)
        #expect(try hold("a", 800).bytes == 800)
    }

    @Test("a refused growth holds what was held before")
    func refused() throws {
        let held = try hold("a", 800)
        #expect(throws: ServiceError.self) { try held.grow(by: 1) }
        #expect(held.bytes == 800 && budget.used == 800)
    }
}

@Suite("The memory that a process may use")
struct MachineMemoryTests {
    private func limits(_ groups: String, _ files: [String: String]) -> [Int] {
        MachineMemory.limits(of: groups) { files[$0] }
    }

    @Test("a container's limit counts, its own and those of the groups around it")
    func version2() {
        let files = [
            "/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "1048576\n",
            "/sys/fs/cgroup/memory.max": "2097152\n",
        ]
        #expect(limits("0::/a/b\n", files) == [1_048_576, 2_097_152])
        #expect(limits("0::/\n", files) == [2_097_152])
    }

    @Test("so does that of version 1, in the group of memory")
    func version1() {
        let files = ["/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "4096\n"]
        #expect(limits("4:memory:/docker/x\n3:cpu:/docker/x\n", files) == [4_096])
        #expect(limits("3:cpu:/docker/x\n", files).isEmpty)
        #expect(limits("nonsense\n\n", files).isEmpty)
    }

    @Test("clients get an eighth, within bounds")
    func share() {
        #expect(MachineMemory.clientBytes(of: 1 << 30) == 128 << 20)
        #expect(MachineMemory.clientBytes(of: 64 << 30) == 256 << 20)
        #expect(MachineMemory.clientBytes(of: 128 << 20) == 96 << 20)
    }
}
