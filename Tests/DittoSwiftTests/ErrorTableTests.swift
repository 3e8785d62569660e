import Attachments
import CRDT
import DQL
import Replica
import Testing

@testable import DittoSwift

@Suite("The table of errors")
struct ErrorTableTests {
    @Test(
        "every family of the original has a Swift case with the message in it",
        arguments: OriginalCode.allCases)
    func families(family: OriginalCode) {
        #expect(family.error("CODE-1: text").errorDescription == "CODE-1: text")
    }

    @Test("every code of the modules below has a family, and keeps its own code")
    func codes() {
        for code in DQLErrorCode.allCases {
            let failure = Failure(DQLError(code, "text", position: SourcePosition(line: 2, column: 3)))
            #expect(failure.code == code.rawValue)
            #expect(failure.original != .unknown)
            #expect(failure.publicError.errorDescription == "\(code.rawValue) at 2:3: text")
        }
        for code in ReplicaErrorCode.allCases {
            #expect(Failure(ReplicaError(code, "text")).original != .unknown)
        }
        for code in CRDTErrorCode.allCases { #expect(Failure(CRDTError(code, "text")).original != .unknown) }
        for code in AttachmentErrorCode.allCases {
            #expect(Failure(AttachmentError(code, "text")).original != .unknown)
        }
        let unknown = SDKErrorCode.allCases.filter { Failure(SDKError($0, "text")).original == .unknown }
        #expect(unknown == [.unexpected])
        #expect(Failure(CocoaError(.fileNoSuchFile)).code == "SDK-0901")
    }

    @Test("families are those that applications of the original match on")
    func matches() {
        #expect(Failure(DQLError(.syntax, "")).original.rawValue == "query/invalid")
        #expect(Failure(DQLError(.missingArgument, "")).original.rawValue == "query/arguments-invalid")
        #expect(Failure(DQLError(.unsupportedSubscription, "")).original.rawValue == "query/unsupported")
        #expect(
            Failure(ReplicaError(.directoryLocked, "")).original.rawValue
                == "store/persistence-directory-locked")
        #expect(
            Failure(ReplicaError(.documentTooLarge, "")).original.rawValue == "validation/size-limit-exceeded"
        )
    }

    @Test("DittoError is DittoSwiftError")
    func alias() {
        let error: any Error = DittoError.unsupportedError(message: "x")
        #expect(error is DittoSwiftError)
    }
}
