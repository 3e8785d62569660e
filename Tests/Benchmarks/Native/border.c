/* What the C interface costs: border DIRECTORY. Prints one JSON object. Times are microseconds, medians of rounds. */
#include <mimeo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static mimeo_error error;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static void run(mimeo_handle where, const char *statement, const char *arguments, uint32_t format) {
    mimeo_result result;
    if (mimeo_execute(where, statement, strlen(statement), arguments, strlen(arguments), format, &result, &error)) {
        fprintf(stderr, "%s: %s\n", error.code, error.message);
        exit(1);
    }
    mimeo_release(result.handle, NULL);
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(mimeo_handle db, const char *statement, const char *arguments, uint32_t format, int calls) {
    double rounds[9];
    for (int round = 0; round < 9; round++) {
        double start = now();
        for (int i = 0; i < calls; i++) run(db, statement, arguments, format);
        rounds[round] = (now() - start) / calls;
    }
    qsort(rounds, 9, sizeof *rounds, compare);
    return rounds[4];
}

int main(int count, char **words) {
    if (count != 2) return 2;
    char config[4096];
    mimeo_handle db;
    mimeo_log_level(1, NULL);
    snprintf(config, sizeof config,
             "{\"database_id\": \"00000000-0000-4000-8000-000000000000\", \"persistence_directory\": \"%s\","
             " \"connect\": {\"type\": \"small_peers_only\"}}",
             words[1]);
    if (mimeo_open(config, strlen(config), MIMEO_ALONE, &db, &error)) return 1;
    double start = now();
    for (int i = 0; i < 1000000; i++) mimeo_release(0, NULL);
    double border = (now() - start) / 1e6;
    printf("{\"call\": %.3f, \"point\": %.2f, \"thousand\": %.1f, \"thousandCBOR\": %.1f}\n", border,
           median(db, "SELECT * FROM sensors WHERE _id = :id", "{\"id\": \"sensor-00000500\"}", MIMEO_JSON, 2000),
           median(db, "SELECT * FROM sensors", "", MIMEO_JSON, 20),
           median(db, "SELECT * FROM sensors", "", MIMEO_CBOR, 20));
    mimeo_close(db, NULL);
    return 0;
}
