// The commit that was built; empty if the build did not know it.
const char *mimeo_build_commit(void);
