/// All functions. The reference page is generated from here.
public enum FunctionTable {
    /// A chapter of the reference.
    public struct Group: Sendable {
        /// The chapter's title.
        public let title: String
        /// Its functions, in order.
        public let functions: [FunctionDefinition]
    }

    /// The groups in the order of the reference.
    public static let groups = [
        Group(title: "Numbers", functions: NumberFunctions.all),
        Group(title: "Types and conversion", functions: TypeFunctions.all),
        Group(title: "Strings", functions: StringFunctions.all + TextShapeFunctions.all),
        Group(title: "Patterns", functions: PatternFunctions.all),
        Group(title: "Arrays", functions: ArrayFunctions.all),
        Group(title: "Objects", functions: ObjectFunctions.all),
        Group(title: "Conditions", functions: ConditionalFunctions.all),
        Group(title: "Dates and times", functions: DateFunctions.all + DateTextFunctions.all),
        Group(title: "Durations", functions: DurationFunctions.all),
    ]

    /// All functions in the order of the reference.
    public static let all: [FunctionDefinition] = groups.flatMap(\.functions)

    private static let byName: [String: FunctionDefinition] = {
        var table: [String: FunctionDefinition] = [:]
        for function in all {
            for name in [function.name] + function.aliases { table[name] = function }
        }
        return table
    }()

    /// The function with a name in lower case, aliases included.
    static func lookup(_ name: String) -> FunctionDefinition? { byName[name] }

    /// Every name, aliases included.
    static var names: [String] { Array(byName.keys).sorted() }
}
