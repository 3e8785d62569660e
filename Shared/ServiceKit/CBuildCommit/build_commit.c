#include "CBuildCommit.h"

// Package.swift defines it, if the environment of the build names the commit.
#ifndef MIMEO_BUILD_COMMIT
#define MIMEO_BUILD_COMMIT ""
#endif

const char *mimeo_build_commit(void) { return MIMEO_BUILD_COMMIT; }
