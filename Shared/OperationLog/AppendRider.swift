/// Something that a driver may commit along with an append, in one transaction: the fold of the appended
/// operations into tables beside the log. The driver knows its own ones, and tells them whether they came
/// along; all others stay behind.
public protocol AppendRider: AnyObject, Sendable {}
