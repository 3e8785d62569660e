import CRDT

/// The surroundings that functions can see. All of it comes from outside, so that the same call in the same
/// context gives the same value.
public struct FunctionContext: Sendable {
    /// The time that `clock()` returns, in milliseconds since 1970; the same for the whole statement. Nil:
    /// the clock is not available, and `clock()` is MISSING.
    public var now: Int64?
    /// Time zones by name. Without them only UTC and offsets are known, and any other zone gives MISSING.
    public var timeZones: (any TimeZoneRules)?
    /// The result of `request_info()`; nil makes it MISSING.
    public var request: ObjectValue?

    /// A context; by default without clock, zones and request.
    public init(
        now: Int64? = nil, timeZones: (any TimeZoneRules)? = nil, request: ObjectValue? = nil
    ) {
        self.now = now
        self.timeZones = timeZones
        self.request = request
    }
}
