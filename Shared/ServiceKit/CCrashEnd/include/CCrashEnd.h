// Lets the kernel end the process at once after a crash, with one line on stderr that names the signal and
// `program`. Swift's handlers, which print a backtrace first, stay if SWIFT_BACKTRACE asks for them.
void crash_end_install(const char *program);
