import CRDT

/// Encodes any `Encodable` as a value of documents: structs and classes become objects, and everything that
/// `Arguments` knows stays what it is there (a `Date` text, a `Data` binary), at every depth.
///
/// An encoder writes into a `Slot`, which is filled in any order and read once the type has encoded itself.
struct ArgumentEncoder: Encoder {
    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }
    private let slot: Slot
    private let depth: Int

    private init(_ slot: Slot, _ depth: Int, _ path: [any CodingKey]) {
        self.slot = slot
        self.depth = depth
        codingPath = path
    }

    /// The value that a type encodes.
    /// - Throws: the problem of a member with its path; `SDK-0201` for an error of the type itself, and for
    ///   one that encodes nothing.
    static func value(of argument: any Encodable, _ depth: Int) throws(ArgumentProblem) -> Value {
        let slot = Slot()
        do {
            try argument.encode(to: ArgumentEncoder(slot, depth, []))
        } catch let problem as ArgumentProblem {
            throw problem
        } catch EncodingError.invalidValue(_, let context) {
            var problem = ArgumentProblem(
                .argumentTypeInvalid, "cannot be encoded: \(context.debugDescription)")
            for key in context.codingPath.reversed() { problem = problem.below(step(to: key)) }
            throw problem
        } catch {
            throw ArgumentProblem(
                .argumentTypeInvalid, "of type \(type(of: argument)) cannot be encoded: \(error)")
        }
        guard let value = slot.value else {
            throw ArgumentProblem(.argumentTypeInvalid, "of type \(type(of: argument)) encodes nothing")
        }
        return value
    }

    private static func step(to key: any CodingKey) -> String {
        key.intValue.map { "[\($0)]" } ?? "." + key.stringValue
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        slot.becomeObject()
        return KeyedEncodingContainer(Members(slot: slot, depth: depth, codingPath: codingPath))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        slot.becomeArray()
        return Elements(slot: slot, depth: depth, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        One(slot: slot, depth: depth, codingPath: codingPath)
    }

    /// A place for a value; belongs to one call of `value(of:)`.
    private final class Slot {
        enum Content {
            case nothing, array([Slot]), object([String: Slot])
            case value(Value)
        }
        var content = Content.nothing

        func becomeObject() {
            if case .object = content { return }
            content = .object([:])
        }

        func becomeArray() {
            if case .array = content { return }
            content = .array([])
        }

        /// A new place under a key.
        func member(_ key: String) -> Slot {
            let member = Slot()
            if case .object(var members) = content {
                content = .nothing
                members[key] = member
                content = .object(members)
            }
            return member
        }

        /// A new place at the end.
        func element() -> Slot {
            let element = Slot()
            if case .array(var elements) = content {
                content = .nothing
                elements.append(element)
                content = .array(elements)
            }
            return element
        }

        var count: Int { if case .array(let elements) = content { elements.count } else { 0 } }

        /// Nil if nothing was encoded. Members in the order of their keys' bytes, as `Arguments` sorts a
        /// dictionary; a member or element that encoded nothing is an empty object, as `JSONEncoder` has it.
        var value: Value? {
            let empty = Value.object(ObjectValue())
            switch content {
            case .nothing: return nil
            case .value(let value): return value
            case .array(let elements): return .array(elements.map { $0.value ?? empty })
            case .object(let members):
                let entries = members.map { (key: $0.key, value: $0.value.value ?? empty) }
                return .object(ObjectValue(unique: ObjectValue(unique: entries).sorted))
            }
        }
    }

    // One generic `encode` serves every type that the protocols list.

    private struct Members<Key: CodingKey>: KeyedEncodingContainerProtocol {
        let slot: Slot
        let depth: Int
        let codingPath: [any CodingKey]

        func encodeNil(forKey key: Key) { slot.member(key.stringValue).content = .value(.null) }

        func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
            do throws(ArgumentProblem) {
                slot.member(key.stringValue).content = .value(try Arguments.converted(value, depth + 1))
            } catch {
                throw error.below("." + key.stringValue)
            }
        }

        func nestedContainer<Nested: CodingKey>(
            keyedBy type: Nested.Type, forKey key: Key
        ) -> KeyedEncodingContainer<Nested> { encoder(key).container(keyedBy: type) }

        func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
            encoder(key).unkeyedContainer()
        }

        func superEncoder() -> any Encoder { encoder(Step("super")) }
        func superEncoder(forKey key: Key) -> any Encoder { encoder(key) }

        private func encoder(_ key: any CodingKey) -> ArgumentEncoder {
            ArgumentEncoder(slot.member(key.stringValue), depth + 1, codingPath + [key])
        }
    }

    private struct Elements: UnkeyedEncodingContainer {
        let slot: Slot
        let depth: Int
        let codingPath: [any CodingKey]
        var count: Int { slot.count }

        func encodeNil() { slot.element().content = .value(.null) }

        func encode<T: Encodable>(_ value: T) throws {
            do throws(ArgumentProblem) {
                let converted = try Arguments.converted(value, depth + 1)
                slot.element().content = .value(converted)
            } catch {
                throw error.below("[\(count)]")
            }
        }

        func nestedContainer<Nested: CodingKey>(
            keyedBy type: Nested.Type
        ) -> KeyedEncodingContainer<Nested> { encoder().container(keyedBy: type) }

        func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { encoder().unkeyedContainer() }
        func superEncoder() -> any Encoder { encoder() }

        private func encoder() -> ArgumentEncoder {
            let step = Step(count)
            return ArgumentEncoder(slot.element(), depth + 1, codingPath + [step])
        }
    }

    private struct One: SingleValueEncodingContainer {
        let slot: Slot
        let depth: Int
        let codingPath: [any CodingKey]

        func encodeNil() { slot.content = .value(.null) }

        func encode<T: Encodable>(_ value: T) throws {
            slot.content = .value(try Arguments.converted(value, depth))
        }
    }
}

/// A step of a coding path that is no key of the application's.
struct Step: CodingKey {
    let stringValue: String
    let intValue: Int?

    init(_ text: String) {
        stringValue = text
        intValue = nil
    }

    init(_ index: Int) {
        stringValue = String(index)
        intValue = index
    }

    init?(stringValue: String) { self.init(stringValue) }
    init?(intValue: Int) { self.init(intValue) }
}
