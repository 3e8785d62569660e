/// Applications of 4.x import this module beside DittoSwift. It has nothing of its own.
@_exported import DittoSwift
