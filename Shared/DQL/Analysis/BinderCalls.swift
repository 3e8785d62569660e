import CRDT

/// Calls of functions and aggregates.
extension Binder {
    @inline(never)
    mutating func bindCall(_ call: CallSyntax, _ span: SourceSpan) throws(DQLError) -> BoundExpression {
        if let kind = AggregateKind(rawValue: call.name) { return try bindAggregate(kind, call, span) }
        if call.name == Self.conflictsName { return try bindConflicts(call, span) }
        guard let function = FunctionTable.lookup(call.name) else {
            let names = FunctionTable.names + AggregateKind.allCases.map(\.rawValue) + [Self.conflictsName]
            throw source.error(
                .unknownFunction, "there is no function \(call.name)", at: span,
                suggestion: Suggestion.closest(to: call.name, among: names))
        }
        guard !call.isDistinct, !call.isStar else {
            throw source.error(
                .wrongArguments, "\(function.name) takes neither DISTINCT nor *", at: span)
        }
        guard call.arguments.count >= function.minimumArguments,
            call.arguments.count <= function.maximumArguments
        else {
            throw source.error(
                .wrongArguments,
                "\(function.signature) was called with \(call.arguments.count) argument(s)", at: span)
        }
        if function.name == "cast" { try checkCastType(call.arguments[1]) }
        // A function that tells what is missing, null or of a type takes everything.
        let arguments = try noting(function.asksForTypes ? nil : scope.notes) { binder throws(DQLError) in
            try binder.bind(call.arguments)
        }
        expectTypes(function, arguments, call)
        try checkKnownArguments(function, arguments, call)
        return BoundExpression.call(BoundCall(function: function, arguments: arguments)).prepared
    }

    /// Reports the errors and warnings of the function's own check of known arguments.
    private mutating func checkKnownArguments(
        _ function: FunctionDefinition, _ arguments: [BoundExpression], _ call: CallSyntax
    ) throws(DQLError) {
        let known = arguments.map { argument -> KnownArgument in
            if case .constant(let value) = argument { .known(value) } else { .unknown }
        }
        guard let problem = function.check(known) ?? DateFunctions.dateProblem(known, of: function) else {
            return
        }
        let span = call.arguments[problem.index].span
        let message = "\(function.name) \(problem.message)"
        if problem.isError { throw source.error(.invalidPattern, message, at: span) }
        warn(.literalType, message, at: span)
    }

    /// `conflicts(path)`: the one function that reads a field rather than a value.
    static let conflictsName = "conflicts"

    private mutating func bindConflicts(
        _ call: CallSyntax, _ span: SourceSpan
    ) throws(DQLError) -> BoundExpression {
        guard !call.isDistinct, !call.isStar, call.arguments.count == 1 else {
            throw source.error(.wrongArguments, "conflicts(field) takes one field", at: span)
        }
        guard case .field(let access) = try bind(call.arguments[0]) else {
            throw source.error(
                .notAField, "conflicts takes a field of a document, not a computed value",
                at: call.arguments[0].span)
        }
        return .conflicts(access)
    }

    private func checkCastType(_ type: ExpressionSyntax) throws(DQLError) {
        guard case .literal(let value) = type.kind, let name = value.stringValue,
            Conversion.typeNames[name.lowercased()] == nil
        else { return }
        throw source.error(
            .unknownType, "CAST has no type \(name)", at: type.span,
            suggestion: Suggestion.closest(to: name, among: Conversion.typeNames.keys.sorted()))
    }

    /// Expects the types that the function takes.
    private mutating func expectTypes(
        _ function: FunctionDefinition, _ arguments: [BoundExpression], _ call: CallSyntax
    ) {
        for (index, argument) in arguments.enumerated() {
            let type = function.parameterType(at: index)
            guard type != .any else { continue }
            let place = call.arguments.count > 1 ? "argument \(index + 1) of " : ""
            let need = TypeNeed(by: place + function.name, type: type, code: .literalType)
            expect(need, argument, call.arguments[index])
        }
    }

    private mutating func bindAggregate(
        _ kind: AggregateKind, _ call: CallSyntax, _ span: SourceSpan
    ) throws(DQLError) -> BoundExpression {
        guard scope.grouping != nil else {
            throw source.error(
                .misplacedAggregate,
                "an aggregate cannot be used in \(scope.aggregatesRefused ?? "this place")",
                at: span)
        }
        guard scope.locals.isEmpty else {
            throw source.error(
                .misplacedAggregate, "an aggregate cannot be used for each element of a collection", at: span)
        }
        guard call.isStar ? kind == .count : call.arguments.count == 1 else {
            throw source.error(
                .wrongArguments, "\(kind.rawValue.uppercased()) takes one argument", at: span)
        }
        // Changed in place: a copy of the binder for each aggregate would copy its parameters each time.
        let outer = scope
        scope.grouping = nil
        scope.projected = ProjectedNames()
        scope.aggregatesRefused = "another aggregate"
        var argument: BoundExpression?
        if let written = call.arguments.first { argument = try bind(written) }
        if kind == .count, let argument, StaticType(argument) == .boolean {
            warn(
                .countOfCondition, "COUNT of a condition counts the rows where it is true, not all of them",
                at: span)
        }
        scope = outer
        let aggregate = BoundAggregate(kind: kind, argument: argument, isDistinct: call.isDistinct)
        guard let slot = scope.grouping?.slot(of: aggregate) else {
            throw source.error(
                .tooManyTerms, "a statement has at most \(DQLLimits.aggregates) different aggregates",
                at: span
            )
        }
        if kind.takesNumbers, subqueryDepth == 0, !aggregates.contains(where: { $0.slot == slot }) {
            aggregates.append(WrittenAggregate(slot: slot, span: span))
        }
        return .slot(slot)
    }
}
