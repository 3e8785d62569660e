/// The files of the console's page, as they stand in `Web`, within the program.
#ifndef MIMEO_CONSOLE_FILES_H
#define MIMEO_CONSOLE_FILES_H
#include <stddef.h>

/// A file: its path below `Web`, and its bytes.
struct mimeo_console_file {
    const char *path;
    const unsigned char *bytes;
    size_t length;
};

/// The number of files.
size_t mimeo_console_file_count(void);
/// A file by its index.
struct mimeo_console_file mimeo_console_file_at(size_t index);
#endif
