import ServiceKit
import Testing

@testable import AttachmentStore

@Suite("Requests and answers of a bucket")
struct BucketProtocolTests {
    private static let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    private func signature(_ parts: RequestSigner.Parts) -> String? {
        let signer = RequestSigner(
            region: "us-east-1",
            credentials: BucketCredentials(
                accessKey: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"))
        let fields = signer.fields(
            of: parts, host: "examplebucket.s3.amazonaws.com", atSeconds: 1_369_353_600)
        let authorization = fields.first { $0.name == "authorization" }?.value
        return authorization?.split(separator: "Signature=").last.map { String($0) }
    }

    @Test("requests have the signatures of the examples that AWS has published")
    func signatures() {
        let object = RequestSigner.Parts(
            method: "GET", path: "/test.txt", fields: [("range", "bytes=0-9")], bodyDigest: Self.empty)
        #expect(signature(object) == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
        let put = RequestSigner.Parts(
            method: "PUT", path: "/test%24file.text",
            fields: [
                ("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ],
            bodyDigest: "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072")
        #expect(signature(put) == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")
        let lifecycle = RequestSigner.Parts(
            method: "GET", path: "/", query: [("lifecycle", "")], bodyDigest: Self.empty)
        #expect(signature(lifecycle) == "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")
        let listing = RequestSigner.Parts(
            method: "GET", path: "/", query: [("prefix", "J"), ("max-keys", "2")], bodyDigest: Self.empty)
        #expect(signature(listing) == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
    }

    @Test("times are written and read as the protocol has them")
    func times() {
        #expect(RequestSigner.time(1_369_353_600) == "20130524T000000Z")
        #expect(RequestSigner.seconds("2013-05-24T00:00:07.000Z") == 1_369_353_607)
        #expect(RequestSigner.seconds("2013-05-24T00:00:07") == nil)
        #expect(RequestSigner.seconds("yesterday") == nil)
    }

    @Test("an answer's elements, entities and sections are read")
    func documents() throws {
        let text = """
            <?xml version="1.0" encoding="UTF-8"?>
            <!-- a listing -->
            <List xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Empty/><Contents><Key>a&amp;b&#x21;</Key>
            </Contents><Contents><Key><![CDATA[c<d]]></Key></Contents></List>
            """
        let document = try #require(BucketDocument(Array(text.utf8)))
        #expect(document.name == "List" && document.first("Empty") == "")
        #expect(document.all("Contents").map { $0.first("Key") } == ["a&b!", "c<d"])
    }

    @Test(
        "what is no such answer is refused, whatever it is",
        arguments: [
            "", "<", "<a", "<a>", "<a></b>", "text", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "<a>&b;</a>",
            "<a>&lt</a>", "<a><![CDATA[x</a>", "<a><!-- </a>", "<>", "<a>&#xD800;</a>",
            String(repeating: "<a>", count: 10_000),
        ])
    func malformed(_ text: String) {
        #expect(BucketDocument(Array(text.utf8)) == nil)
    }

    @Test("bytes that are no UTF-8 are no answer")
    func noText() { #expect(BucketDocument([0x3C, 0x61, 0x3E, 0xFF, 0x3C, 0x2F, 0x61, 0x3E]) == nil) }

    @Test("an address has a host, a bucket, and a prefix that ends with a slash")
    func addresses() throws {
        let address = try BucketAddress(
            url: "https://store.example:9000/blobs/mimeo/one/", region: nil, credentialsFile: "file")
        #expect(address.host == "store.example:9000" && address.origin == "https://store.example:9000")
        #expect(address.bucket == "blobs" && address.prefix == "mimeo/one/" && address.region == "us-east-1")
        #expect(
            try BucketAddress(url: "http://h/b", region: "eu", credentialsFile: "f").prefix.isEmpty)
    }

    @Test(
        "another address is an error that does not repeat it",
        arguments: [
            "", "s3://bucket", "https://", "https://host", "https://host/", "https:///bucket",
            "https://user:secret@host/bucket", "https://host/bucket?secret", "https://host/bucket/../other",
            "https://host/büro",
        ])
    func wrongAddresses(_ url: String) {
        let error = #expect(throws: ServiceError.self) {
            try BucketAddress(url: url, region: nil, credentialsFile: "file")
        }
        #expect(error?.code == .configurationInvalid && error?.message.contains("secret") == false)
    }

    @Test("a bucket needs credentials")
    func credentials() {
        let error = #expect(throws: ServiceError.self) {
            try BucketAddress(url: "https://host/bucket", region: nil, credentialsFile: nil)
        }
        #expect(error?.message.contains("--attachment-bucket-credentials") == true)
    }
}
