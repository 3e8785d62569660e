/* A program that writes, observes and reads: cars DIRECTORY.
 *
 *   cc cars.c -I Shared/MimeoC/include -L .build/native -lmimeo -Wl,-rpath,$PWD/.build/native -o cars
 */
#include <mimeo.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const mimeo_error *error) {
    fprintf(stderr, "%s: %s\n", error->code, error->message);
    exit(1);
}

/* Runs on the database's dispatcher thread. */
static void changed(void *context, const mimeo_event *event) {
    printf("observed %llu blue cars: %.*s\n", (unsigned long long)event->count, (int)event->size,
           (const char *)event->data);
    fflush(stdout);
    if (event->count > 0) sem_post((sem_t *)context);
}

static void execute(mimeo_handle where, const char *statement, const char *arguments) {
    mimeo_error error;
    mimeo_result result;
    if (mimeo_execute(where, statement, strlen(statement), arguments, strlen(arguments), MIMEO_JSON, &result,
                      &error))
        fail(&error);
    printf("%s: %.*s\n", result.is_write ? "wrote" : "read", (int)result.size, (const char *)result.data);
    mimeo_release(result.handle, NULL);
}

int main(int count, char **words) {
    mimeo_error error;
    mimeo_handle db, observer, transaction;
    char config[1024];
    if (count != 2 || mimeo_abi_version() != MIMEO_ABI_VERSION) return 2;
    snprintf(config, sizeof config,
             "{\"database_id\": \"7c4e2f5a-0f4b-4c0b-9d0e-5a1f0c2b3d4e\", \"persistence_directory\": \"%s\","
             " \"connect\": {\"type\": \"small_peers_only\"}}",
             words[1]);
    if (mimeo_open(config, strlen(config), MIMEO_ALONE, &db, &error)) fail(&error);

    const char *blue = "SELECT _id FROM cars WHERE color = 'blue' ORDER BY _id";
    sem_t seen;
    sem_init(&seen, 0, 0);
    if (mimeo_observe(db, blue, strlen(blue), NULL, 0, MIMEO_JSON, changed, &seen, &observer, &error))
        fail(&error);

    if (mimeo_begin(db, 0, &transaction, &error)) fail(&error);
    execute(transaction, "INSERT INTO cars DOCUMENTS (:car) ON ID CONFLICT DO UPDATE",
            "{\"car\": {\"_id\": \"a\", \"color\": \"blue\"}}");
    execute(transaction, "INSERT INTO cars DOCUMENTS (:car) ON ID CONFLICT DO UPDATE",
            "{\"car\": {\"_id\": \"b\", \"color\": \"red\"}}");
    if (mimeo_end(transaction, 1, NULL, &error)) fail(&error);

    execute(db, "SELECT * FROM cars WHERE color = :color", "{\"color\": \"red\"}");
    sem_wait(&seen);
    mimeo_release(observer, NULL);
    if (mimeo_close(db, &error)) fail(&error);
    return 0;
}
