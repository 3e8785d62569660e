/// All functions. The reference page is generated from here.
public enum FunctionTable {
    /// In the order of the reference.
    public static let all: [FunctionDefinition] =
        StringFunctions.all + NumberFunctions.all + ArrayFunctions.all + ObjectFunctions.all
        + TypeFunctions.all
        + ConditionalFunctions.all

    private static let byName: [String: FunctionDefinition] = {
        var table: [String: FunctionDefinition] = [:]
        for function in all {
            for name in [function.name] + function.aliases { table[name] = function }
        }
        return table
    }()

    /// The function of a name in lower case, aliases included.
    static func lookup(_ name: String) -> FunctionDefinition? { byName[name] }

    /// Every name, aliases included.
    static var names: [String] { Array(byName.keys).sorted() }
}
