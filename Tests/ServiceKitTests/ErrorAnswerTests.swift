import Hummingbird
import OperationLog
import ServiceKit
import Testing

@Suite("What a client is told of an error")
struct ErrorAnswerTests {
    @Test(
        "a log that is away for a while is a 503 that says when to try again, and names nothing",
        arguments: [OperationLogErrorCode.unreachable, .storageFull, .poisoned, .overloaded])
    func passing(_ code: OperationLogErrorCode) {
        let answer = ErrorAnswer.reportable(OperationLogError(code, "postgres://u:secret@host/db"))
        #expect(answer.httpStatus == .serviceUnavailable)
        #expect(answer.httpHeaders[.retryAfter] == "1")
        #expect(answer.publicCode == code.rawValue)
        #expect(!answer.publicMessage.contains("host"))
    }

    @Test("a damaged log is a 500 whose reason stays here")
    func damaged() {
        let answer = ErrorAnswer.reportable(OperationLogError(.corrupt, "secret"))
        #expect(answer.httpStatus == .internalServerError)
        #expect(!answer.publicMessage.contains("secret"))
    }

    @Test(
        "a damaged log has its own code and offset, and no time to try again",
        arguments: [OperationLogErrorCode.corrupt, .corruptSnapshot])
    func damagedLog(_ code: OperationLogErrorCode) {
        let answer = ErrorAnswer.reportable(OperationLogError(code, "x", database: "cars", offset: 17))
        #expect(answer.httpStatus == .internalServerError && answer.publicCode == code.rawValue)
        #expect(answer.publicMessage.contains("at offset 17"))
        #expect(answer.httpHeaders.isEmpty)
    }

    @Test("an issuer that is away is a 503 that says when to try again")
    func issuer() {
        let answer = ErrorAnswer.reportable(ServiceError(.issuerUnreachable, "try again shortly"))
        #expect(answer.httpStatus == .serviceUnavailable)
        #expect(answer.httpHeaders[.retryAfter] == "1")
    }
}
