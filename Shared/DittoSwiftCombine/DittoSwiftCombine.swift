@_exported import DittoSwift

// The framework comes with the import, so that an application names one module.
#if canImport(Combine)
    @_exported import Combine
#else
    @_exported import OpenCombine
#endif
