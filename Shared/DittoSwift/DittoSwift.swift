/// Applications that import the SDK alone use `URL`, `Data` and `Date`, so Foundation comes with it.
@_exported import Foundation
