import Foundation

/// The system's word on its clock.
enum ClockStatus {
    private typealias AdjustTime = @convention(c) (UnsafeMutableRawPointer) -> Int32

    /// More than a `struct timex` has; the header is in no module.
    private static let timexBytes = 512
    /// `TIME_ERROR`: nothing keeps the clock in step.
    private static let unsynchronized: Int32 = 5

    /// Returns whether the system keeps its clock in step with others (NTP, PTP): then documents of links
    /// whose stamps are ahead of it wait until their time has come.
    static func isSynchronized() -> Bool {
        guard let program = dlopen(nil, RTLD_NOW) else { return false }
        defer { dlclose(program) }
        guard let symbol = dlsym(program, "adjtimex") else { return false }
        let adjustTime = unsafeBitCast(symbol, to: AdjustTime.self)
        let request = UnsafeMutableRawPointer.allocate(byteCount: timexBytes, alignment: 16)
        defer { request.deallocate() }
        // Without modes nothing is adjusted.
        request.initializeMemory(as: UInt8.self, repeating: 0, count: timexBytes)
        let state = adjustTime(request)
        return state >= 0 && state != unsynchronized
    }
}
