/* Memory that openings leave: openings DIRECTORY COUNT. Prints the bytes that each of COUNT openings left in use.
 *
 * A database is opened, written, read, observed and closed, in five rounds of COUNT. Threads that end, and caches that
 * fill, move a round up or down; a loss is in every round, so the least of the last four is the answer. */
#include <malloc.h>
#include <mimeo.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 5

static mimeo_error error;

static void fail(void) {
    printf("%s: %s\n", error.code, error.message);
    exit(1);
}

static void changed(void *context, const mimeo_event *event) {
    (void)event;
    sem_post(context);
}

static void once(const char *config) {
    const char *select = "SELECT * FROM c", *write = "INSERT INTO c DOCUMENTS ({'_id': 1}) ON ID CONFLICT DO UPDATE";
    mimeo_handle db, observer, subscription, transaction;
    mimeo_result result;
    sem_t called;
    sem_init(&called, 0, 0);
    if (mimeo_open(config, strlen(config), MIMEO_ALONE, &db, &error)) fail();
    if (mimeo_observe(db, select, strlen(select), NULL, 0, MIMEO_JSON, changed, &called, &observer, &error)) fail();
    if (mimeo_subscribe(db, select, strlen(select), NULL, 0, &subscription, &error)) fail();
    if (mimeo_execute(db, write, strlen(write), NULL, 0, MIMEO_JSON, &result, &error)) fail();
    if (mimeo_release(result.handle, &error)) fail();
    if (mimeo_begin(db, 0, &transaction, &error)) fail();
    if (mimeo_execute(transaction, select, strlen(select), NULL, 0, MIMEO_CBOR, &result, &error)) fail();
    if (mimeo_release(result.handle, &error) || mimeo_end(transaction, 1, NULL, &error)) fail();
    sem_wait(&called);
    if (mimeo_close(db, &error)) fail();
    sem_destroy(&called);
}

int main(int count, char **words) {
    if (count != 3) return 2;
    char config[4096];
    snprintf(config, sizeof config,
             "{\"database_id\": \"00000000-0000-4000-8000-000000000001\", \"persistence_directory\": \"%s\","
             " \"connect\": {\"type\": \"small_peers_only\"}}",
             words[1]);
    mimeo_log_level(0, NULL);
    long openings = atol(words[2]), before = 0, least = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (long i = 0; i < openings; i++) once(config);
        struct mallinfo2 memory = mallinfo2();
        long now = (long)(memory.uordblks + memory.hblkhd), grown = now - before;
        if (round == 1 || (round > 1 && grown < least)) least = grown;
        before = now;
    }
    printf("%ld\n", openings > 0 ? least / openings : 0);
    return 0;
}
