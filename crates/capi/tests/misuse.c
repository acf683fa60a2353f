// Every way to use the calls wrongly: each is an error with a code and a message, and nothing else happens.
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tinaja.h"

static unsigned checks;

#define FAILS(call, code)                                                                                \
    do {                                                                                                 \
        long long got_ = (long long)(call);                                                              \
        checks++;                                                                                        \
        if (got_ != (code)) {                                                                            \
            fprintf(stderr, "line %d: %s returned %lld and not %d: %s\n", __LINE__, #call, got_, (code), \
                    tinaja_last_error());                                                                \
            exit(1);                                                                                     \
        }                                                                                                \
        if (tinaja_last_error()[0] == '\0' || tinaja_strerror(code)[0] == '\0') {                        \
            fprintf(stderr, "line %d: %s says nothing\n", __LINE__, #call);                              \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

#define WORKS(call)                                                                              \
    do {                                                                                         \
        checks++;                                                                                \
        if ((call) < 0) {                                                                        \
            fprintf(stderr, "line %d: %s failed: %s\n", __LINE__, #call, tinaja_last_error());   \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

static const uint8_t KEY[] = "key";
static const uint8_t OTHER[] = "other";
static uint8_t buffer[4096];

static int64_t create(int64_t cache, int64_t length) {
    int64_t file = tinaja_create(cache, KEY, sizeof KEY, (const uint8_t *)"head", 4, length, 0);
    WORKS(file);
    return file;
}

static void caches(const char *dir) {
    FAILS(tinaja_cache_open(NULL, NULL), TINAJA_NULL);
    FAILS(tinaja_cache_open("/dev/null/no/directory", NULL), TINAJA_OPEN_FAILED);
    FAILS(tinaja_cache_open("\xff\xfe", NULL), TINAJA_ARGUMENT);
    struct tinaja_options options = {.struct_bytes = sizeof options, .engine = "no such engine", .disk_bytes = 16 << 20};
    FAILS(tinaja_cache_open(dir, &options), TINAJA_ARGUMENT);
    options.engine = "\xff";
    FAILS(tinaja_cache_open(dir, &options), TINAJA_ARGUMENT);
    options.engine = NULL;
    options.disk_bytes = 1;
    FAILS(tinaja_cache_open(dir, &options), TINAJA_OPEN_FAILED);
    options.disk_bytes = UINT64_MAX;
    FAILS(tinaja_cache_open(dir, &options), TINAJA_OPEN_FAILED);
    FAILS(tinaja_cache_close(0), TINAJA_UNKNOWN_HANDLE);
    FAILS(tinaja_cache_close(-1), TINAJA_UNKNOWN_HANDLE);
    FAILS(tinaja_flush(INT64_MAX), TINAJA_UNKNOWN_HANDLE);
    FAILS(tinaja_remove(INT64_MIN, KEY, sizeof KEY), TINAJA_UNKNOWN_HANDLE);
}

// Options that an engine does not have, or no engine; each is refused before anything is made.
static void settings(const char *dir) {
    const struct tinaja_options good = {.struct_bytes = sizeof good, .disk_bytes = 16 << 20};
    struct tinaja_options bad;
#define REFUSED(set, code)                          \
    do {                                            \
        bad = good;                                 \
        set;                                        \
        FAILS(tinaja_cache_open(dir, &bad), code);  \
    } while (0)
    REFUSED(bad.prefetch = 3, TINAJA_ARGUMENT);
    REFUSED(bad.prefetch = UINT32_MAX, TINAJA_ARGUMENT);
    REFUSED((bad.engine = "hashcache-logn", bad.prefetch = TINAJA_ON), TINAJA_OPEN_FAILED);
    REFUSED(bad.hash_bits = 7, TINAJA_OPEN_FAILED);
    REFUSED(bad.hash_bits = 17, TINAJA_OPEN_FAILED);
    REFUSED(bad.hash_bits = 8 + 256, TINAJA_ARGUMENT);
    REFUSED((bad.engine = "hashcache-set", bad.hash_bits = 8), TINAJA_OPEN_FAILED);
    REFUSED((bad.engine = "hashcache-loglru", bad.positions_in_memory = 9), TINAJA_OPEN_FAILED);
    REFUSED((bad.engine = "hashcache-loglru", bad.positions_in_memory = 4 + 256), TINAJA_ARGUMENT);
    REFUSED(bad.positions_in_memory = 4, TINAJA_OPEN_FAILED);
    REFUSED((bad.engine = "hashcache-setmemlru", bad.sets_in_memory_percent = 101), TINAJA_OPEN_FAILED);
    REFUSED((bad.engine = "hashcache-setmemlru", bad.sets_in_memory_percent = UINT32_MAX), TINAJA_ARGUMENT);
    REFUSED(bad.sets_in_memory_percent = 40, TINAJA_OPEN_FAILED);
    REFUSED(bad.engine_by_memory = 3, TINAJA_ARGUMENT);
    REFUSED(bad.value = 1, TINAJA_OPEN_FAILED);
    REFUSED((bad.engine = "generational", bad.value = 3), TINAJA_OPEN_FAILED);
    REFUSED((bad.engine = "generational", bad.value = UINT32_MAX), TINAJA_ARGUMENT);
    REFUSED((bad.engine = "segmented", bad.keep_percent = 51), TINAJA_OPEN_FAILED);
    REFUSED(bad.keep_percent = 10, TINAJA_OPEN_FAILED);
    REFUSED(bad.positions_dir = "no positions", TINAJA_OPEN_FAILED);
    REFUSED(bad.bin_bytes = 8192, TINAJA_OPEN_FAILED);
    REFUSED((bad.engine = "hashcache-set", bad.bin_bytes = 5000), TINAJA_OPEN_FAILED);
    REFUSED((bad.engine = "hashcache-set", bad.bin_bytes = UINT64_MAX), TINAJA_OPEN_FAILED);
    REFUSED((bad.engine = "hashcache-set", bad.ways = 3), TINAJA_OPEN_FAILED);
    REFUSED((bad.engine = "hashcache-set", bad.ways = UINT32_MAX), TINAJA_OPEN_FAILED);
    REFUSED(bad.mean_object_bytes = 1, TINAJA_OPEN_FAILED);
    REFUSED(bad.mean_object_bytes = UINT64_MAX, TINAJA_OPEN_FAILED);

    // Directories: an array that is not there, one with nothing in it, and more than there may be.
    const char *dirs[64] = {NULL};
    REFUSED(bad.more_dirs_count = 1, TINAJA_NULL);
    REFUSED((bad.more_dirs = dirs, bad.more_dirs_count = 1), TINAJA_NULL);
    for (size_t i = 0; i < 64; i++) dirs[i] = "/dev/null/no/directory";
    REFUSED((bad.more_dirs = dirs, bad.more_dirs_count = 64), TINAJA_ARGUMENT);
    REFUSED((bad.more_dirs = dirs, bad.more_dirs_count = UINT64_MAX), TINAJA_ARGUMENT);
    dirs[1] = "\xff";
    REFUSED((bad.more_dirs = dirs, bad.more_dirs_count = 2), TINAJA_ARGUMENT);
    dirs[1] = dirs[0];
    REFUSED((bad.more_dirs = dirs, bad.more_dirs_count = 63), TINAJA_OPEN_FAILED);

    // How large the struct is: not said, nonsense, smaller than it ever was.
    REFUSED(bad.struct_bytes = 0, TINAJA_ARGUMENT);
    REFUSED(bad.struct_bytes = 8, TINAJA_ARGUMENT);
    REFUSED(bad.struct_bytes = UINT64_MAX, TINAJA_ARGUMENT);
    // A program with a newer header: what this library does not have must be 0.
    struct {
        struct tinaja_options known;
        uint64_t newer;
    } grown = {.known = good, .newer = 1};
    grown.known.struct_bytes = sizeof grown;
    FAILS(tinaja_cache_open(dir, &grown.known), TINAJA_ARGUMENT);
    if (access(dir, F_OK) == 0) {
        char file[4096];
        snprintf(file, sizeof file, "%s/tinaja.cache", dir);
        if (access(file, F_OK) == 0) exit(1); // Nothing was made.
    }
    char apart[4096], other[4096];
    snprintf(apart, sizeof apart, "%s-grown", dir);
    snprintf(other, sizeof other, "%s-second-disk", dir);
    const char *second[] = {other};
    grown.newer = 0;
    grown.known.more_dirs = second;
    grown.known.more_dirs_count = 1;
    int64_t cache = tinaja_cache_open(apart, &grown.known);
    WORKS(cache);
    WORKS(tinaja_close(create(cache, TINAJA_ANY_LENGTH)));
    WORKS(tinaja_cache_close(cache));
    // Both disks, in this order, or it is not this cache.
    FAILS(tinaja_cache_open(apart, NULL), TINAJA_OPEN_FAILED);
    second[0] = apart;
    FAILS(tinaja_cache_open(other, &grown.known), TINAJA_OPEN_FAILED);

    // By its memory a new cache has generational, which alone can find bytes rather than objects.
    struct tinaja_options chosen = good;
    chosen.memory_bytes = 1 << 20;
    chosen.engine_by_memory = TINAJA_ON;
    chosen.value = 1;
    char by_memory[4096];
    snprintf(by_memory, sizeof by_memory, "%s-by-memory", dir);
    cache = tinaja_cache_open(by_memory, &chosen);
    WORKS(cache);
    WORKS(tinaja_close(create(cache, TINAJA_ANY_LENGTH)));
    WORKS(tinaja_cache_close(cache));
    // It is there, and stays what it is. With too little memory for its index that lies on the disk.
    chosen.engine_by_memory = TINAJA_OFF;
    chosen.memory_bytes = 4096;
    cache = tinaja_cache_open(by_memory, &chosen);
    WORKS(cache);
    WORKS(tinaja_open(cache, KEY, sizeof KEY));
    WORKS(tinaja_cache_close(cache));
}

static void files(int64_t cache, const char *dir) {
    FAILS(tinaja_cache_open(dir, NULL), TINAJA_OPEN_FAILED);
    FAILS(tinaja_open(cache, NULL, 3), TINAJA_NULL);
    FAILS(tinaja_open(cache, NULL, 0), TINAJA_ARGUMENT);
    FAILS(tinaja_open(cache, KEY, SIZE_MAX), TINAJA_ARGUMENT);
    FAILS(tinaja_open(cache, KEY, sizeof KEY), TINAJA_NOT_FOUND);
    FAILS(tinaja_remove(cache, KEY, sizeof KEY), TINAJA_NOT_FOUND);
    FAILS(tinaja_remove(cache, NULL, 1), TINAJA_NULL);
    FAILS(tinaja_create(cache, NULL, 3, NULL, 0, -1, 0), TINAJA_NULL);
    FAILS(tinaja_create(cache, KEY, sizeof KEY, NULL, 3, -1, 0), TINAJA_NULL);
    FAILS(tinaja_create(cache, KEY, sizeof KEY, NULL, 0, -2, UINT64_MAX), TINAJA_ARGUMENT);
    FAILS(tinaja_create(0, KEY, sizeof KEY, NULL, 0, -1, 1), TINAJA_UNKNOWN_HANDLE);

    int64_t written = create(cache, TINAJA_ANY_LENGTH);
    FAILS(tinaja_read(written, buffer, sizeof buffer), TINAJA_NOT_FOR_READING);
    FAILS(tinaja_seek(written, 1, TINAJA_SEEK_SET), TINAJA_NOT_FOR_READING);
    FAILS(tinaja_write(written, NULL, 10), TINAJA_NULL);
    FAILS(tinaja_write(written, buffer, SIZE_MAX), TINAJA_ARGUMENT);
    WORKS(tinaja_write(written, NULL, 0));
    WORKS(tinaja_write(written, (const uint8_t *)"0123456789", 10));
    WORKS(tinaja_close(written));
    FAILS(tinaja_close(written), TINAJA_CLOSED_HANDLE);
    FAILS(tinaja_discard(written), TINAJA_CLOSED_HANDLE);
    FAILS(tinaja_write(written, buffer, 1), TINAJA_CLOSED_HANDLE);
    FAILS(tinaja_read(written, buffer, 1), TINAJA_CLOSED_HANDLE);

    int64_t read = tinaja_open(cache, KEY, sizeof KEY);
    WORKS(read);
    FAILS(tinaja_write(read, buffer, 1), TINAJA_NOT_FOR_WRITING);
    FAILS(tinaja_read(read, NULL, 1), TINAJA_NULL);
    FAILS(tinaja_read(read, buffer, SIZE_MAX), TINAJA_ARGUMENT);
    FAILS(tinaja_seek(read, 11, TINAJA_SEEK_SET), TINAJA_OUTSIDE);
    FAILS(tinaja_seek(read, -1, TINAJA_SEEK_SET), TINAJA_OUTSIDE);
    FAILS(tinaja_seek(read, INT64_MIN, TINAJA_SEEK_CUR), TINAJA_OUTSIDE);
    FAILS(tinaja_seek(read, INT64_MAX, TINAJA_SEEK_END), TINAJA_OUTSIDE);
    FAILS(tinaja_seek(read, 0, 77), TINAJA_ARGUMENT);
    FAILS(tinaja_head(read, buffer, 3), TINAJA_TOO_SMALL);
    FAILS(tinaja_head(read, NULL, 100), TINAJA_NULL);
    FAILS(tinaja_head(read, NULL, 0), TINAJA_TOO_SMALL);
    WORKS(tinaja_head(read, buffer, 4));
    WORKS(tinaja_read(read, NULL, 0));
    if (tinaja_read(read, buffer, 3) != 3 || memcmp(buffer, "012", 3) != 0) exit(1);
    FAILS(tinaja_cache_close(read), TINAJA_UNKNOWN_HANDLE);
    FAILS(tinaja_read(cache, buffer, 1), TINAJA_UNKNOWN_HANDLE);
    FAILS(tinaja_drop(read), TINAJA_UNKNOWN_HANDLE);
    WORKS(tinaja_close(read));
    FAILS(tinaja_length(read), TINAJA_CLOSED_HANDLE);
    FAILS(tinaja_length(read + 1), TINAJA_UNKNOWN_HANDLE);

    int64_t shorter = create(cache, 5);
    WORKS(tinaja_write(shorter, buffer, 4));
    FAILS(tinaja_close(shorter), TINAJA_NOT_STORED);
    FAILS(tinaja_close(shorter), TINAJA_CLOSED_HANDLE);

    int64_t along_of = tinaja_create(cache, OTHER, sizeof OTHER, NULL, 0, TINAJA_ANY_LENGTH, 1);
    int64_t along = tinaja_open(cache, OTHER, sizeof OTHER);
    WORKS(along);
    FAILS(tinaja_length(along), TINAJA_LENGTH_UNKNOWN);
    WORKS(tinaja_discard(along_of));
    FAILS(tinaja_read(along, buffer, 1), TINAJA_READ_FAILED);
    WORKS(tinaja_close(along));

    enum { MOST = 5000 };
    static int64_t all[MOST];
    int opened = 0;
    while (opened < MOST && (all[opened] = tinaja_open(cache, KEY, sizeof KEY)) > 0) opened++;
    FAILS(opened < MOST ? all[opened] : 0, TINAJA_FULL);
    while (opened > 0) WORKS(tinaja_close(all[--opened]));
}

static void places(int64_t cache) {
    struct tinaja_step step, next;
    FAILS(tinaja_locate(cache, KEY, sizeof KEY, NULL), TINAJA_NULL);
    FAILS(tinaja_locate(cache, NULL, 3, &step), TINAJA_NULL);
    FAILS(tinaja_locate(0, KEY, sizeof KEY, &step), TINAJA_UNKNOWN_HANDLE);
    WORKS(tinaja_locate(cache, OTHER, sizeof OTHER, &step));
    if (step.kind != TINAJA_MISSING) exit(1);
    WORKS(tinaja_locate(cache, KEY, sizeof KEY, &step));
    if (step.kind != TINAJA_READ || step.descriptor < 0) exit(1);
    if (write(step.descriptor, buffer, 1) >= 0) exit(1); // It is for reading only.
    FAILS(tinaja_verify(step.handle, NULL, (size_t)step.bytes, &next), TINAJA_NULL);
    FAILS(tinaja_verify(step.handle, buffer, 10, NULL), TINAJA_NULL);
    FAILS(tinaja_verify(step.handle, buffer, 10, &next), TINAJA_WRONG_LENGTH);
    FAILS(tinaja_verify(step.handle, buffer, 10, &next), TINAJA_CLOSED_HANDLE);
    FAILS(tinaja_drop(step.handle), TINAJA_CLOSED_HANDLE);
    FAILS(tinaja_verify(0, buffer, 10, &next), TINAJA_UNKNOWN_HANDLE);
    FAILS(tinaja_part(step.handle, 0, &next), TINAJA_UNKNOWN_HANDLE);
    FAILS(tinaja_part(0, 0, &next), TINAJA_UNKNOWN_HANDLE);
    FAILS(tinaja_copy(0, 0, buffer, 1), TINAJA_UNKNOWN_HANDLE);
    FAILS(tinaja_object_head(0, buffer, 1), TINAJA_UNKNOWN_HANDLE);
    FAILS(tinaja_drop(0), TINAJA_UNKNOWN_HANDLE);
    FAILS(tinaja_drop(cache), TINAJA_UNKNOWN_HANDLE);

    WORKS(tinaja_locate(cache, KEY, sizeof KEY, &step));
    while (step.kind == TINAJA_READ) {
        void *read;
        if (posix_memalign(&read, 4096, (size_t)step.bytes) != 0) exit(1);
        if (pread(step.descriptor, read, (size_t)step.bytes, (off_t)step.offset) != (ssize_t)step.bytes) exit(1);
        WORKS(tinaja_verify(step.handle, read, (size_t)step.bytes, &step));
        free(read);
    }
    if (step.kind != TINAJA_OBJECT || step.bytes != 10) exit(1);
    int64_t object = step.handle;
    FAILS(tinaja_object_head(object, buffer, 3), TINAJA_TOO_SMALL);
    FAILS(tinaja_object_head(object, NULL, 4), TINAJA_NULL);
    WORKS(tinaja_object_head(object, buffer, 4));
    FAILS(tinaja_part(object, 10, &next), TINAJA_OUTSIDE);
    FAILS(tinaja_part(object, UINT64_MAX, &next), TINAJA_OUTSIDE);
    FAILS(tinaja_part(object, 0, NULL), TINAJA_NULL);
    FAILS(tinaja_copy(object, 0, buffer, 1), TINAJA_ARGUMENT);
    WORKS(tinaja_part(object, 5, &next));
    FAILS(tinaja_copy(next.handle, 11, buffer, 1), TINAJA_OUTSIDE);
    FAILS(tinaja_copy(next.handle, UINT64_MAX, buffer, 1), TINAJA_OUTSIDE);
    FAILS(tinaja_copy(next.handle, 0, NULL, 1), TINAJA_NULL);
    FAILS(tinaja_part(next.handle, 0, &step), TINAJA_ARGUMENT);
    FAILS(tinaja_object_head(next.handle, buffer, 1), TINAJA_ARGUMENT);
    if (tinaja_copy(next.handle, 8, buffer, sizeof buffer) != 2 || memcmp(buffer, "89", 2) != 0) exit(1);
    WORKS(tinaja_drop(next.handle));
    FAILS(tinaja_copy(next.handle, 0, buffer, 1), TINAJA_CLOSED_HANDLE);
    FAILS(tinaja_drop(next.handle), TINAJA_CLOSED_HANDLE);
    WORKS(tinaja_drop(object));
    FAILS(tinaja_part(object, 0, &next), TINAJA_CLOSED_HANDLE);

    enum { MOST = 5000 };
    static int64_t tickets[MOST];
    int out = 0;
    int32_t code = TINAJA_OK;
    while (out < MOST && (code = tinaja_locate(cache, KEY, sizeof KEY, &step)) == TINAJA_OK) tickets[out++] = step.handle;
    FAILS(code, TINAJA_FULL);
    while (out > 0) WORKS(tinaja_drop(tickets[--out]));
}

int main(int arguments, char **argument) {
    if (arguments != 2) return 2;
    const char *dir = argument[1];
    if (tinaja_last_error()[0] != '\0' || strcmp(tinaja_strerror(0), "done") != 0) return 1;
    caches(dir);
    settings(dir);
    struct tinaja_options options = {.struct_bytes = sizeof options, .disk_bytes = 16 << 20};
    int64_t cache = tinaja_cache_open(dir, &options);
    WORKS(cache);
    files(cache, dir);
    WORKS(tinaja_cache_close(cache));
    FAILS(tinaja_cache_close(cache), TINAJA_CLOSED_HANDLE);
    FAILS(tinaja_flush(cache), TINAJA_CLOSED_HANDLE);
    options.disk_bytes = 32 << 20;
    FAILS(tinaja_cache_open(dir, &options), TINAJA_OPEN_FAILED);
    cache = tinaja_cache_open(dir, NULL);
    WORKS(cache);
    places(cache);

    // What a closed cache leaves behind fails, and harms nobody.
    struct tinaja_step step;
    WORKS(tinaja_locate(cache, KEY, sizeof KEY, &step));
    int64_t file = tinaja_open(cache, KEY, sizeof KEY), late = create(cache, TINAJA_ANY_LENGTH);
    WORKS(file);
    WORKS(tinaja_cache_close(cache));
    static uint8_t room[1 << 20];
    FAILS(tinaja_verify(step.handle, room, (size_t)step.bytes, &step), TINAJA_CACHE_CLOSED);
    FAILS(tinaja_open(cache, KEY, sizeof KEY), TINAJA_CLOSED_HANDLE);
    FAILS(tinaja_close(late), TINAJA_NOT_STORED);
    WORKS(tinaja_close(file));
    printf("%u calls answered as they should be\n", checks);
    return 0;
}
