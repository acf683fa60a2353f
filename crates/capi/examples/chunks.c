// The store of a WAN accelerator: chunks under their fingerprints. What is sent is cut into chunks; of a chunk that both
// ends have, only the fingerprint crosses the link. So each end asks "is it here?" for every chunk, and where it is reads
// it straight into the buffers that it sends from: the index says where, and the program does the reading.
//
//     cargo build --release -p tinaja-capi
//     cc -Icrates/capi/include crates/capi/examples/chunks.c target/release/libtinaja_capi.a -lm -o chunks
//     ./chunks /var/cache/chunks
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tinaja.h"

// With its name and 64 bytes of its own, a chunk fits a bin of 8 KiB.
// So many come with each transfer, and are asked for together again: they are one group.
enum { CHUNK = 8000, CHUNKS = 200, TRANSFER = 20, LARGE = 3000000 };

struct fingerprint {
    uint8_t bytes[16];
};

// A real one uses SHA-1 or BLAKE3; what it is does not matter here.
static struct fingerprint fingerprint_of(const uint8_t *chunk, size_t bytes) {
    struct fingerprint made;
    uint64_t hash[2] = {14695981039346656037u, 1099511628211u};
    for (size_t i = 0; i < bytes; i++) {
        hash[i % 2] = (hash[i % 2] ^ chunk[i]) * 1099511628211u;
    }
    memcpy(made.bytes, hash, sizeof made.bytes);
    return made;
}

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, tinaja_last_error());
    exit(1);
}

// Bytes as they might come from a sender: a function of their number.
static void fill(uint8_t *chunk, size_t bytes, uint32_t number) {
    uint32_t state = number * 2654435761u + 1;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525u + 1013904223u;
        chunk[i] = (uint8_t)(state >> 24);
    }
}

static void store(int64_t cache, const uint8_t *chunk, size_t bytes, uint64_t transfer) {
    struct fingerprint name = fingerprint_of(chunk, bytes);
    int64_t file = tinaja_create(cache, name.bytes, sizeof name.bytes, NULL, 0, (int64_t)bytes, transfer);
    if (file < 0) die("create");
    if (tinaja_write(file, chunk, bytes) < 0) die("write");
    // A cache may decline to keep a chunk; it is then sent again some day.
    if (tinaja_close(file) < 0) fprintf(stderr, "not kept: %s\n", tinaja_last_error());
}

// Carry out every read that a step asks for, up to `last`, which is TINAJA_OBJECT or TINAJA_PART. False for a miss.
static bool follow(struct tinaja_step *step, int32_t last, unsigned *reads) {
    while (step->kind == TINAJA_READ) {
        void *buffer;
        if (posix_memalign(&buffer, 4096, (size_t)step->bytes) != 0) abort();
        ssize_t got = pread(step->descriptor, buffer, (size_t)step->bytes, (off_t)step->offset);
        if (got < 0 || (uint64_t)got != step->bytes) {
            perror("pread");
            exit(1);
        }
        (*reads)++;
        if (tinaja_verify(step->handle, buffer, (size_t)got, step) != TINAJA_OK) die("verify");
        free(buffer);
    }
    if (step->kind != TINAJA_MISSING && step->kind != last) abort();
    return step->kind == last;
}

// Read a chunk by its fingerprint into `into`, which has room for it. False if it is not here.
static bool find(int64_t cache, struct fingerprint name, uint8_t *into, size_t bytes, unsigned *reads) {
    struct tinaja_step step;
    if (tinaja_locate(cache, name.bytes, sizeof name.bytes, &step) != TINAJA_OK) die("locate");
    if (!follow(&step, TINAJA_OBJECT, reads)) return false;
    int64_t object = step.handle;
    bool whole = step.bytes == bytes;
    for (uint64_t at = 0; whole && at < bytes;) {
        struct tinaja_step part;
        if (tinaja_part(object, at, &part) != TINAJA_OK) die("part");
        if (!follow(&part, TINAJA_PART, reads)) {
            whole = false;
            break;
        }
        int64_t copied = tinaja_copy(part.handle, at - part.offset, into + at, bytes - at);
        if (copied <= 0) die("copy");
        at += (uint64_t)copied;
        tinaja_drop(part.handle);
    }
    tinaja_drop(object);
    return whole;
}

int main(int arguments, char **argument) {
    if (arguments != 2 && arguments != 3) {
        fprintf(stderr, "usage: %s DIRECTORY [ENGINE]\n", argument[0]);
        return 2;
    }
    // What belongs together is written and read together: where chunks lie in a log, a transfer's are a read or two.
    struct tinaja_options options = {
        .struct_bytes = sizeof options,
        .engine = arguments == 3 ? argument[2] : "hashcache-setmem",
        .disk_bytes = 64 << 20,
        .mean_object_bytes = 8192,
        .prefetch = TINAJA_ON,
    };
    int64_t cache = tinaja_cache_open(argument[1], &options);
    if (cache < 0) die("open");

    uint8_t chunk[CHUNK], found[CHUNK];
    struct fingerprint names[CHUNKS];
    for (uint32_t n = 0; n < CHUNKS; n++) {
        fill(chunk, CHUNK, n);
        names[n] = fingerprint_of(chunk, CHUNK);
        store(cache, chunk, CHUNK, 1 + n / TRANSFER);
    }
    // From here on they survive a loss of power, and none waits for the rest of its group any more. One that did could be
    // written after the large object and, with an engine that has one place for both, push it out.
    if (tinaja_flush(cache) != TINAJA_OK) die("flush");
    uint8_t *large = malloc(LARGE), *again = malloc(LARGE);
    if (large == NULL || again == NULL) abort();
    fill(large, LARGE, 12345);
    store(cache, large, LARGE, 0); // No more is related to it than its own bytes.

    // As after a restart: nothing is in memory.
    if (tinaja_cache_close(cache) != TINAJA_OK) die("close");
    cache = tinaja_cache_open(argument[1], NULL);
    if (cache < 0) die("open again");

    unsigned here = 0, reads = 0;
    for (uint32_t n = 0; n < CHUNKS; n++) {
        if (!find(cache, names[n], found, CHUNK, &reads)) continue;
        fill(chunk, CHUNK, n);
        if (memcmp(chunk, found, CHUNK) != 0) {
            fprintf(stderr, "chunk %u has wrong bytes\n", n);
            return 1;
        }
        here++;
    }
    struct fingerprint nobody = {{0}};
    if (find(cache, nobody, found, CHUNK, &reads)) return 1;
    printf("%u of %u chunks are here, found with %u reads of the program's own\n", here, CHUNKS, reads);

    reads = 0;
    if (!find(cache, fingerprint_of(large, LARGE), again, LARGE, &reads) || memcmp(large, again, LARGE) != 0) {
        fprintf(stderr, "the large object is not here, or is another\n");
        return 1;
    }
    printf("%u bytes were read in %u reads\n", (unsigned)LARGE, reads);

    // The same through calls as POSIX has them, from the middle.
    struct fingerprint name = fingerprint_of(large, LARGE);
    int64_t file = tinaja_open(cache, name.bytes, sizeof name.bytes);
    if (file < 0 || tinaja_length(file) != LARGE) die("open the large object");
    if (tinaja_seek(file, LARGE / 2, TINAJA_SEEK_SET) != LARGE / 2) die("seek");
    size_t rest = 0;
    for (int64_t got; (got = tinaja_read(file, again, CHUNK)) != 0; rest += (size_t)got) {
        if (got < 0) die("read");
        if (memcmp(large + LARGE / 2 + rest, again, (size_t)got) != 0) return 1;
    }
    if (rest != LARGE - LARGE / 2 || tinaja_close(file) != 0) die("close the large object");
    free(large);
    free(again);
    if (tinaja_cache_close(cache) != TINAJA_OK) die("close");
    return here >= CHUNKS * 9 / 10 ? 0 : 1;
}
