/* What the C interface costs: border DIRECTORY. Prints one JSON object. Times are microseconds, the best of some rounds:
 * other work only adds to them. */
#include <mimeo.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 5

static mimeo_error error;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static void fail(void) {
    fprintf(stderr, "%s: %s\n", error.code, error.message);
    exit(1);
}

static void run(mimeo_handle where, const char *statement, const char *arguments, uint32_t format) {
    mimeo_result result;
    if (mimeo_execute(where, statement, strlen(statement), arguments, strlen(arguments), format, &result, &error)) fail();
    mimeo_release(result.handle, NULL);
}

static double best(mimeo_handle db, const char *statement, const char *arguments, uint32_t format, int calls, sem_t *called) {
    double best = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        for (int i = 0; i < calls; i++) {
            run(db, statement, arguments, format);
            if (called) sem_wait(called);
        }
        double time = (now() - start) / calls;
        if (time < best) best = time;
    }
    return best;
}

static void changed(void *context, const mimeo_event *event) {
    (void)event;
    sem_post(context);
}

int main(int count, char **words) {
    if (count != 2) return 2;
    char config[4096];
    mimeo_handle db, observer;
    mimeo_log_level(1, NULL);
    snprintf(config, sizeof config,
             "{\"database_id\": \"00000000-0000-4000-8000-000000000000\", \"persistence_directory\": \"%s\","
             " \"connect\": {\"type\": \"small_peers_only\"}}",
             words[1]);
    if (mimeo_open(config, strlen(config), MIMEO_ALONE, &db, &error)) fail();
    const char *insert = "INSERT INTO other DOCUMENTS (:d)", *note = "INSERT INTO watched DOCUMENTS ({'n': 1})";
    const char *document =
        "{\"d\": {\"city\": \"c1\", \"reading\": 7919, \"unit\": \"celsius\", \"place\": {\"row\": 1, \"shelf\": 1,"
        " \"label\": \"place 1\"}, \"tags\": [\"indoor\", \"calibrated\", \"batch-0\"], \"note\":"
        " \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}}";
    const char *watch = "SELECT n FROM watched";
    double start = now();
    for (int i = 0; i < 1000000; i++) mimeo_release(0, NULL);
    printf("{\"call\": %.3f", (now() - start) / 1e6);
    printf(", \"point\": %.2f",
           best(db, "SELECT * FROM sensors WHERE _id = :id", "{\"id\": \"sensor-00000500\"}", MIMEO_JSON, 2000, NULL));
    printf(", \"thousand\": %.1f", best(db, "SELECT * FROM sensors", "", MIMEO_JSON, 20, NULL));
    printf(", \"thousandCBOR\": %.1f", best(db, "SELECT * FROM sensors", "", MIMEO_CBOR, 20, NULL));
    printf(", \"insert\": %.1f", best(db, insert, document, MIMEO_JSON, 30, NULL));
    sem_t called;
    sem_init(&called, 0, 0);
    if (mimeo_observe(db, watch, strlen(watch), NULL, 0, MIMEO_JSON, changed, &called, &observer, &error)) fail();
    sem_wait(&called);
    printf(", \"observer\": %.1f}\n", best(db, note, "", MIMEO_JSON, 20, &called));
    mimeo_close(db, NULL);
    return 0;
}
