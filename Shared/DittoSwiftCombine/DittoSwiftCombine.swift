@_exported import DittoSwift

// The framework comes with the import, so that an application names one module. Combine has the schedulers of
// queues and run loops, timers and notifications in it.
#if canImport(Combine)
    @_exported import Combine
#else
    @_exported import OpenCombine
    @_exported import OpenCombineDispatch
    @_exported import OpenCombineFoundation
#endif
