/// A closure of the application, to be called later from another thread.
///
/// Unchecked: the API's closures are not `@Sendable`, as in the API that we follow. So a closure may use what
/// its surroundings own: a variable of its function, the state of a `@MainActor` class. The use is safe if
/// the closure is called on the right queue: the one that the application named, or the main queue
/// (`DefaultDelivery`). One handler is never called twice at the same time.
struct Handler<Closure>: @unchecked Sendable {
    let call: Closure

    init(_ call: Closure) { self.call = call }
}
