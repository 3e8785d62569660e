#pragma once

// How often this process has asked for memory: `malloc`, `calloc`, `realloc` and the aligned ones.
unsigned long allocation_count(void);
