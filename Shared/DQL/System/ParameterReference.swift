import CRDT

/// The reference page of the system parameters, generated from the table so that the two cannot drift apart.
public enum ParameterReference {
    /// The page (`Parameters.md`, next to the page of the functions).
    public static var page: String {
        var lines = [
            "# System parameters", "",
            "Generated from `ParameterTable`; do not edit. `ALTER SYSTEM SET name = value [PERSIST]`, "
                + "`ALTER SYSTEM RESET name`,",
            "`SHOW name`, `SHOW ALL [LIKE pattern]`. Names do not differ by case. `DITTO_<NAME>` in the "
                + "environment",
            "sets a value before a store opens; without PERSIST a SET lasts until it closes.",
        ]
        for group in ParameterTable.groups {
            lines += ["", "## \(group.title)", "", "| parameter | default | takes | |", "|---|---|---|---|"]
            for parameter in group.parameters {
                let value = JSONText.print(parameter.defaultValue)
                lines.append(
                    "| `\(parameter.name)` | `\(value)` | \(parameter.type.description) "
                        + "| \(parameter.documentation) |")
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }
}
